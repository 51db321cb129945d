/* SPDX-License-Identifier: Apache-2.0 */
/* capo fit --runs: how each run was classified, for a quick check. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/base/cli_screen.h"
#include "cli/base/cli_table.h"
#include "cli/fit/fit_page.h"
#include "core/base/util.h"
#include "core/base/xalloc.h"

/* The labels of a run's samples. */
struct labels {
        uint64_t first; /* algo_proto << 40 | channels << 32 | chunk */
        bool any, several, own;
        size_t n;
};

static void label_text(const struct labels *l, const struct capo_trial *t, char *text, size_t room)
{
        struct capo_fit_candidate c = {.algo = (uint8_t)(l->first >> 44),
                                       .proto = (uint8_t)(l->first >> 40 & 15),
                                       .channels = (uint8_t)(l->first >> 32),
                                       .chunk = (uint32_t)l->first};

        if (t->left_out)
                snprintf(text, room, "unknown");
        else if (l->several)
                snprintf(text, room, l->own ? "NCCL's and others" : "candidates");
        else
                capo_fit_candidate_text(&c, text, room);
}

void fit_runs(const struct capo_samples *set)
{
        _cleanup_(capo_table_freep) struct capo_table *t = capo_table_new("l44,.r8/a,l18,.l~");
        _cleanup_free_ struct labels *labels = xcalloc(set->n_runs + 1, sizeof *labels);

        for (size_t i = 0; labels && i < set->n; i++) {
                struct labels *l = &labels[set->v[i].run];
                uint64_t label = (uint64_t)set->v[i].want << 40 |
                                 (uint64_t)set->v[i].want_channels << 32 | set->v[i].want_chunk;

                l->several |= l->any && label != l->first;
                l->own |= label == 0;
                l->first = label;
                l->any = true;
                l->n++;
        }
        capo_table_row(t, "run\tsamples\tlabel\twhy");
        for (size_t i = 0; labels && i < set->n_runs; i++) {
                const struct capo_trial *run = &set->runs[i];
                char where[64], label[56];
                size_t n = strlen(run->source);

                snprintf(where, sizeof where, "%s%.36s:%u", n > 36 ? "..." : "",
                         run->source + (n > 36 ? n - 36 : 0), run->line);
                label_text(&labels[i], run, label, sizeof label);
                capo_table_row(t, "%s\t%zu\t%s\t%s%s", where, labels[i].n,
                               run->left_out ? "takes no part" : label,
                               run->why[0] ? run->why : "the input says it",
                               run->settings[0] && !run->left_out ? "; NCCL settings beside" : "");
        }
        capo_table_print(t, cli_screen_begin(stdout), 1);
        for (size_t i = 0; i < set->n_notes; i++)
                printf("%s\n", set->notes[i]);
}
