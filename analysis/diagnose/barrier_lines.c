/* SPDX-License-Identifier: Apache-2.0 */
/* "[Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 600000 ms": rank 0 of a barrier over
 * Gloo says itself who did not come. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/diagnose/evidence.h"

static const char WORDS[] = " failed to pass monitoredBarrier";

struct barrier {
        struct capo_evidence *e;
        struct capo_diagnose_finding *f; /* NULL: none so far */
        uint32_t text;
};

/* The list that ends at @at: back to the word "Rank" or "Ranks" before it. */
static void take_ranks(const char *line, const char *at, struct capo_diagnose_finding *f)
{
        const char *from = at;

        while (from > line && strchr("0123456789, ", from[-1]))
                from--;
        for (char *end; from < at; from = end) {
                long rank = strtol(from, &end, 10);

                if (end == from) {
                        end++;
                        continue;
                }
                if (rank >= 0 && rank < 1 << 20)
                        capo_finding_rank_add(f, (int32_t)rank);
        }
}

static int take_barrier(const char *at, const char *line, uint32_t number, void *arg)
{
        struct barrier *b = arg;

        b->f = b->f ? b->f : capo_evidence_finding(b->e);
        if (!b->f)
                return -1;
        take_ranks(line, at, b->f);
        capo_finding_mark(b->f, (struct capo_evidence_mark){b->text, number});
        return 0;
}

int capo_barriers_read(struct capo_evidence *e)
{
        struct barrier b = {.e = e};
        char who[128];

        for (b.text = 0; b.text < e->n_texts; b.text++) {
                if (e->texts[b.text].text &&
                    capo_evidence_each(e, b.text, WORDS, take_barrier, &b) < 0)
                        return -ENOMEM;
        }
        if (!b.f)
                return 0;
        b.f->rank = b.f->n_ranks ? CAPO_RANK_HANG : CAPO_RANK_UNDECIDED;
        b.f->kind = b.f->n_ranks ? "missing" : "undecided";
        capo_rank_list(b.f->ranks, b.f->n_ranks, who);
        snprintf(b.f->headline, sizeof b.f->headline, "%s DID NOT COME to monitoredBarrier()",
                 b.f->n_ranks ? capo_rank_shout(who) : "SOME RANKS");
        snprintf(b.f->detail, sizeof b.f->detail, "rank 0 says so: the barrier asks each rank");
        snprintf(b.f->missing, sizeof b.f->missing, "stacks of these ranks: py-spy dump --pid PID");
        snprintf(b.f->next, sizeof b.f->next,
                 "look at what these ranks do instead: their logs, exit status, data loading");
        return 0;
}
