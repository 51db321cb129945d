/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `capo plan` share. */
#ifndef CAPO_PLAN_CLI_H
#define CAPO_PLAN_CLI_H

#include <limits.h>
#include <stdio.h>

#include "profiles/plan/plan.h"

enum plan_format { PLAN_TEXT, PLAN_JSON, PLAN_CSV };

struct plan_options {
        const char *layout;   /* what a launcher says of it; NULL: the truth; "" nothing */
        const char *topo[16]; /* as given; the stored file of a platform when only that was named */
        size_t n_topo;
        const char *graph_files[16]; /* NCCL_GRAPH_FILE per node, NULL none */
        size_t n_graph_files;
        const char *platform, *alloc, *gpus, *colls, *sizes, *nccl, *profile, *tuner;
        int every, every_2; /* --every 3; --every 3+5 sets both */
        unsigned timeout_ms, jobs;
        bool spy, graph, all, log, allow_modelled;
        enum plan_format format;

        /* worked out */
        char tools[PATH_MAX], libnccl[PATH_MAX], stored[PATH_MAX], plugin[PATH_MAX], profile_path[PATH_MAX];
        struct capo_plan_gpu ranks[CAPO_PLAN_RANKS_MAX];
        size_t n_ranks;
        uint16_t devs[CAPO_PLAN_GPUS_MAX]; /* of the first topology */
        size_t n_devs;
        struct capo_plan_ask *asks;
        size_t n_asks;
        char class[256]; /* of the allocation, as capo run exports it; "" not known, or no profile asks */
};

/**
 * plan_prepare() - work out what the options name: asks, libnccl, tools, machine, ranks
 *
 * Return: an exit status, after saying what is wrong. The caller frees o->asks.
 */
int plan_prepare(struct plan_options *o);

/**
 * plan_ask() - ask NCCL by itself, and with the profile's plugin or the tuner where one was named
 * @verb:    who asks, for messages
 * @answers: zeroed; filled, the second only when there was something to compare; finish both in any case
 *
 * Return: an exit status, after saying what is wrong.
 */
int plan_ask(const struct plan_options *o, const char *verb, bool graph, struct capo_plan_answer answers[2]);

/** plan_layout() - what a launcher tells the tuner: the option, or the allocation itself. @text: CAPO_LAYOUT_TEXT. */
const char *plan_layout(const struct plan_options *o, char *text, size_t room);

/** plan_layout_option() - the value of --layout into o->layout: a layout, "none" or "". Return: an exit status. */
int plan_layout_option(struct plan_options *o, const char *text);

/** plan_question() - the question of these options; @tuned with the profile's plugin or the tuner. */
struct capo_plan_question plan_question(const struct plan_options *o, bool tuned);

/** plan_print() - @tuned NULL: nothing to compare with. Return: an exit status. */
int plan_print(const struct plan_options *o, const struct capo_plan_answer *plain,
               const struct capo_plan_answer *tuned);

/** plan_rules_text() - the row of the profile behind each answer: "my.json:41 measured, gain 17 %"; rows[i] "" for
 * none. Return: malloc'ed n_rows texts; NULL when the profile cannot be read here (a stored one's name, or none). */
char (*plan_rules_text(const struct plan_options *o, const struct capo_plan_answer *plain))[96];

/** plan_every() - the atlas. Return: an exit status. */
int plan_every(struct plan_options *o);

/** plan_version_text() - "2.28.9" of 22809. */
const char *plan_version_text(int version, char text[16]);

/** plan_nodes_text() - "{1,2,3} + {0,1,2,3,4}". */
const char *plan_nodes_text(const struct capo_plan_gpu *gpus, size_t n, char *text, size_t room);

/** plan_graph_find() - by id, NULL when NCCL found none. */
const struct capo_plan_graph *plan_graph_find(const struct capo_plan_answer *a, int id);

#endif
