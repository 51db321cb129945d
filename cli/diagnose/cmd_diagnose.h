/* SPDX-License-Identifier: Apache-2.0 */
/* capo diagnose: what its files share. diagnose_inputs.c reads files, diagnose_jobs.c asks the
 * engine of capo hang, diagnose_page.c prints. */
#ifndef CAPO_CLI_DIAGNOSE_H
#define CAPO_CLI_DIAGNOSE_H

#include <stdio.h>

#include "analysis/diagnose/evidence.h"

struct diagnose_paths {
        char **v;
        size_t n;
};

struct diagnose_inputs {
        struct capo_evidence evidence;
        struct diagnose_paths flight; /* JSON dumps of the flight recorder, named as they were */
        struct diagnose_paths logs;   /* of capo */
        char folder[32];              /* where pickles were put as JSON; "" none */
        uint32_t n_files;
        bool logs_judged; /* beside texts */
};

/** diagnose_read() - all @words: files, folders, "-". What cannot be read is a warning. Return: 0;
 * -ENOENT: nothing could be read; -ENOMEM. diagnose_finish() in any case. */
int diagnose_read(struct diagnose_inputs *in, int n, char **words);
void diagnose_finish(struct diagnose_inputs *in);

/** diagnose_flight(), diagnose_ras() - one more finding, by the engine of capo hang. Return: 0;
 * -ENOMEM. @text: of RAS, changed; @number: of its evidence text. */
int diagnose_flight(struct diagnose_inputs *in);
/* diagnose_logs() - one more finding, of the job that the logs of capo are of. What cannot be
 * judged is a warning. Return: 0; -ENOMEM. */
int diagnose_logs(struct diagnose_inputs *in);
int diagnose_ras(struct capo_evidence *e, char *text, uint32_t number);

/** diagnose_page(), diagnose_json() - the page; @markdown: to paste into an issue. diagnose_bugs()
 * - the known bugs of an NCCL release, 0: all. Return: 0; -EIO. */
int diagnose_page(struct diagnose_inputs *in, bool markdown, FILE *out);
int diagnose_json(struct diagnose_inputs *in, FILE *out);
int diagnose_bugs(int release, bool json, FILE *out);

/** diagnose_exit() - 0, 1 or 3. */
int diagnose_exit(const struct diagnose_inputs *in);

#endif
