/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening communicators and answering the questions that are more than a table look-up.
 *
 * The profile of a process is loaded once, at its first communicator, and kept until the process ends, as are the
 * tables compiled from it, one set per shape of communicator; a job that makes thousands of communicators pays for a
 * few shapes. The library is never unloaded (linked with -z nodelete): NCCL closes and reopens a tuner when the last
 * communicator goes and a new one comes, and what was learned once stays.
 *
 * When this rank cannot do what all ranks were told to do, going on is the one dangerous thing: the others would choose
 * algorithms that this rank does not, and the job would hang hours later in a collective that nobody suspects. So
 * the communicator's init fails, with the reason. Everything else ends in "no opinion".
 */
#include <errno.h>
#include <float.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "capo/env.h"
#include "capo/msg.h"
#include "core/base/calls.h"
#include "core/base/layout.h"
#include "core/log/rules.h"
#include "core/profile/find.h"
#include "tuner/chain.h"
#include "tuner/choose.h"
#include "tuner/comm_name.h"
#include "tuner/sweep.h"
#include "tuner/tuner_env.h"
#include "tuner/version.h"

/* Defined by the recorder in libcapo.so, which makes this one give way. */
__attribute__((weak)) const struct capo_seam *capo_seam;
struct capo_choice (*capo_sweep_choose)(const struct capo_sweep_ask *ask);

/* A table that has no opinion at any size. */
static const struct capo_table empty = {
        .octave = {[0 ... 63] = {63, 0}},
        .bucket = {{UINT64_MAX, CAPO_CELL_LEAVE, 0}, {UINT64_MAX, CAPO_CELL_LEAVE, 0}},
};

struct shape_tables {
        struct shape_tables *next;
        struct capo_shape shape; /* comm is a copy, layout points to `layout` */
        char layout[CAPO_LAYOUT_TEXT];
        struct capo_tables *tables;
};
#define SHAPES_MAX 256

static struct {
        pthread_mutex_t lock;
        bool ready;
        struct capo_profile *profile; /* NULL: none in force */
        bool failed;                  /* CAPO_PROFILE cannot be obeyed: `why` says why */
        char why[1000];
        struct shape_tables *shapes;
        unsigned n_shapes;
        char layout[CAPO_LAYOUT_TEXT]; /* of the job, by CAPO_LAYOUT or this rank's launcher; "" not known */
        bool speaks;         /* rank 0 by the launcher, or no launcher: says what every rank would say alike */
        bool direct_blocked; /* NCCL_ALGO or NCCL_PROTO is set */
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The payload of a RULES frame: what numbers in records mean. */
static void tell_rules(const struct capo_profile *p)
{
        enum { ROWS_MAX = 4096 };
        struct capo_rules_row row = {0};
        char *text = NULL;
        size_t size = 0;
        FILE *f;

        if (!capo_seam || !capo_seam->rules)
                return;
        f = open_memstream(&text, &size);
        if (!f)
                return;
        capo_rules_put(f, CAPO_RULES_DIGEST, "%s", p->digest);
        capo_rules_put(f, CAPO_RULES_MODELLED, "%s", capo_tuner_env()->allow_modelled ? "allowed" : "not allowed");
        capo_rules_put(f, CAPO_RULES_FILE, "%s", p->file);
        capo_rules_put(f, CAPO_RULES_NAME, "%s", p->name);
        for (uint32_t r = 0; r < p->n_rules; r++) {
                const struct capo_rule *rule = &p->rules[r];

                capo_when_print(&rule->when, row.when, sizeof row.when);
                for (int c = 0; c < CAPO_COLLS; c++) {
                        snprintf(row.coll, sizeof row.coll, "%s", capo_coll_word(c));
                        for (uint32_t k = 0; k < rule->count[c] && rule->first[c] + k < ROWS_MAX; k++) {
                                const struct capo_row *of = &p->rows[rule->first[c] + k];

                                row.rule = rule->first[c] + k + 1;
                                row.line = of->line;
                                row.from = of->from;
                                row.upto = of->upto;
                                row.channels = of->channels;
                                snprintf(row.algo, sizeof row.algo, "%s", capo_algo_name(of->algo));
                                snprintf(row.proto, sizeof row.proto, "%s", capo_proto_name(of->proto));
                                capo_rules_put_row(f, &row);
                        }
                }
        }
        if (p->n_rows > ROWS_MAX)
                capo_rules_put(f, CAPO_RULES_MORE, "%u", p->n_rows - ROWS_MAX);
        if (!fclose(f))
                capo_seam->rules(text);
        free(text);
}

static bool first_rank(void)
{
        static const char *const names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};

        for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                const char *text = getenv(names[i]);

                if (text && *text)
                        return !strcmp(text, "0");
        }
        return true;
}

static const char *get_variable(const char *name, void *user)
{
        return getenv(name);
}

static void read_launcher(void)
{
        struct capo_layout_launch launch;
        int r = capo_layout_from_rank(get_variable, NULL, &launch);

        if (*launch.said && state.speaks)
                capo_warn("%s", launch.said);
        if (r == 0)
                capo_layout_print(&launch.layout, state.layout, sizeof state.layout);
}

/* Everything that happens once per process. Called with the lock held. */
static void load(void)
{
        const struct capo_env *env = capo_tuner_env();
        const char *wanted = env->profile, *digest = env->profile_digest;
        struct capo_fault fault;
        char path[4096], agreed[CAPO_AGREEMENT];
        uint32_t n;

        state.speaks = first_rank();
        state.direct_blocked =
                (getenv("NCCL_ALGO") && *getenv("NCCL_ALGO")) || (getenv("NCCL_PROTO") && *getenv("NCCL_PROTO"));
        if (env->off || !strcmp(env->tuner, "off") || !strcmp(env->tuner, "chain"))
                return;
        if (!*wanted) {
                if (*digest)
                        snprintf(state.why, sizeof state.why,
                                 "CAPO_PROFILE_DIGEST is %s but CAPO_PROFILE is not set in this process", digest);
        } else if (!strcmp(wanted, "auto") && !*digest) {
                capo_warn_once("CAPO_PROFILE=auto tunes only under capo run, which makes all ranks use one file: no "
                               "profile used");
        } else if (capo_profile_find(wanted, NULL, path, sizeof path, &fault) < 0 ||
                   capo_profile_load(path, &state.profile, &fault) < 0) {
                snprintf(state.why, sizeof state.why, "%s%s%s%s", fault.text,
                         *digest ? " (the other ranks use a profile with digest " : "", digest, *digest ? ")" : "");
        } else if (*digest && strcasecmp(digest, capo_profile_agreement(state.profile, env->allow_modelled, agreed))) {
                bool same_file = !strncasecmp(digest, state.profile->digest, strlen(state.profile->digest));

                snprintf(state.why, sizeof state.why,
                         "%.700s has digest %s, but the job was started with digest %s: %s", path, agreed, digest,
                         same_file ? "CAPO_ALLOW_MODELLED is not the same here"
                                   : "the file is another one here, or was changed since the start");
                capo_profile_free(state.profile);
                state.profile = NULL;
        }
        if (*state.why && !env->strict) {
                capo_warn("%s; going on with NCCL's own choices because CAPO_STRICT=0", state.why);
                *state.why = 0;
        }
        state.failed = *state.why;
        if (state.profile) {
                read_launcher();
                capo_debug("profile %s, digest %s, %u rules, %u rows", state.profile->file, state.profile->digest,
                           state.profile->n_rules, state.profile->n_rows);
                tell_rules(state.profile);
                n = env->allow_modelled ? 0 : capo_profile_modelled(state.profile);
                if (n) /* with a digest, capo run has said it once for the job */
                        capo_msg(*digest ? CAPO_DEBUG : CAPO_INFO,
                                 "modelled rules of the profile that are not used: %u; CAPO_ALLOW_MODELLED=1 on every "
                                 "rank uses them",
                                 n);
        }
}

static bool same_text(const char *a, const char *b)
{
        return a == b || (a && b && !strcmp(a, b));
}

static bool same_shape(const struct capo_shape *a, const struct capo_shape *b)
{
        return a->n_ranks == b->n_ranks && a->n_nodes == b->n_nodes && a->min_local == b->min_local &&
               a->max_local == b->max_local && a->nccl == b->nccl && a->allow_modelled == b->allow_modelled &&
               same_text(a->layout, b->layout) && same_text(a->fragment, b->fragment) && same_text(a->comm, b->comm);
}

/* The tables for a shape, from the cache or compiled; @own: the caller frees them. Called with the lock held. 0,
 * -ENOMEM, -E2BIG. */
static int tables_of(const struct capo_shape *shape, const struct capo_tables **out, bool *own)
{
        struct shape_tables *s;
        struct capo_tables *tables;
        int r;

        for (s = state.shapes; s; s = s->next) {
                if (same_shape(&s->shape, shape)) {
                        *out = s->tables;
                        *own = false;
                        return 0;
                }
        }
        r = capo_tables_new(state.profile, shape, &tables);
        if (r < 0)
                return r;
        *out = tables;
        s = state.n_shapes < SHAPES_MAX ? calloc(1, sizeof *s) : NULL;
        *own = !s;
        if (s) {
                s->shape = *shape;
                s->shape.comm = shape->comm ? strdup(shape->comm) : NULL;
                if (shape->layout) {
                        snprintf(s->layout, sizeof s->layout, "%s", shape->layout);
                        s->shape.layout = s->layout;
                }
                s->tables = tables;
                s->next = state.shapes;
                state.shapes = s;
                state.n_shapes++;
        }
        return 0;
}

static void correct(struct capo_nccl_constants *k, const struct capo_rule *rule)
{
        for (uint32_t i = 0; i < rule->n_constants; i++) {
                const struct capo_constant *c = &rule->constants[i];
                double(*bw)[3] = NULL;

                switch (c->table) {
                case CAPO_CONST_BASE_LATENCY: k->base_latency[c->index[0]][c->index[1]] = c->value; break;
                case CAPO_CONST_HW_LATENCY: k->hw_latency[c->index[0]][c->index[1]][c->index[2]] = c->value; break;
                case CAPO_CONST_LL_BW: bw = k->ll_bw; break;
                case CAPO_CONST_RING_LL128_BW: bw = k->ring_ll128_bw; break;
                case CAPO_CONST_TREE_LL128_BW: bw = k->tree_ll128_bw; break;
                case CAPO_CONST_TREE_BW: bw = k->tree_bw; break;
                case CAPO_CONST_NVLS_TREE_BW: bw = k->nvls_tree_bw; break;
                default: break;
                }
                if (bw)
                        bw[c->index[0]][c->index[1]] = c->value;
        }
}

static capo_nccl_result refuse(const struct capo_tuner_info *info, const char *why)
{
        capo_error("this rank cannot tune as the others do, so the communicator is not made: %s", why);
        if (info->log)
                info->log(CAPO_NCCL_LOG_WARN, (unsigned long)CAPO_NCCL_ALL, __FILE__, __LINE__, "TUNER/capo: %s", why);
        return CAPO_NCCL_INVALID_USAGE;
}

static void layouts_free(struct capo_tuner_layouts *l)
{
        if (!l)
                return;
        for (unsigned i = 0; i < l->n_own; i++)
                capo_tables_free((struct capo_tables *)l->own[i]);
        capo_seen_free(l->seen);
        free(l);
}

static int layouts_table(struct capo_tuner_layouts *l, const struct capo_shape *shape, const struct capo_tables **out)
{
        bool own = false;
        int r = tables_of(shape, out, &own);

        if (r == 0 && own)
                l->own[l->n_own++] = *out;
        return r;
}

/* Tables for every layout that NCCL's cost table may settle. @told: without a layout. Called with the lock held. */
static int layouts_open(const struct capo_shape *told, const struct capo_layout_why *why, const char *claim,
                        struct capo_tuner_layouts **out)
{
        struct capo_seen *seen = NULL;
        int r = capo_seen_new(state.profile, told, why, claim, &seen);
        struct capo_tuner_layouts *l = seen ? calloc(1, sizeof *l) : NULL;

        if (!l) {
                capo_seen_free(seen);
                return r < 0 ? r : seen ? -ENOMEM : 0;
        }
        l->seen = seen;
        r = layouts_table(l, told, &l->unknown);
        for (int i = 0; i < seen->n_layouts && r == 0; i++) {
                struct capo_shape shape = *told;
                char layout[CAPO_LAYOUT_TEXT];

                capo_shape_claim(&shape, seen->layout[i], layout, sizeof layout);
                r = layouts_table(l, &shape, &l->by[i]);
        }
        if (r < 0)
                layouts_free(l);
        else
                *out = l;
        return r;
}

/* Match the profile to the communicator. 0 or -errno. */
static int match(const struct capo_tuner_info *info, struct capo_tuner *t, const char *comm_name)
{
        const struct capo_env *env = capo_tuner_env();
        char layout[CAPO_LAYOUT_TEXT];
        struct capo_shape shape = {.n_ranks = t->n_ranks,
                                   .n_nodes = t->n_nodes,
                                   .min_local = info->nvl && info->nvl->min_ranks > 0 ? info->nvl->min_ranks : -1,
                                   .max_local = info->nvl && info->nvl->max_ranks > 0 ? info->nvl->max_ranks : -1,
                                   .nccl = capo_nccl_version(info->log),
                                   .allow_modelled = env->allow_modelled,
                                   .fragment = *env->fragment_class ? env->fragment_class : NULL,
                                   .comm = comm_name};
        struct capo_shape told = shape;
        struct capo_layout_why why = {.source = CAPO_LAYOUT_NCCL};
        int r;

        if (info->abi == 1) /* asked without a communicator: see abi_v1.c */
                shape = (struct capo_shape){.n_ranks = -1,
                                            .n_nodes = -1,
                                            .min_local = -1,
                                            .max_local = -1,
                                            .nccl = shape.nccl,
                                            .allow_modelled = env->allow_modelled};
        else
                capo_shape_fill(&shape, state.layout, layout, sizeof layout, &why);
        if (why.dropped && state.speaks)
                capo_warn_once("%d ranks on %d nodes: %s (it says %s)", t->n_ranks, t->n_nodes, why.text, state.layout);
        r = tables_of(&shape, &t->tables, &t->own_tables);
        if (r < 0)
                return r;
        /* a model with other constants is none the profile's list knows */
        if (info->abi >= 3 && !(t->tables->constants && info->constants))
                r = layouts_open(&told, &why, shape.layout, &t->layouts);
        if (r < 0)
                return r;
        for (int c = 0; c < CAPO_COLLS; c++) {
                if (t->tables->table[c])
                        t->table[c] = t->tables->table[c];
        }
        t->plain = !t->tables->asks && !t->layouts;
        if (t->tables->constants && info->constants)
                correct(info->constants, t->tables->constants);
        return 0;
}

static void tell_comm(const struct capo_tuner_info *info, const struct capo_tuner *t, const char *comm_name)
{
        const struct capo_rule *first = t->tables ? t->tables->first : NULL;
        char when[400], where[800];
        struct capo_seam_comm comm = {.comm_hash = info->comm_id,
                                      .n_ranks = t->n_ranks,
                                      .rank = -1,
                                      .n_nodes = t->n_nodes,
                                      .min_local = info->nvl ? info->nvl->min_ranks : -1,
                                      .max_local = info->nvl ? info->nvl->max_ranks : -1,
                                      .name = comm_name,
                                      .tuned = first || t->layouts};

        if (first) {
                snprintf(where, sizeof where, "%s:%u: %s", state.profile->file, first->line,
                         capo_when_print(&first->when, when, sizeof when));
                comm.rule_when = where;
        }
        if (capo_seam && capo_seam->comm)
                capo_seam->comm(&comm);
        if (info->log && state.profile)
                info->log(CAPO_NCCL_LOG_INFO, CAPO_NCCL_TUNING, __FILE__, __LINE__,
                          "TUNER/capo: %d ranks on %d nodes: %s%s (digest %s)", t->n_ranks, t->n_nodes,
                          first ? where : "no rule of the profile holds",
                          t->layouts ? ", unless NCCL's cost table tells another layout" : "", state.profile->digest);
}

/* NCCL 2.19 to 2.21 run what they are told. Ring and Tree with LL and Simple exist on every machine; NVLS where the
 * flag says so; LL128 corrupts data on links that split 128-byte stores, and nothing here tells those links apart;
 * CollNet has conditions of its own. (2.19.1 to 2.21.5: enqueue.cc getAlgoInfo, graph/tuning.cc.) */
static bool safe_anywhere(const struct capo_tuner *t, int func, struct capo_choice c, int nvls)
{
        if (c.algo == CAPO_ALGO_RING || (c.algo == CAPO_ALGO_TREE && func == CAPO_COLL_ALLREDUCE))
                return c.proto != CAPO_PROTO_LL128;
        if (c.proto != CAPO_PROTO_SIMPLE || !nvls)
                return false;
        if (c.algo == CAPO_ALGO_NVLS)
                return func == CAPO_COLL_ALLREDUCE ||
                       (t->n_nodes == 1 && (func == CAPO_COLL_ALLGATHER || func == CAPO_COLL_REDUCESCATTER));
        return c.algo == CAPO_ALGO_NVLS_TREE && func == CAPO_COLL_ALLREDUCE && t->n_nodes > 1;
}

static void fill_direct(struct capo_tuner *t)
{
        for (int c = 0; c < CAPO_COLLS && !state.direct_blocked; c++) {
                for (uint32_t cell = 0; cell < CAPO_CELLS_QUICK; cell++) {
                        if (safe_anywhere(t, c, capo_choice_unpack(cell), 0))
                                t->direct[c] |= (uint8_t)(1u << cell);
                }
        }
}

capo_nccl_result capo_tuner_open(const struct capo_tuner_info *info, struct capo_tuner **out)
{
        struct capo_tuner *t = aligned_alloc(64, sizeof *t);
        char comm_name[128];
        const char *name = NULL;
        capo_nccl_result nccl_result = CAPO_NCCL_SUCCESS;
        int r = t ? 0 : -ENOMEM;

        if (r < 0)
                return refuse(info, "out of memory");
        *t = (struct capo_tuner){.comm_id = info->comm_id,
                                 .n_ranks = info->n_ranks < INT32_MAX ? (int)info->n_ranks : INT32_MAX,
                                 .n_nodes = info->n_nodes < INT32_MAX ? (int)info->n_nodes : INT32_MAX,
                                 .plain = true};
        for (int c = 0; c < CAPO_COLLS; c++)
                t->table[c] = &empty;
        pthread_mutex_lock(&state.lock);
        if (!state.ready) {
                load();
                state.ready = true;
        }
        if (info->abi == 1)
                t->n_nodes = -1;
        if (info->n_ranks > 1) { /* one rank agrees with itself and is never asked */
                if (info->comm_id && capo_comm_name_find(info->comm_id, comm_name, sizeof comm_name))
                        name = comm_name;
                if (!state.failed && state.profile)
                        r = match(info, t, name);
        }
        pthread_mutex_unlock(&state.lock);
        if (info->n_ranks > 1 && state.failed)
                nccl_result = refuse(info, state.why);
        else if (r < 0)
                nccl_result =
                        refuse(info, r == -E2BIG ? "the CSV has more than 64 values of pipe_ops for this communicator"
                                                 : strerror(-r));
        else if (info->n_ranks > 1 && strcmp(capo_tuner_env()->tuner, "off") && strcmp(capo_tuner_env()->tuner, "only"))
                nccl_result = capo_chain_open(info, &t->chain);
        if (nccl_result) {
                capo_tuner_close(t);
                return nccl_result;
        }
        fill_direct(t);
        t->decided = capo_seam ? capo_seam->decided : NULL;
        t->plain = t->plain && !t->chain && !(capo_sweep_choose && capo_seam && capo_seam->current);
        if (info->n_ranks > 1)
                tell_comm(info, t, name);
        *out = t;
        return CAPO_NCCL_SUCCESS;
}

capo_nccl_result capo_tuner_close(struct capo_tuner *t)
{
        if (!t)
                return CAPO_NCCL_SUCCESS;
        capo_chain_close(t->chain);
        if (t->own_tables)
                capo_tables_free((struct capo_tables *)t->tables);
        layouts_free(t->layouts);
        free(t);
        return CAPO_NCCL_SUCCESS;
}

/* What the cost table shows about links; see core/profile/match.h. */
static void see_links(const struct capo_tuner *t, struct capo_question *q, const float *table, int n_algos,
                      int n_protos)
{
        double traffic = (double)q->bytes * capo_busbw_factor(capo_coll_kind(q->coll), (unsigned)t->n_ranks);
        const float *ring, *tree;

        if (!table || n_algos < CAPO_ALGO_RING || n_protos < CAPO_PROTO_SIMPLE)
                return;
        tree = table + (CAPO_ALGO_TREE - 1) * n_protos;
        ring = table + (CAPO_ALGO_RING - 1) * n_protos;
        if (ring[CAPO_PROTO_LL128 - 1] >= 0)
                q->link = CAPO_LINK_NVLINK;
        else if (ring[CAPO_PROTO_SIMPLE - 1] >= 0)
                q->link = CAPO_LINK_OTHER;
        if (q->bytes < CAPO_GBS_MIN_BYTES)
                return;
        if (ring[CAPO_PROTO_SIMPLE - 1] > 0)
                q->ring_gbs = traffic / 1000 / (double)ring[CAPO_PROTO_SIMPLE - 1];
        if (tree[CAPO_PROTO_SIMPLE - 1] > 0)
                q->tree_gbs = traffic / 1000 / (double)tree[CAPO_PROTO_SIMPLE - 1];
}

/* The tables of this question's layout; what the cost table says goes before the launcher, and is said once. */
static const struct capo_tables *by_layout(const struct capo_tuner *t, const struct capo_question *q,
                                           const float *table, int n_algos, int n_protos)
{
        const struct capo_tuner_layouts *l = t->layouts;
        int i = CAPO_SEEN_UNASKED;

        if (table && n_algos >= CAPO_ALGO_RING && n_protos >= CAPO_PROTO_SIMPLE)
                i = capo_seen_find(l->seen, q->coll, q->bytes, q->pipe_ops,
                                   (double)table[(CAPO_ALGO_RING - 1) * n_protos + CAPO_PROTO_SIMPLE - 1]);
        if (i == CAPO_SEEN_UNASKED)
                return t->tables;
        if (unlikely(i < 0 && l->seen->claim >= 0 && state.speaks))
                capo_warn_once("%d ranks on %d nodes: %s (it says %s)", t->n_ranks, t->n_nodes, CAPO_SEEN_CONTRADICTS,
                               l->seen->layout[l->seen->claim]);
        return i < 0 ? l->unknown : l->by[i];
}

struct capo_choice capo_choose(const struct capo_tuner *t, struct capo_question *q, const float *table, int n_algos,
                               int n_protos)
{
        const struct capo_tables *tables = t->tables;

        q->ring_gbs = q->tree_gbs = -1;
        if (capo_sweep_choose && capo_seam && capo_seam->current) {
                struct capo_sweep_ask ask = {.question = *q,
                                             .table = table,
                                             .n_algos = n_algos,
                                             .n_protos = n_protos,
                                             .n_ranks = t->n_ranks,
                                             .n_nodes = t->n_nodes};

                if (capo_seam->current(&ask.call)) {
                        struct capo_choice c = capo_sweep_choose(&ask);

                        if (c.algo)
                                return c;
                }
        }
        if (!tables)
                return (struct capo_choice){0};
        if (t->layouts)
                tables = by_layout(t, q, table, n_algos, n_protos);
        if (tables->asks_links)
                see_links(t, q, table, n_algos, n_protos);
        return capo_tables_find(tables, q);
}

/* Write the choice where it is available, and before all else. */
static capo_nccl_result apply(const struct capo_tuner *t, struct capo_choice c, float *table, int n_algos, int n_protos,
                              int *channels)
{
        int at = (c.algo - 1) * n_protos + c.proto - 1;

        if (!c.algo || c.algo > n_algos || c.proto > n_protos || !(table[at] >= 0))
                return CAPO_NCCL_SUCCESS;
        for (int i = 0; i < at; i++) {
                if (table[i] == 0)
                        table[i] = FLT_MIN;
        }
        table[at] = 0.0f;
        if (c.channels)
                *channels = c.channels;
        return t->decided ? capo_tuner_decided(t, capo_choice_pack(c)) : CAPO_NCCL_SUCCESS;
}

capo_nccl_result capo_tuner_ask_table(const struct capo_tuner *t, const struct capo_table *rows, size_t bytes,
                                      float *table, int n_algos, int *channels)
{
        return apply(t, capo_table_find(rows, bytes), table, n_algos, CAPO_NCCL_PROTOS, channels);
}

capo_nccl_result capo_tuner_ask_all(const struct capo_tuner *t, int func, size_t bytes, int pipe_ops, float *table,
                                    int n_algos, int n_protos, int reg_buff, int *channels)
{
        struct capo_question q = {
                .coll = (uint8_t)func, .bytes = bytes, .pipe_ops = pipe_ops, .reg_buff = (int8_t)reg_buff};
        struct capo_choice c =
                t->plain ? capo_table_find(t->table[func], bytes) : capo_choose(t, &q, table, n_algos, n_protos);

        if (!c.rule && t->chain) { /* a row that says "leave to NCCL" is an opinion */
                capo_chain_ask(t->chain, func, bytes, pipe_ops, table, n_algos, n_protos, reg_buff, channels);
                return CAPO_NCCL_SUCCESS;
        }
        return apply(t, c, table, n_algos, n_protos, channels);
}

capo_nccl_result capo_tuner_decided(const struct capo_tuner *t, uint32_t word)
{
        t->decided((uint16_t)(word >> 16));
        return CAPO_NCCL_SUCCESS;
}

static capo_nccl_result apply_direct(const struct capo_tuner *t, int func, struct capo_choice c, int nvls, int *algo,
                                     int *proto, int *channels)
{
        if (!c.algo || state.direct_blocked || !safe_anywhere(t, func, c, nvls))
                return CAPO_NCCL_SUCCESS;
        *algo = c.algo - 1;
        *proto = c.proto - 1;
        if (c.channels)
                *channels = c.channels;
        return t->decided ? capo_tuner_decided(t, capo_choice_pack(c)) : CAPO_NCCL_SUCCESS;
}

capo_nccl_result capo_tuner_ask_direct_table(const struct capo_tuner *t, int func, size_t bytes, int nvls, int *algo,
                                             int *proto, int *channels)
{
        return apply_direct(t, func, capo_table_find(t->table[func], bytes), nvls, algo, proto, channels);
}

capo_nccl_result capo_tuner_ask_direct_all(const struct capo_tuner *t, int func, size_t bytes, int collnet, int nvls,
                                           int pipe_ops, int *algo, int *proto, int *channels)
{
        struct capo_question q = {.coll = (uint8_t)func, .bytes = bytes, .pipe_ops = pipe_ops, .reg_buff = -1};
        struct capo_choice c = capo_choose(t, &q, NULL, 0, 0);

        if (!c.rule && !c.algo && t->chain) {
                capo_chain_ask_direct(t->chain, func, bytes, collnet, nvls, pipe_ops, algo, proto, channels);
                return CAPO_NCCL_SUCCESS;
        }
        return apply_direct(t, func, c, nvls, algo, proto, channels);
}
