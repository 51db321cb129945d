/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/calls.h"
#include "core/base/nccl.h"
#include "core/base/util.h"
#include "profiles/launch/legacy.h"

/* The rows that decide one collective; n is 0 when the profile has no opinion on it. */
struct list {
        const struct capo_row *rows;
        uint32_t n;
};

static void lose(struct capo_legacy *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void lose(struct capo_legacy *out, const char *format, ...)
{
        _cleanup_free_ char *line = NULL;
        char *all;
        va_list args;

        va_start(args, format);
        if (vasprintf(&line, format, args) < 0)
                line = NULL;
        va_end(args);
        if (line && asprintf(&all, "%s%s\n", out->lost ? out->lost : "", line) > 0) {
                free(out->lost);
                out->lost = all;
        }
}

static void set(struct capo_legacy *out, const char *name, const char *value)
{
        if (getenv(name)) {
                lose(out, "%s=%s is not set: yours, %s, stays", name, value, getenv(name));
                return;
        }
        snprintf(out->set[out->n].name, sizeof out->set[0].name, "%s", name);
        snprintf(out->set[out->n].value, sizeof out->set[0].value, "%s", value);
        out->n++;
}

/* A threshold says "small sizes so, larger ones not". */
enum fits { NEVER_SAID, THRESHOLD, NO_THRESHOLD };

static enum fits threshold(const struct list *l, bool (*small)(const struct capo_row *), uint64_t *upto)
{
        bool over = false, said = false;

        *upto = 0;
        for (uint32_t i = 0; i < l->n; i++) {
                const struct capo_row *row = &l->rows[i];

                if (!row->algo) {
                        if (said || i + 1 < l->n)
                                return NO_THRESHOLD; /* a size left to NCCL cannot be kept out of a threshold */
                        return NEVER_SAID;
                }
                said = true;
                if (small(row)) {
                        if (over)
                                return NO_THRESHOLD;
                        *upto = row->upto;
                } else {
                        over = true;
                }
        }
        return said ? THRESHOLD : NEVER_SAID;
}

static bool is_tree(const struct capo_row *row)
{
        return row->algo == CAPO_ALGO_TREE;
}

static bool is_ll(const struct capo_row *row)
{
        return row->proto == CAPO_PROTO_LL;
}

static void put_threshold(struct capo_legacy *out, const char *name, uint64_t upto)
{
        char value[32];

        /* 2.4 reads it as a 64-bit number; "always" is the largest signed one. */
        snprintf(value, sizeof value, "%" PRIu64, upto > INT64_MAX ? (uint64_t)INT64_MAX : upto);
        set(out, name, value);
}

static void translate_2_4(const struct list *lists, struct capo_legacy *out)
{
        uint64_t upto = 0, first = 0;
        bool have = false, agree = true;

        switch (threshold(&lists[CAPO_COLL_ALLREDUCE], is_tree, &upto)) {
        case THRESHOLD: put_threshold(out, "NCCL_TREE_THRESHOLD", upto); break;
        case NO_THRESHOLD:
                lose(out, "allreduce: tree and ring by size cannot be said as one threshold (tree below, ring above, "
                          "no size left to NCCL)");
                break;
        case NEVER_SAID: break;
        }
        for (int c = 0; c < CAPO_COLLS; c++) {
                switch (threshold(&lists[c], is_ll, &upto)) {
                case THRESHOLD:
                        agree &= !have || upto == first;
                        first = upto;
                        have = true;
                        break;
                case NO_THRESHOLD:
                        lose(out, "%s: protocols by size cannot be said as one threshold (LL below, others above)",
                             capo_coll_word(c));
                        agree = false;
                        break;
                case NEVER_SAID: break;
                }
        }
        if (have && agree)
                put_threshold(out, "NCCL_LL_THRESHOLD", first);
        else if (have)
                lose(out, "NCCL_LL_THRESHOLD is one for all collectives, and the profile wants different ones");
}

/* All rows of all lists in [from, to) agree on a field: its value; -1 they do not; 0 nothing said. */
static int agreed(const struct list *lists, int from, int to, int (*field)(const struct capo_row *))
{
        int value = 0;
        bool first = true;

        for (int c = from; c < to; c++) {
                for (uint32_t i = 0; i < lists[c].n; i++) {
                        int v = field(&lists[c].rows[i]);

                        if (!first && v != value)
                                return -1;
                        value = v;
                        first = false;
                }
        }
        return value;
}

static int algo_of(const struct capo_row *row)
{
        return row->algo;
}

static int proto_of(const struct capo_row *row)
{
        return row->proto;
}

static int channels_of(const struct capo_row *row)
{
        return row->channels;
}

static void translate_2_5(const struct list *lists, int nccl, struct capo_legacy *out)
{
        bool allreduce_only = capo_nccl_has(nccl, CAPO_NCCL_ALGO_FOR_ALLREDUCE);
        int algo = agreed(lists, CAPO_COLL_ALLREDUCE, CAPO_COLL_ALLREDUCE + 1, algo_of);
        int proto = agreed(lists, 0, CAPO_COLLS, proto_of);

        if (algo > 0 && algo != CAPO_ALGO_RING && !allreduce_only)
                lose(out,
                     "allreduce: NCCL_ALGO=%s would reach every collective in this release, and the others have no %s",
                     capo_algo_name(algo), capo_algo_name(algo));
        else if (algo > 0)
                set(out, "NCCL_ALGO", capo_algo_name(algo));
        else if (algo < 0)
                lose(out, "allreduce: this release has no choice of algorithm by size, and the profile wants several");
        for (int c = 0; c < CAPO_COLL_ALLREDUCE; c++) {
                struct list one[CAPO_COLLS] = {lists[c]};
                int a = agreed(one, 0, 1, algo_of);

                if (a > 0 && a != CAPO_ALGO_RING)
                        lose(out, "%s: the algorithm cannot be chosen by variable in this release", capo_coll_word(c));
        }
        if (proto == CAPO_PROTO_LL128)
                lose(out, "NCCL_PROTO=LL128 is never set: naming it skips NCCL's own safety test of the links");
        else if (proto > 0)
                set(out, "NCCL_PROTO", capo_proto_name(proto));
        else if (proto < 0)
                lose(out, "NCCL_PROTO is one for all sizes and collectives, and the profile wants several");
}

int capo_legacy_translate(const struct capo_profile *profile, const struct capo_shape *shape, struct capo_legacy *out)
{
        _cleanup_free_ uint32_t *order = NULL;
        struct list lists[CAPO_COLLS] = {0};
        int n, channels;
        char value[16];

        if (!capo_nccl_has(shape->nccl, CAPO_NCCL_TRANSLATED))
                return -ERANGE;
        *out = (struct capo_legacy){0};
        n = capo_match(profile, shape, &order);
        if (n < 0)
                return n;
        for (int i = 0; i < n; i++) {
                const struct capo_rule *rule = &profile->rules[order[i]];

                for (int c = 0; c < CAPO_COLLS; c++) {
                        if (!rule->count[c] || lists[c].n)
                                continue;
                        if (capo_when_asks(&rule->when)) {
                                lose(out, "%s: a rule with conditions on single calls (line %u) is passed over",
                                     capo_coll_word(c), rule->line);
                                continue;
                        }
                        lists[c] = (struct list){&profile->rows[rule->first[c]], rule->count[c]};
                }
        }
        if (!n)
                lose(out, "no rule of the profile holds for what is known before the job starts (nodes, ranks, layout: "
                          "--layout helps)");
        if (capo_nccl_has(shape->nccl, CAPO_NCCL_TUNED_BY_THRESHOLD))
                translate_2_4(lists, out);
        else
                translate_2_5(lists, shape->nccl, out);
        channels = agreed(lists, 0, CAPO_COLLS, channels_of);
        if (channels > 0) {
                snprintf(value, sizeof value, "%d", channels);
                set(out,
                    capo_nccl_has(shape->nccl, CAPO_NCCL_TUNED_BY_THRESHOLD) ? "NCCL_MAX_NRINGS" : "NCCL_MAX_NCHANNELS",
                    value);
        } else if (channels < 0) {
                lose(out, "the number of channels is one for the whole process in this release, and the profile wants "
                          "several");
        }
        return 0;
}
