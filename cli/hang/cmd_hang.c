/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capo hang: which rank waits for which, now (reads the memory of live processes, stops none) or
 * when the job ended (from its logs). analysis/hang/hang_verdict.h judges; this file has the
 * command line.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_page.h"
#include "cli/hang/cmd_hang.h"
#include "core/base/xalloc.h"

enum { HANG_UNDECIDED_EXIT = 3 };

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
        int r, status = xalloc_status = HANG_UNDECIDED_EXIT;

        if ((o->ras && (n || o->flight)) || (o->flight && !n)) {
                capo_error(o->ras ? "--ras takes no operands"
                                  : "--flight: which files? One of each rank");
                return CAPO_EXIT_USAGE;
        }
        page.hang.after_ns = (uint64_t)(o->after * 1e9);
        logs.live = o->ras;
        if (o->ras)
                r = hang_ras(&page, o->ras, o->timeout);
        else if (o->flight)
                r = hang_flight(&page, n, words);
        else
                r = hang_gather(n, words, &logs) ?: logs.unrecorded_pid ? 0 : hang_page_read(&page);
        if (logs.unrecorded_pid) {
                hang_logs_finish(&logs);
                hang_unrecorded(logs.unrecorded_pid, o->stacks, o->form == CLI_FORM_JSON,
                                stdout); /* 3 in any case, also without a job */
                return HANG_UNDECIDED_EXIT;
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
        return r < 0 ? HANG_UNDECIDED_EXIT : status;
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
        .operand = "DIR",
        .most = UINT_MAX,
        .size = sizeof(struct options),
        .defaults = &defaults,
        .run = run_hang,
};
