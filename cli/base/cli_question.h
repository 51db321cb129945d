/* SPDX-License-Identifier: Apache-2.0 */
/* A question to real NCCL as a command line puts it, for capo plan, capo explain and whoever asks
 * like them. */
#ifndef CAPO_CLI_QUESTION_H
#define CAPO_CLI_QUESTION_H

#include <limits.h>

#include "profiles/plan/plan.h"

struct cli_question {
        const char *layout;   /* what a launcher says of it; NULL: the truth; "" nothing */
        const char *topo[16]; /* as given; the stored file of a platform when only that was named */
        size_t n_topo;
        const char *platform, *alloc, *gpus, *colls, *sizes, *nccl, *profile, *tuner;
        const char *nccl_2; /* ask this release too, in place of a tuner */
        int domain;         /* nodes of an NVLink domain; 0: as the platform has it; 1: none */
        unsigned timeout_ms, jobs;
        bool spy, log, allow_modelled, windows, whole;

        /* worked out */
        char tools[PATH_MAX], libnccl[PATH_MAX], libnccl_2[PATH_MAX], stored[PATH_MAX],
                written[PATH_MAX], plugin[PATH_MAX], profile_path[PATH_MAX];
        struct capo_plan_gpu ranks[CAPO_PLAN_RANKS_MAX];
        size_t n_ranks;
        uint16_t devs[CAPO_PLAN_GPUS_MAX]; /* of the first topology */
        size_t n_devs;
        struct capo_plan_ask *asks;
        size_t n_asks;
        bool tuner_by_name; /* no file has the tuner's name: libnccl-tuner-NAME.so has it */
        char class[256]; /* of the allocation, as capo run exports it; "" not known, or no profile
                            asks */
};

/**
 * cli_question_prepare() - work out what the words name: asks, libnccl, tools, machine
 * cli_question_ranks() - then the ranks, and their class where a profile may ask for it
 * @verb: who asks, for messages
 *
 * Return: an exit status, after saying what is wrong. The caller ends it with
 * cli_question_finish().
 */
int cli_question_prepare(struct cli_question *q, const char *verb);
int cli_question_ranks(struct cli_question *q, const char *verb);
void cli_question_finish(struct cli_question *q);

/**
 * cli_question_ask() - ask NCCL by itself, and with the profile's plugin or the tuner where one was
 * named
 * @answers: zeroed; filled, the second only when there was something to compare; finish both in any
 * case
 *
 * Return: an exit status, after saying what is wrong.
 */
int cli_question_ask(const struct cli_question *q, const char *verb, bool graph,
                     struct capo_plan_answer answers[2]);

/** cli_question_layout() - what a launcher tells the tuner: the option, or the allocation itself.
 * @text: CAPO_LAYOUT_TEXT. */
const char *cli_question_layout(const struct cli_question *q, char *text, size_t room);

/** cli_question_take_layout() - the value of --layout into `layout` (CLI_TAKE): a layout, or
 * "none". */
const char *cli_question_take_layout(void *layout, const char *value);

/** cli_question_make() - as the library takes it; @tuned with the profile's plugin or the tuner. */
struct capo_plan_question cli_question_make(const struct cli_question *q, bool tuned);

#endif
