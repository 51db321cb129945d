/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "capo/call_ids.h"
#include "profiles/fragment/expected.h"
#include "profiles/machine/platform.h"

#define NORMAL false
#define LOW    true
#define PUBLIC_RATE(as, platform, layout, call, bytes, busbw, nccl, source) \
        {platform, layout, CAPO_CALL_##call, bytes, busbw, nccl, source, as},
const struct capo_public_rate capo_public_rates[] = {
#include "profiles/fragment/public_rates.def"
};
#undef NORMAL
#undef LOW
const size_t capo_n_public_rates = N_ELEMENTS(capo_public_rates);

#define SATURATED     (UINT64_C(1) << 30) /* from this size on, larger messages are not slower */
#define SMALL         (UINT64_C(64) << 20)
#define ABOVE_CEILING 1.05 /* a measurement above it is an error; less can be rounding */

/* ---- what is normal ---- */

/* Was @rate measured on such a machine, in this layout? In a rack NVLink connects all nodes: only the
 * number of ranks matters. */
static bool fits_shape(const struct capo_expected_shape *shape, const struct capo_public_rate *rate)
{
        const struct capo_platform *a = capo_platform_find(shape->platform),
                                   *b = capo_platform_find(rate->platform);
        struct capo_layout layout;

        if (capo_layout_parse(rate->layout, &layout, NULL) < 0 ||
            !(b && b->tray ? layout.n_ranks == shape->layout.n_ranks
                           : capo_layout_equal(&layout, &shape->layout)))
                return false;
        if (!a || !b)
                return *shape->platform && !strcmp(shape->platform, rate->platform);
        return shape->layout.n_nodes == 1 ? !strcmp(a->classes, b->classes)
                                          : shape->named && a == b;
}

/* Does a rate of a message of @rate bytes hold for @measured ones? Of small ones the size determines it. */
static bool is_same_size(uint64_t measured, uint64_t rate)
{
        return measured == rate ||
               (rate >= SMALL && ((measured >= rate / 2 && measured / 2 <= rate) ||
                                  (measured > rate && rate >= SATURATED)));
}

/* Measurements on the platform that the user named come before those on similar ones. */
static void add_rates(const struct capo_expected_shape *shape, struct capo_expected_row *row,
                      bool named)
{
        unsigned first = row->n_rates;

        for (size_t i = 0; i < capo_n_public_rates; i++) {
                const struct capo_public_rate *rate = &capo_public_rates[i];
                bool is_named = shape->named && capo_platform_find(shape->platform) ==
                                                        capo_platform_find(rate->platform);

                if (rate->low || rate->call != row->call || row->n_rates == CAPO_EXPECTED_RATES ||
                    is_named != named || !is_same_size(row->bytes, rate->bytes) ||
                    !fits_shape(shape, rate))
                        continue;
                row->rates[row->n_rates++] = rate;
                for (unsigned k = row->n_rates - 1;
                     k > first && row->rates[k]->busbw_gbs < row->rates[k - 1]->busbw_gbs; k--) {
                        row->rates[k] = row->rates[k - 1];
                        row->rates[k - 1] = rate;
                }
        }
}

static enum capo_expected_verdict judge_share(double share, double normal, double low)
{
        return share >= normal ? CAPO_EXPECTED_NORMAL
               : share >= low  ? CAPO_EXPECTED_LOW
                               : CAPO_EXPECTED_NOT_NORMAL;
}

void capo_expected_judge(const struct capo_expected_shape *shape, struct capo_expected_row *row)
{
        bool small = row->bytes < SMALL;

        row->n_rates = 0;
        add_rates(shape, row, true);
        add_rates(shape, row, false);
        row->by = row->n_rates         ? CAPO_BY_PUBLIC
                  : row->predicted > 0 ? CAPO_BY_NCCL
                  : row->ceiling > 0   ? CAPO_BY_CEILING
                                       : CAPO_BY_NOTHING;
        row->normal = row->n_rates ? row->rates[0]->busbw_gbs
                                   : (row->predicted > 0 ? row->predicted : row->ceiling);
        switch (row->by) {
        case CAPO_BY_PUBLIC:
                row->verdict = judge_share(row->measured / row->normal, 0.8, 0.5);
                break;
        case CAPO_BY_NCCL:
                row->verdict = judge_share(row->measured / row->normal, small ? 0.4 : 0.7,
                                           small ? 0.2 : 0.4);
                break;
        case CAPO_BY_CEILING:
                row->verdict = row->measured >= 0.7 * row->normal ? CAPO_EXPECTED_NORMAL
                               : row->measured < 0.1 * row->normal && !small
                                       ? CAPO_EXPECTED_NOT_NORMAL
                                       : CAPO_EXPECTED_UNKNOWN;
                break;
        default: row->verdict = CAPO_EXPECTED_UNKNOWN;
        }
        if (row->ceiling > 0 && row->measured > ABOVE_CEILING * row->ceiling)
                row->verdict = CAPO_EXPECTED_IMPOSSIBLE;
}

/* ---- causes ---- */

enum nodes { ONE, MANY, ANY };
enum fits { ANYWAY, FORCED, SHARE, ONE_NIC, NVLINK, SHARP };

static const struct cause_row {
        const char *name;
        enum nodes nodes;
        enum fits fits;
        double least, most;
        const char *words, *text, *next;
} causes[] = {
#define EXPECTED_CAUSE(id, nodes, fits, least, most, words, text, next) \
        {#id, nodes, fits, least, most, words, text, next},
#include "profiles/fragment/expected_causes.def"
};

/* May it be, in this layout, by the share of normal? With @proof no share is needed. */
static bool can_be(const struct cause_row *cause, const struct capo_expected_shape *shape,
                   const struct capo_expected_row *row, bool proof)
{
        double share = row->normal > 0 ? row->measured / row->normal : 0;
        bool usual = share >= cause->least && share <= cause->most;

        if (cause->nodes != ANY && (cause->nodes == MANY) != (shape->layout.n_nodes > 1))
                return false;
        switch (cause->fits) {
        case NVLINK: return shape->nvlink && (proof || usual);
        case SHARP: return shape->sharp && row->call == CAPO_CALL_ALLREDUCE && (proof || usual);
        case SHARE:
                return proof && row->measured >= cause->least * row->normal &&
                       row->measured <= cause->most * row->normal;
        case FORCED: return proof;
        case ONE_NIC:
                return proof ||
                       (shape->n_nics > 1 && fabs(share * (double)shape->n_nics - 1) < 0.5);
        default: return proof || usual;
        }
}

/* The first of the words that the evidence contains. */
static bool find_proof(const char *words, bool (*has)(const char *text, void *arg), void *arg,
                       char proof[64])
{
        while (*words) {
                size_t n = strcspn(words, "|");

                snprintf(proof, 64, "%.*s", (int)n, words);
                if (has(proof, arg))
                        return true;
                words += n + (words[n] == '|');
        }
        *proof = 0;
        return false;
}

unsigned capo_expected_causes(const struct capo_expected_shape *shape,
                              const struct capo_expected_row *row,
                              bool (*has)(const char *text, void *arg), void *arg,
                              struct capo_expected_cause *out)
{
        unsigned n = 0;

        for (int proved = 1; proved >= 0; proved--) {
                for (size_t i = 0; i < N_ELEMENTS(causes) && n < CAPO_EXPECTED_CAUSES; i++) {
                        const struct cause_row *c = &causes[i];
                        const char *next = c->next, *behind = strstr(next, "; ");
                        char proof[64];
                        bool found = find_proof(c->words, has, arg, proof),
                             shown = found && c->fits != SHARE; /* its words name the machine */

                        if (shown != (proved == 1) || !can_be(c, shape, row, found))
                                continue;
                        /* with proof, skip the advice how to look for it */
                        if (proved && behind && !strncmp(next, "NCCL_DEBUG=INFO: ", 17))
                                next = behind + 2;
                        out[n] = (struct capo_expected_cause){c->name, c->text, next, ""};
                        if (shown)
                                memcpy(out[n].proof, proof, sizeof proof);
                        n++;
                }
        }
        return n;
}

/* ---- GPUs by their names ---- */

enum gpu_form { CARD, MODULE, FEWER };

static const struct known_gpu {
        const char *name;
        int sm;
        enum gpu_form form;
        double link, peer, net;
        const char *platform;
} known_gpus[] = {
#define KNOWN_GPU(name, sm, form, link, peer, net, platform) \
        {name, sm, form, link, peer, net, platform},
#include "profiles/fragment/known_gpus.def"
};

static const struct known_gpu *find_gpu(const char *gpu)
{
        for (size_t i = 0; *gpu && i < N_ELEMENTS(known_gpus); i++) {
                if (strstr(gpu, known_gpus[i].name))
                        return &known_gpus[i];
        }
        return NULL;
}

const char *capo_expected_misfit(const char *gpu, int sm, bool named)
{
        const struct known_gpu *known = find_gpu(gpu);

        if (!known || (!known->sm && known->form == MODULE)) /* of another maker */
                return *gpu && named ? "is not known to be in that machine" : NULL;
        if (named && known->form == CARD)
                return "is a card, and that machine has modules with NVLink";
        if (named && known->form == FEWER)
                return "has fewer NVLinks than the GPUs of that machine";
        return known->sm && sm && known->sm != (sm == 103 ? 100 : sm)
                       ? "is not the GPU of that machine"
                       : NULL;
}

bool capo_expected_by_gpu(const char *gpu, struct capo_expected_shape *shape,
                          struct capo_expected_row *row)
{
        const struct known_gpu *known = find_gpu(gpu);
        const struct capo_platform *tray, *rack;
        unsigned n = shape->layout.n_ranks;
        double link;

        if (!known || n < 2 || (shape->layout.n_nodes > 1 && known->net <= 0))
                return false;
        link = shape->layout.n_nodes > 1                                ? known->net
               : known->peer > 0 && known->peer * (n - 1) < known->link ? known->peer * (n - 1)
                                                                        : known->link;
        shape->platform = known->platform;
        tray = capo_platform_find(known->platform);
        for (size_t i = 0; tray && n > (unsigned)tray->n_gpus && (rack = capo_platform_at(i));
             i++) {
                if (rack->tray && !strcmp(rack->tray, tray->name) && n <= (unsigned)rack->n_gpus) {
                        shape->platform = rack->name; /* the smallest of such trays */
                        break;
                }
        }
        shape->named = false;
        shape->nvlink = known->form != CARD;
        shape->sharp = known->form != CARD && known->sm >= 90;
        /* switches that add: each GPU sends once what a ring sends 2 (n - 1) / n times */
        row->ceiling =
                shape->sharp && row->call == CAPO_CALL_ALLREDUCE ? link * 2 * (n - 1) / n : link;
        capo_expected_judge(shape, row);
        return row->by != CAPO_BY_NOTHING;
}

const char *capo_expected_word(enum capo_expected_verdict verdict)
{
        static const char *const words[] = {"unknown", "normal", "low", "not-normal", "impossible"};

        return words[verdict];
}

const char *capo_expected_by_word(enum capo_expected_by by)
{
        static const char *const words[] = {"", "public", "nccl", "ceiling"};

        return words[by];
}
