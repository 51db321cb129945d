/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of `capo plan`. */
#pragma once

#include "cli/base/cli_machine.h"
#include "cli/base/cli_page.h"
#include "cli/base/cli_question.h"
#include "profiles/plan/plan_judge.h"

struct plan_options {
        struct cli_question q;
        int every, every_2; /* --every 3; --every 3+5 sets both */
        double timeout_s;   /* 0: the default */
        enum cli_form form;
        bool graph, all;
        struct fragment_advice advice;
        bool by_rules; /* the profile was read here (it is no stored one's name): differences name
                          its rows */
};

/** plan_page() - a comparison as text. @tuned NULL: nothing to compare
 * with. */
struct cli_page *plan_page(const struct plan_options *o, const struct capo_plan_answer *plain,
                           const struct capo_plan_answer *tuned,
                           const struct capo_plan_comparison *c);

#define PLAN_JSON (JSON_INDENT(1) | JSON_REAL_PRECISION(9))

/** plan_nodes() - number of nodes in the allocation. */
static inline unsigned plan_nodes(const struct plan_options *o)
{
        unsigned n = 0;

        for (size_t i = 0; i < o->q.n_ranks; i++)
                n = o->q.ranks[i].node >= n ? o->q.ranks[i].node + 1u : n;
        return n;
}
