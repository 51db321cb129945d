/* SPDX-License-Identifier: Apache-2.0 */
/* capo fit --runs: what was made of each run, so that a person can check it in a minute. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/fit/page.h"
#include "core/base/util.h"

/* What the samples of a run are labelled with. */
struct labels {
        uint16_t first;
        bool any, several, own;
        size_t n;
};

static void label_text(const struct labels *l, const struct capo_trial *t, char *text, size_t room)
{
        struct capo_fit_candidate c = {(uint8_t)(l->first >> 12), (uint8_t)(l->first >> 8 & 15), (uint8_t)l->first};

        if (t->left_out)
                snprintf(text, room, "unknown");
        else if (l->several)
                snprintf(text, room, l->own ? "a sweep" : "candidates");
        else
                capo_fit_candidate_text(&c, text, room);
}

void fit_runs(const struct capo_samples *set)
{
        _cleanup_free_ struct labels *labels = calloc(set->n_runs + 1, sizeof *labels);

        for (size_t i = 0; labels && i < set->n; i++) {
                struct labels *l = &labels[set->v[i].run];
                uint16_t label = (uint16_t)(set->v[i].want << 8 | set->v[i].want_channels);

                l->several |= l->any && label != l->first;
                l->own |= label == 0;
                l->first = label;
                l->any = true;
                l->n++;
        }
        printf("%-44s %8s  %-18s %s\n", "run", "samples", "label", "why");
        for (size_t i = 0; labels && i < set->n_runs; i++) {
                const struct capo_trial *t = &set->runs[i];
                char where[64], label[48];
                size_t n = strlen(t->source);

                snprintf(where, sizeof where, "%s%.36s:%u", n > 36 ? "..." : "", t->source + (n > 36 ? n - 36 : 0),
                         t->line);
                label_text(&labels[i], t, label, sizeof label);
                printf("%-44s %8zu  %-18s %s%s\n", where, labels[i].n, t->left_out ? "takes no part" : label,
                       t->why[0] ? t->why : "the input says it",
                       t->settings[0] && !t->left_out ? "; NCCL settings beside" : "");
        }
        for (size_t i = 0; i < set->n_notes; i++)
                printf("%s\n", set->notes[i]);
}
