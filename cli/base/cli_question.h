/* SPDX-License-Identifier: Apache-2.0 */
/* A question to NCCL from a command line, for capo plan, capo explain and others. */
#pragma once

#include <limits.h>

#include "profiles/plan/plan.h"

struct cli_question {
        const char *layout;   /* the launcher's layout; NULL: that of the allocation; "": none */
        const char *topo[16]; /* as given; the stored file of a platform if only that was named */
        size_t n_topo;
        const char *platform, *alloc, *gpus, *colls, *sizes, *nccl, *profile, *tuner;
        const char *nccl_2; /* compare with this release instead of a tuner */
        int domain;         /* nodes per NVLink domain; 0: as in the platform; 1: none */
        unsigned timeout_ms, jobs;
        bool spy, log, allow_modelled, windows, whole;

        /* derived values */
        char tools[PATH_MAX], libnccl[PATH_MAX], libnccl_2[PATH_MAX], stored[PATH_MAX],
                written[PATH_MAX], plugin[PATH_MAX], profile_path[PATH_MAX];
        struct capo_plan_gpu ranks[CAPO_PLAN_RANKS_MAX];
        size_t n_ranks;
        uint16_t devs[CAPO_PLAN_GPUS_MAX]; /* of the first topology */
        size_t n_devs;
        struct capo_plan_ask *asks;
        size_t n_asks;
        bool tuner_by_name; /* the tuner's name is no file: libnccl-tuner-NAME.so is meant */
        char class[256]; /* of the allocation, as capo run exports it; "": not known, or no profile
                            needs it */
};

/** cli_question_prepare() - resolve asks, libnccl, tools and machine cli_question_ranks() - then
 * resolve the ranks, and their class if a profile may use it
 * @verb: for messages
 *
 * Return: an exit status, after printing the reason. The caller ends it with cli_question_finish().
 */
int cli_question_prepare(struct cli_question *q, const char *verb);
int cli_question_ranks(struct cli_question *q, const char *verb);
void cli_question_finish(struct cli_question *q);

/** cli_question_ask() - ask NCCL alone, and again with the profile's plugin or the named tuner
 * @answers: zeroed; filled, the second only if there is something to compare. Finish both in any
 * case
 *
 * Return: an exit status, after printing the reason. */
int cli_question_ask(const struct cli_question *q, const char *verb, bool graph,
                     struct capo_plan_answer answers[2]);

/** cli_question_layout() - the layout that a launcher tells the tuner: the option, or that of the
 * allocation. @text: CAPO_LAYOUT_TEXT. */
const char *cli_question_layout(const struct cli_question *q, char *text, size_t room);

/** cli_question_take_layout() - parse --layout into `layout` (CLI_TAKE): a layout, or "none". */
const char *cli_question_take_layout(void *layout, const char *value);

/** cli_question_make() - the library's form of the question; @tuned: with the profile's plugin or
 * the tuner. */
struct capo_plan_question cli_question_make(const struct cli_question *q, bool tuned);
