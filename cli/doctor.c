/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "profiles/doctor/doctor.h"

static const char *const level_names[] = {"ok", "note", "warn", "FAIL"};

static void help(void)
{
        puts("usage: capo doctor [--json] [-- COMMAND [ARG...]]\n\n"
             "Says before a job what would go wrong: will capo see this program's NCCL (linked, opened at run time, "
             "linked in\n"
             "statically), which tuner, profiler and net plugin NCCL would load and what capo does beside them, which "
             "settings\n"
             "are dead, contradictory or dangerous for this NCCL release, which fast network stays unused, and whether "
             "there\n"
             "is room to record. COMMAND is looked at, not run; a Python interpreter is asked for its search path.\n\n"
             "  ok    fine            note  worth knowing\n"
             "  warn  probably wrong  FAIL  will not work\n\n"
             "Exit status: 0 no FAIL, 1 at least one FAIL, 2 wrong command line.\n\n"
             "  capo doctor -- python train.py\n"
             "  NCCL_TREE_THRESHOLD=0 capo doctor -- ./all_reduce_perf");
}

static void print_json(const struct capo_findings *f, const struct capo_reach *reach)
{
        json_t *rows = json_array(), *page;

        for (size_t i = 0; i < f->n; i++)
                json_array_append_new(rows, json_pack("{s:s, s:s, s:s}", "level", level_names[f->rows[i].level],
                                                      "topic", f->rows[i].topic, "text", f->rows[i].text));
        page = json_pack("{s:i, s:s, s:i, s:o}", "capo_doctor", 1, "libnccl", reach->library, "nccl", reach->version,
                         "findings", rows);
        json_dumpf(page, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(page);
}

int capo_verb_doctor(int argc, char **argv)
{
        struct capo_findings f = {0};
        struct capo_reach reach;
        char *const *command = NULL;
        bool json = false, fail = false;

        for (int i = 1; i < argc; i++) {
                if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
                        help();
                        return CAPO_EXIT_OK;
                }
                if (!strcmp(argv[i], "--json")) {
                        json = true;
                } else if (!strcmp(argv[i], "--")) {
                        command = i + 1 < argc ? argv + i + 1 : NULL;
                        break;
                } else {
                        capo_error("doctor: unknown option \"%s\"; a command goes behind --; capo doctor --help",
                                   argv[i]);
                        return CAPO_EXIT_USAGE;
                }
        }
        capo_doctor_command(&f, command, &reach);
        capo_doctor_plugins(&f, reach.version);
        capo_doctor_settings(&f, reach.version);
        capo_doctor_gpus(&f);
        capo_doctor_network(&f);
        capo_doctor_recording(&f);
        for (size_t i = 0; i < f.n; i++)
                fail |= f.rows[i].level == CAPO_FINDING_FAIL;
        if (json) {
                print_json(&f, &reach);
        } else {
                for (size_t i = 0; i < f.n; i++)
                        printf("%-5s %-10s %s\n", level_names[f.rows[i].level], f.rows[i].topic, f.rows[i].text);
        }
        capo_findings_finish(&f);
        return fail ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}
