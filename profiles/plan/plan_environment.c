/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/among.h"
#include "capo/env.h"
#include "core/base/layout.h"
#include "core/base/xalloc.h"
#include "profiles/plan/plan_environment.h"

extern char **environ;

bool capo_plan_setting_passes(const char *var)
{
        static const char *const ours[] = {"NCCL_TOPO_",       "NCCL_HOSTID=",  "NCCL_NET=",
                                           "NCCL_NET_PLUGIN=", "NCCL_TUNER_",   "NCCL_PROFILER_",
                                           "NCCL_DEBUG",       "NCCL_COMM_ID=", "NCCL_SOCKET_",
                                           "NCCL_IB_",         "NCCL_OOB_",     "NCCL_GRAPH_DUMP",
                                           "NCCL_RAS_"};

        return !strncmp(var, "NCCL_", 5) &&
               !ANY_OF(our, ours, N_ELEMENTS(ours), !strncmp(var, *our, strlen(*our)));
}

/* Other variables that would affect a worker. */
static bool is_kept(const char *var)
{
        /* the last: glibc would write to all that NCCL allocates, most of which is never used */
        static const char *const others[] = {
                "LD_PRELOAD=", "LD_LIBRARY_PATH=", "LD_AUDIT=", "CAPO_",
                "CUDA_",       "MALLOC_PERTURB_="};

        return !ANY_OF(other, others, N_ELEMENTS(others), !strncmp(var, *other, strlen(*other))) &&
               (strncmp(var, "NCCL_", 5) || capo_plan_setting_passes(var));
}

struct environment {
        char **vars; /* the first ones are this process's own */
        size_t n;
};

static void put_var(struct environment *e, char *var) { *xadd(e->vars, e->n) = var; }
#define put_env(e, ...) put_var(e, xprintf(__VA_ARGS__))

static const char *layout_of(const struct plan_job *job, char *text, size_t room)
{
        struct capo_layout layout = {0};

        for (uint32_t n = 0; n < job->n_nodes; n++) {
                uint32_t ranks = 0;

                for (uint32_t r = 0; r < job->n_ranks; r++)
                        ranks += job->ranks[r].node == n;
                capo_layout_add(&layout, ranks, 1);
        }
        return capo_layout_print(&layout, text, room);
}

static uint32_t first_rank(const struct plan_job *job, uint32_t node)
{
        uint32_t r = 0;

        while (r < job->n_ranks && job->ranks[r].node != node)
                r++;
        return r;
}

char **plan_environment_new(const struct capo_plan_question *q, const struct plan_job *job,
                            const char *folder, uint32_t node)
{
        struct environment all = {0}, *e = &all;
        const char *path = getenv("LD_LIBRARY_PATH");

        for (char **var = environ; *var; var++) {
                if (is_kept(*var))
                        put_var(e, *var);
        }
        put_env(e, "LD_LIBRARY_PATH=%s%s%s", folder, path && *path ? ":" : "", path ? path : "");
        put_env(e, "NCCL_TOPO_FILE=%s", job->machines[job->node_machine[node]].topo);
        put_env(e, "NCCL_HOSTID=capo-plan-%u", node);
        put_env(e, "NCCL_NET_PLUGIN=capoplan"); /* libnccl-net-capoplan.so in our folder: the only
                                                   form that 2.19 accepts */
        put_env(e, "NCCL_PROFILER_PLUGIN=%s", PLAN_PROFILER_LINK);
        put_env(e, "%s=none", CAPO_ENV_conf); /* the site's profile must not be used */
        if (q->tuner && !q->wrap && !strchr(q->tuner, '/'))
                put_env(e, "NCCL_TUNER_PLUGIN=%s", q->tuner);
        else
                put_env(e, "NCCL_TUNER_PLUGIN=%s", PLAN_TUNER_LINK);
        if (q->tuner) {
                char layout[CAPO_LAYOUT_TEXT];

                /* exported by `capo run` for tuner interfaces without node sizes */
                put_env(e, "%s=%s", CAPO_ENV_layout,
                        q->layout ? q->layout : layout_of(job, layout, sizeof layout));
                put_env(e, "%s=only",
                        CAPO_ENV_tuner); /* otherwise capo's tuner would chain to our spy */
                if (q->profile)
                        put_env(e, "%s=%s", CAPO_ENV_profile, q->profile);
                if (q->allow_modelled)
                        put_env(e, "%s=1", CAPO_ENV_allow_modelled);
                if (q->class_name)
                        put_env(e, "%s=%s", CAPO_ENV_class_name, q->class_name);
        }
        put_env(e, "NCCL_DEBUG=INFO");
        put_env(e, "NCCL_DEBUG_SUBSYS=%s", q->log ? "INIT,GRAPH,TUNING" : "TUNING");
        put_env(e, "NCCL_DEBUG_FILE=%s/log.%u", folder, node);
        put_env(e, "NCCL_IB_DISABLE=1");
        put_env(e, "NCCL_SOCKET_IFNAME=lo");
        put_env(e, "NCCL_RAS_ENABLE=0");
        if (q->graph) {
                put_env(e, "NCCL_GRAPH_DUMP_FILE=%s/graph.%u", folder, node);
                put_env(e, "NCCL_GRAPH_DUMP_FILE_RANK=%u", first_rank(job, node));
        }
        put_var(e, NULL);
        return e->vars;
}
