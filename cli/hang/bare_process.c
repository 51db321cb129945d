/* SPDX-License-Identifier: Apache-2.0 */
/* The page for a process that capo does not record: what can be seen, and what would show more. */
#include <errno.h>
#include <string.h>

#include "capo/msg.h"
#include "cli/base/cli_json.h"
#include "cli/base/cli_screen.h"
#include "cli/hang/cmd_hang.h"
#include "cli/hang/stacks_json.h"
#include "core/base/plain_text.h"
#include "core/base/util.h"
#include "analysis/process/proc_pid.h"

struct unrecorded {
        int pid;
        char name[64], waits[300];
        char nccl[400], capo[400]; /* mapped files; "": none */
        int readable;              /* 0, or the error of reading its mappings: -errno */
};

static void find_process_library(struct unrecorded *s, const char *name, char *path, size_t room)
{
        int r = *path ? 0 : capo_pid_library(s->pid, name, path, room);

        if (r < 0)
                s->readable = r;
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

static int print_unrecorded_json(const struct unrecorded *s, bool stacks, FILE *out)
{
        json_t *none = json_null(),
               *threads = stacks ? hang_json_stacks(s->pid, &none) : json_array();
        json_t *no_python, *python = hang_json_python(s->pid, &no_python);

        return cli_json_print(
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

int hang_unrecorded(int pid, bool stacks, bool as_json, FILE *out)
{
        static const char *const with_nccl[] = {"libnccl.so", "librccl.so", "libtorch_cuda.so"};
        struct unrecorded s = {.pid = pid};

        if (!capo_pid_state(pid))
                return capo_fail(-ESRCH, "pid %d: no such process here, and no log of one", pid);
        capo_pid_name(pid, s.name, sizeof s.name);
        capo_pid_waits(pid, s.waits, sizeof s.waits);
        for (size_t i = 0; i < N_ELEMENTS(with_nccl); i++)
                find_process_library(&s, with_nccl[i], s.nccl, sizeof s.nccl);
        find_process_library(&s, "libcapo.so", s.capo, sizeof s.capo);
        capo_plain(s.name, strlen(s.name), false, true);
        if (as_json)
                return print_unrecorded_json(&s, stacks, out);
        print_unrecorded(&s, stacks, out);
        return ferror(out) ? -EIO : 0;
}
