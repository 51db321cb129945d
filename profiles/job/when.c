/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "profiles/job/when.h"

const char *capo_when_name(enum capo_when_by by)
{
        static const char *const names[CAPO_WHENS] = {"host", "order", "guess"};

        return by < CAPO_WHENS ? names[by] : "?";
}

/* Streams one after the other, each in the order in which the host filled it. */
static int by_stream(const void *a_, const void *b_)
{
        const struct capo_when *a = a_, *b = b_;

        if (a->stream != b->stream)
                return a->stream < b->stream ? -1 : 1;
        if (a->host_begin != b->host_begin)
                return a->host_begin < b->host_begin ? -1 : 1;
        return a->nth < b->nth ? -1 : a->nth > b->nth;
}

static int by_begin(const void *a_, const void *b_)
{
        const struct capo_when *a = a_, *b = b_;

        if (a->begin != b->begin)
                return a->begin < b->begin ? -1 : 1;
        return a->nth < b->nth ? -1 : a->nth > b->nth;
}

void capo_when_all(struct capo_when *calls, size_t n)
{
        const struct capo_when *before = NULL; /* the last one on the GPU in this stream */

        if (n)
                qsort(calls, n, sizeof *calls, by_stream);
        for (size_t i = 0; i < n; i++) {
                struct capo_when *c = &calls[i];

                if (before && before->stream != c->stream)
                        before = NULL;
                c->begin = c->host_begin;
                c->end = c->host_end;
                c->by = CAPO_WHEN_HOST;
                if (!c->gpu_ns)
                        continue;
                if (before && before->end > c->begin) {
                        c->begin = before->end;
                        c->by = before->measured && before->by != CAPO_WHEN_GUESS ? CAPO_WHEN_ORDER : CAPO_WHEN_GUESS;
                }
                c->end = c->begin + c->gpu_ns;
                before = c;
        }
        if (n)
                qsort(calls, n, sizeof *calls, by_begin);
}
