/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing communicators.
 *
 * When this rank cannot do what all ranks were configured to do, going on is the one dangerous
 * thing: the others would choose algorithms that this rank does not, and the job would hang hours
 * later in a collective that nobody suspects. So the communicator's init fails, with the reason.
 * Everything else ends in "no opinion". */
#include "capo/env.h"
#include "capo/msg.h"
#include "core/base/lock.h"
#include "tuner/chain.h"
#include "tuner/chunk.h"
#include "tuner/comm_name.h"
#include "tuner/process.h"
#include "tuner/call_limits.h"
#include "tuner/sweep.h"
#include "tuner/tuner_env.h"
#include "tuner/version.h"

const char capo_plugin_name[] = "capo";

/* A table that has no opinion at any size. */
static const struct capo_table empty = {
        .octave = {[0 ... 63] = {63, 0}},
        .bucket = {{UINT64_MAX, CAPO_CELL_LEAVE, 0}, {UINT64_MAX, CAPO_CELL_LEAVE, 0}},
};

static void correct_constants(struct capo_nccl_constants *k, const struct capo_rule *rule)
{
        double(*const tables[])[3] = {
                [CAPO_CONST_BASE_LATENCY] = k->base_latency,
                [CAPO_CONST_LL_BW] = k->ll_bw,
                [CAPO_CONST_RING_LL128_BW] = k->ring_ll128_bw,
                [CAPO_CONST_TREE_LL128_BW] = k->tree_ll128_bw,
                [CAPO_CONST_TREE_BW] = k->tree_bw,
                [CAPO_CONST_NVLS_TREE_BW] = k->nvls_tree_bw,
        };

        for (uint32_t i = 0; i < rule->n_constants; i++) {
                const struct capo_constant *c = &rule->constants[i];

                if (c->table == CAPO_CONST_HW_LATENCY)
                        k->hw_latency[c->index[0]][c->index[1]][c->index[2]] = c->value;
                else
                        tables[c->table][c->index[0]][c->index[1]] = c->value;
        }
}

static capo_nccl_result refuse_comm(const struct capo_tuner_info *info, const char *why)
{
        capo_error("this rank cannot tune as the others do, so the communicator is not made: %s",
                   why);
        if (info->log)
                info->log(CAPO_NCCL_LOG_WARN, (unsigned long)CAPO_NCCL_ALL, __FILE__, __LINE__,
                          "TUNER/capo: %s", why);
        return CAPO_NCCL_INVALID_USAGE;
}

/* Once, by one rank, with the process's lock held: that a profile does nothing must not be silent.
 * Where the launcher tells the layout, capo run has said it. */
static void say_none(const struct capo_shape *shape)
{
        static bool said;
        char nearest[CAPO_NEAREST_TEXT];

        if (said || *capo_process.layout || !capo_process.speaks || shape->n_ranks < 2 ||
            capo_tuner_env()->quiet ||
            !*capo_match_nearest(capo_process.profile, shape, nearest, sizeof nearest))
                return;
        said = true;
        capo_info("no rule of %s holds for %d ranks on %d %s: %s", capo_process.profile->file,
                  shape->n_ranks, shape->n_nodes, shape->n_nodes == 1 ? "node" : "nodes", nearest);
}

/* Match the profile to the communicator. 0 or -errno. */
static int match_profile(const struct capo_tuner_info *info, struct capo_tuner *t,
                         const char *comm_name)
{
        const struct capo_env *env = capo_tuner_env();
        char layout[CAPO_LAYOUT_TEXT];
        struct capo_shape shape = {
                .n_ranks = t->n_ranks,
                .n_nodes = t->n_nodes,
                .min_local = info->nvl && info->nvl->min_ranks > 0 ? info->nvl->min_ranks : -1,
                .max_local = info->nvl && info->nvl->max_ranks > 0 ? info->nvl->max_ranks : -1,
                .nccl = capo_nccl_version(info->log),
                .allow_modelled = env->allow_modelled,
                .class_name = *env->class_name ? env->class_name : NULL,
                .comm = comm_name};
        struct capo_layout_why why = {.source = CAPO_LAYOUT_NCCL};
        int r;

        if (info->abi == 1) /* asked without a communicator: see tuner/abi/tuner_v1.c */
                shape = (struct capo_shape){.n_ranks = -1,
                                            .n_nodes = -1,
                                            .min_local = -1,
                                            .max_local = -1,
                                            .nccl = shape.nccl,
                                            .allow_modelled = env->allow_modelled};
        else
                capo_shape_fill(&shape, capo_process.layout, layout, sizeof layout, &why);
        if (why.dropped && capo_process.speaks)
                capo_warn_once("%d ranks on %d nodes: %s (it says %s)", t->n_ranks, t->n_nodes,
                               why.text, capo_process.layout);
        r = capo_process_tables(&shape, &t->tables, &t->own_tables);
        if (r < 0)
                return r;
        if (!t->tables->first)
                say_none(&shape);
        for (int c = 0; c < CAPO_NCCL_COLLS; c++) {
                if (t->tables->table[c])
                        t->table[c] = t->tables->table[c];
        }
        t->plain = !t->tables->asks;
        if (t->tables->constants && info->constants)
                correct_constants(info->constants, t->tables->constants);
        return 0;
}

/* Where this NCCL asks for chunks, and a row or a sweep may have an answer. */
static int chunks_open(const struct capo_tuner_info *info, struct capo_tuner *t)
{
        const struct capo_row *rows = t->tables ? t->tables->chunks : NULL;

        if (info->abi < 6 || (!rows && !capo_sweep_choose))
                return 0;
        t->chunks = calloc(1, sizeof *t->chunks);
        if (!t->chunks)
                return -ENOMEM;
        t->chunks->rows = rows;
        t->chunks->n_ranks = t->n_ranks;
        t->plain = false;
        return 0;
}

static void tell_comm(const struct capo_tuner_info *info, const struct capo_tuner *t,
                      const char *comm_name)
{
        const struct capo_rule *first = t->tables ? t->tables->first : NULL;
        char when[400], where[800];
        const struct capo_seam_comm comm = {.comm_hash = info->comm_id,
                                            .n_ranks = t->n_ranks,
                                            .rank = -1,
                                            .n_nodes = t->n_nodes,
                                            .min_local = info->nvl ? info->nvl->min_ranks : -1,
                                            .max_local = info->nvl ? info->nvl->max_ranks : -1,
                                            .name = comm_name,
                                            .tuned = first,
                                            .tuner = true};

        if (first)
                snprintf(where, sizeof where, "%s:%u: %s", capo_process.profile->file, first->line,
                         capo_when_print(&first->when, when, sizeof when));
        if (capo_seam && capo_seam->comm)
                capo_seam->comm(&comm);
        if (info->log && capo_process.profile)
                info->log(CAPO_NCCL_LOG_INFO, CAPO_NCCL_TUNING, __FILE__, __LINE__,
                          "TUNER/capo: %d ranks on %d nodes: %s (digest %s)", t->n_ranks,
                          t->n_nodes, first ? where : "no rule of the profile holds",
                          capo_process.profile->digest);
}

static void fill_direct(struct capo_tuner *t)
{
        for (int c = 0; c < CAPO_NCCL_COLLS && !capo_process.direct_blocked; c++) {
                for (uint32_t cell = 0; cell < CAPO_CELLS_QUICK; cell++) {
                        if (capo_tuner_safe(t, c, capo_choice_unpack(cell), 0))
                                t->direct[c] |= (uint8_t)(1u << cell);
                }
        }
}

/* Without the recorder a process would count simulated groups, and its times would be missing.
 * A sweep needs it to say so only where NCCL names the communicator. */
static const char *open_attempts(struct capo_tuner *t)
{
        bool tries = capo_process.trial.mode && t->tables;

        t->asked = &t->n_asked;
        t->trial = tries ? &capo_process.trial : NULL;
        t->sweeps = capo_sweep_choose && (t->comm_id || (capo_seam && capo_seam->current));
        if ((!tries && !(t->sweeps && t->comm_id)) ||
            (capo_seam && capo_seam->in_front && capo_seam->in_front()))
                return NULL;
        return tries ? "CAPO_TRIAL wants rows tried call by call, and in this process calls do not "
                       "come through libcapo.so (is it preloaded?), or it cannot record"
                     : "CAPO_SWEEP wants candidates tried call by call, and in this process calls "
                       "do not come through libcapo.so (is it preloaded?), or it cannot record";
}

capo_nccl_result capo_tuner_open(const struct capo_tuner_info *info, struct capo_tuner **out)
{
        const struct capo_env *env = capo_tuner_env();
        struct capo_tuner *t = aligned_alloc(64, sizeof *t);
        char comm_name[128];
        const char *name = NULL, *why = NULL;
        capo_nccl_result result = CAPO_NCCL_SUCCESS;
        /* one rank agrees with itself and is never asked; but where NCCL does not say which
         * communicator asks, nor which it closes, its tuner may be the one that answers for another
         */
        bool many = info->n_ranks > 1, answers = many || info->abi == 1;

        if (!t)
                return refuse_comm(info, "out of memory");
        *t = (struct capo_tuner){.comm_id = info->comm_id,
                                 .n_ranks =
                                         info->n_ranks < INT32_MAX ? (int)info->n_ranks : INT32_MAX,
                                 .n_nodes = info->abi == 1              ? -1
                                            : info->n_nodes < INT32_MAX ? (int)info->n_nodes
                                                                        : INT32_MAX,
                                 .plain = true};
        for (int c = 0; c < CAPO_NCCL_COLLS; c++)
                t->table[c] = &empty;
        capo_lock(&capo_process.lock);
        capo_process_load();
        if (answers) {
                int r = 0;

                if (info->comm_id &&
                    capo_comm_name_find(info->comm_id, comm_name, sizeof comm_name))
                        name = comm_name;
                if (!capo_process.failed && capo_process.profile)
                        r = match_profile(info, t, name);
                if (r == 0)
                        r = chunks_open(info, t);
                why = r == -E2BIG
                              ? "the CSV has more than 64 values of pipe_ops for this communicator"
                      : r < 0 ? strerror(-r)
                              : NULL;
        }
        capo_unlock(&capo_process.lock);
        if (many && capo_process.failed)
                why = capo_process.why;
        if (!why && answers && strcmp(env->tuner, "off") && strcmp(env->tuner, "only"))
                result = capo_chain_open(info, &t->chain);
        if (!why && !result && many)
                why = capo_override_open(t) ?: open_attempts(t);
        if (why)
                result = refuse_comm(info, why);
        if (result) {
                capo_tuner_close(t);
                return result;
        }
        fill_direct(t);
        t->decided = capo_seam ? capo_seam->decided : NULL;
        t->plain = t->plain && !t->trial && !t->chain && !t->sweeps;
        if (many)
                tell_comm(info, t, name);
        *out = t;
        return CAPO_NCCL_SUCCESS;
}

capo_nccl_result capo_tuner_close(void *tuner)
{
        struct capo_tuner *t = tuner;

        if (!t)
                return CAPO_NCCL_SUCCESS;
        capo_override_close(t);
        capo_chain_close(t->chain);
        if (t->own_tables)
                capo_tables_free((struct capo_tables *)t->tables);
        free(t->chunks);
        free(t);
        return CAPO_NCCL_SUCCESS;
}
