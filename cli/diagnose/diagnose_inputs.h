/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of capo diagnose: diagnose_inputs.c reads files, diagnose_jobs.c uses the
 * engine of capo hang, diagnose_page.c prints. */
#pragma once

#include "analysis/diagnose/evidence.h"

struct diagnose_paths {
        char **v;
        size_t n;
};

struct diagnose_inputs {
        struct capo_evidence evidence;
        struct diagnose_paths
                flight; /* JSON dumps of the flight recorder, with their original names */
        struct diagnose_paths logs; /* capo logs */
        char folder[64];            /* temporary folder for pickles converted to JSON; "": none */
        uint32_t n_files;
        bool logs_judged; /* logs were judged together with texts */
};

/** diagnose_read() - read all @words: files, folders, "-". Unreadable ones give a warning. Return:
 * 0; -ENOENT: nothing could be read. Call diagnose_finish() in any case. */
int diagnose_read(struct diagnose_inputs *in, int n, char **words);
void diagnose_finish(struct diagnose_inputs *in);

/** diagnose_ras() - add a finding from the engine of capo hang. @text: RAS's answer, changed;
 * @number: index of its evidence text. diagnose_flight() - the same of all dumps of @in. */
void diagnose_ras(struct capo_evidence *e, char *text, uint32_t number);
void diagnose_flight(struct diagnose_inputs *in);

/** diagnose_logs() - add a finding about the job of the capo logs. A job that cannot be judged gives
 * a warning. */
void diagnose_logs(struct diagnose_inputs *in);

/** diagnose_page(), diagnose_json() - print the page; @markdown: for pasting into an issue.
 * diagnose_bugs() - print the known bugs of an NCCL release, 0: all. Return: 0; -EIO. */
int diagnose_page(struct diagnose_inputs *in, bool markdown, FILE *out);
int diagnose_json(struct diagnose_inputs *in, FILE *out);
int diagnose_bugs(int release, bool json, FILE *out);

/** diagnose_exit() - exit status: 0, 1 or 3. */
int diagnose_exit(const struct diagnose_inputs *in);
