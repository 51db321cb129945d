/* SPDX-License-Identifier: Apache-2.0 */
/* capo hang: which rank waits for which, now (reads the memory of live processes, stops none) or
 * when the job ended (from its logs). analysis/hang/hang_verdict.h judges; this file has the
 * command line. */
#include "analysis/process/proc_pid.h"
#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_page.h"
#include "cli/base/cli_screen.h"
#include "cli/hang/cmd_hang.h"
#include "cli/hang/stacks_json.h"
#include "core/base/plain_text.h"
#include "core/base/xalloc.h"

enum { AFTER_S = 10 };

char *hang_of_running(int n, char **words)
{
        struct hang_logs logs = {0};
        struct hang_page page = {.logs = &logs, .after_s = AFTER_S};
        const struct capo_hang_verdict *v = &page.verdict;
        char *line = NULL;

        page.hang.after_ns = (uint64_t)AFTER_S * 1000000000;
        if (hang_gather(n, words, &logs) == 0 && logs.live && hang_page_read(&page) == 0 &&
            v->kind != CAPO_HANG_HEALTHY && v->kind != CAPO_HANG_SLOW && !page.hang.over &&
            (v->kind != CAPO_HANG_UNDECIDED || v->still_ns >= page.hang.after_ns))
                line = hang_headline(&page, ", "); /* something stands */
        hang_page_finish(&page);
        hang_logs_finish(&logs);
        return line;
}

/* The page's lines become a list: indented lines belong to the item above. */
static int hang_markdown(const struct hang_page *p, FILE *out)
{
        _cleanup_free_ char *text = NULL;
        size_t size = 0, n = 0;
        FILE *page = xmemstream(&text, &size);
        int r = hang_text(p, page);

        xmemclose(page);
        for (char *line, *rest = text; r == 0 && (line = strsep(&rest, "\n")) && rest; n++) {
                size_t indent = strspn(line, " ");

                if (n > 1)
                        fprintf(out, "%*s* ", indent > 2 ? (int)indent - 2 : 0, "");
                else
                        fputs(n ? "\n**" : "## ", out);
                cli_markdown_text(out, line + indent);
                fputs(n == 1 ? "**\n\n" : "\n", out);
        }
        return r < 0 ? r : fflush(out) || ferror(out) ? -EIO : 0;
}

/* The page for a process that capo does not record: what can be seen, and what would show more. */
struct unrecorded {
        int pid;
        char name[64], waits[300];
        char nccl[400], capo[400]; /* mapped files; "": none */
        int readable;              /* 0, or the error of reading its mappings: -errno */
};

static void find_process_library(struct unrecorded *s, const char *name, char *path, size_t room)
{
        s->readable = (*path ? 0 : capo_pid_library(s->pid, name, path, room)) ?: s->readable;
        capo_plain(path, strlen(path), false, true);
}

static const char *suggest_next_step(const struct unrecorded *s)
{
        if (s->readable < 0)
                return "ask as its user, or as root";
        return *s->capo
                       ? "it has capo's library: ask as its user, and inside its container, if it is in one "
                         "(there /dev/shm is another). Or it has made no NCCL call, or CAPO_DIR is not set"
                       : "start the job under capo (capo run COMMAND...). For this one: NCCL's RAS counts the "
                         "calls of each rank (capo hang --ras HOST, NCCL 2.24 and later), PyTorch's flight "
                         "recorder has the last ones (capo hang --flight FILES), and capo hang --stacks PID "
                         "shows its functions";
}

static void print_unrecorded(const struct unrecorded *s, bool stacks, FILE *to)
{
        FILE *out = cli_screen_begin(to);

        fprintf(out, "capo hang  pid %d (%s)\n%s\n", s->pid, s->name,
                s->readable < 0 ? "NOT KNOWN whether it is recorded"
                                : "NOT RECORDED: of its NCCL calls nothing is known");
        if (*s->waits)
                fprintf(out, "    alive: %s\n", s->waits);
        if (s->readable < 0)
                fprintf(out,
                        "    whether it has NCCL is not known: its list of libraries may not be read (%s)\n",
                        strerror(-s->readable));
        else if (*s->nccl)
                fprintf(out, "    it has NCCL: %s\n", s->nccl);
        else
                fputs("    it has no libnccl, librccl or libtorch_cuda; NCCL may be linked into another library, or not be loaded yet\n",
                      out);
        if (*s->capo)
                fprintf(out, "    it has %s, and what that records cannot be seen from here\n",
                        s->capo);
        if (!stacks || !hang_text_stacks(s->pid, out))
                hang_text_python(s->pid, out);
        fprintf(out, "NEXT  %s\n", suggest_next_step(s));
        fflush(out);
}

static void print_unrecorded_json(const struct unrecorded *s, bool stacks, FILE *out)
{
        json_t *none = json_null(),
               *threads = stacks ? hang_json_stacks(s->pid, &none) : json_array();
        json_t *no_python, *python = hang_json_python(s->pid, &no_python);

        cli_json_print(
                out,
                json_pack("{s:i, s:s, s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s}",
                          "capo_hang", 1, "verdict", "undecided", "recorded",
                          s->readable < 0 ? json_null() : json_false(), "pid", s->pid, "name",
                          cli_json_text(s->name), "waits", cli_json_text(s->waits), "nccl",
                          *s->nccl ? cli_json_text(s->nccl) : json_null(), "capo",
                          *s->capo ? cli_json_text(s->capo) : json_null(), "threads", threads,
                          "no_threads", none, "python", python, "no_python", no_python, "next",
                          suggest_next_step(s)),
                JSON_INDENT(2));
}

/* The page of a process that capo does not record; prints errors. */
static void hang_unrecorded(int pid, bool stacks, bool as_json, FILE *out)
{
        static const char *const with_nccl[] = {"libnccl.so", "librccl.so", "libtorch_cuda.so"};
        struct unrecorded s = {.pid = pid};

        if (!capo_pid_state(pid)) {
                capo_error("pid %d: no such process here, and no log of one", pid);
                return;
        }
        capo_pid_name(pid, pid, s.name, sizeof s.name);
        capo_pid_waits(pid, s.waits, sizeof s.waits);
        for (size_t i = 0; i < N_ELEMENTS(with_nccl); i++)
                find_process_library(&s, with_nccl[i], s.nccl, sizeof s.nccl);
        find_process_library(&s, "libcapo.so", s.capo, sizeof s.capo);
        capo_plain(s.name, strlen(s.name), false, true);
        (as_json ? print_unrecorded_json : print_unrecorded)(&s, stacks, out);
}

struct options {
        bool stacks;
        enum cli_form form;
        bool flight;
        double after, timeout;
        const char *ras;
};

static int run_hang(void *options, int n, char **words)
{
        const struct options *o = options;
        struct hang_logs logs = {0};
        struct hang_page page = {
                .logs = &logs, .after_s = o->after, .newest = !n && !o->ras, .stacks = o->stacks};
        int r, status = xalloc_status = CAPO_EXIT_UNKNOWN;

        if ((o->ras && (n || o->flight)) || (o->flight && !n)) {
                capo_error(o->ras ? "--ras takes no operands"
                                  : "--flight: which files? One of each rank");
                return CAPO_EXIT_USAGE;
        }
        page.hang.after_ns = (uint64_t)(o->after * 1e9);
        logs.live = o->ras;
        if (o->ras || o->flight) {
                page.job = capo_job_new();
                r = o->ras ? hang_ras(&page, o->ras, o->timeout) : hang_flight(&page, n, words);
                if (r == 0)
                        capo_hang_judge(&page.hang, &page.verdict);
                page.known = xcalloc(page.job->n_processes + 1, sizeof *page.known);
        } else {
                r = hang_gather(n, words, &logs) ?: logs.unrecorded_pid ? 0 : hang_page_read(&page);
        }
        if (logs.unrecorded_pid) {
                hang_logs_finish(&logs);
                hang_unrecorded(logs.unrecorded_pid, o->stacks, o->form == CLI_FORM_JSON,
                                stdout); /* 3 in any case, also without a job */
                return CAPO_EXIT_UNKNOWN;
        }
        if (r == 0) {
                hang_page_judge(&page);
                status = capo_hang_kind_exit(page.verdict.kind);
                r = (o->form == CLI_FORM_JSON       ? hang_json
                     : o->form == CLI_FORM_MARKDOWN ? hang_markdown
                                                    : hang_text)(&page, stdout);
        }
        hang_page_finish(&page);
        hang_logs_finish(&logs);
        if (r == -EDOM && o->ras) /* the address */
                return CAPO_EXIT_USAGE;
        return r < 0 ? CAPO_EXIT_UNKNOWN : status;
}

static const struct options defaults = {.after = 10, .timeout = 5};

static const struct cli_option options[] = {
        {"after", CLI_SECONDS(struct options, after, "SECONDS", 0, 86400),
         "how long nothing must have moved where only time tells a hang from a slow rank (10)"},
        {"flight", CLI_FLAG(struct options, flight),
         "the operands are dumps of PyTorch's flight recorder in JSON, one per rank, or folders of them"},
        CLI_FORM_JSON_OPTION(struct options, form),
        CLI_FORM_MARKDOWN_OPTION(struct options, form),
        {"ras", CLI_TEXT(struct options, ras, "HOST[:PORT]"),
         "ask NCCL's own RAS there (NCCL_RAS_ADDR; port 28028), twice, --after apart: for jobs without capo",
         .example = "localhost"},
        {"timeout", CLI_SECONDS(struct options, timeout, "SECONDS", 1, 3600),
         "of --ras: for one answer (5)"},
        {"stacks", CLI_FLAG(struct options, stacks),
         "what the threads of the culprits that live here are in; each is stopped for as long as its stack is read"},
        CLI_WIDE,
        {0}};

const struct cli_command hang_command = {
        .usage = "[OPTION...] [DIR|LOG|PID...] | --flight FILE... | --ras HOST[:PORT]",
        .about =
                "Explains why a job is stuck, or how it ended, and which rank caused it. capo "
                "hang reads the memory of the recorded processes and the logs of ranks that "
                "have exited, and finds out who waits for whom: a rank that never came, a call "
                "that differs from that of the others, an order that differs, a send without "
                "its receive. It also reads which lines of Python the culprits on this machine "
                "are in. No process is stopped, signalled or changed, except by --stacks.\n"
                "Without an operand it reads your newest job on this machine, or the one of several "
                "that is stuck. A PID means the "
                "job of that process; the PID of a launcher means its children. A DIR means the "
                "newest job whose logs are there, also when its processes are gone. For a PID "
                "without capo only its lines of Python are printed.",
        .options = options,
        .after = "  capo hang\n"
                 "  capo hang 3121\n"
                 "  capo hang --stacks 3121\n"
                 "  capo hang capo-logs/JOB",
        .status =
                "0 nothing hangs; 1 a hang was found, or a rank ended first and not well; 2 wrong command line; 3 not enough is recorded to say.",
        .most = UINT_MAX,
        .size = sizeof(struct options),
        .defaults = &defaults,
        .run = run_hang,
};
