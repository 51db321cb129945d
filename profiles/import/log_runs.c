/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/xalloc.h"
#include "core/log/info.h"
#include "profiles/import/log_runs.h"

/* How many logs of the same rank come before @m. Members are sorted by rank, then by process. */
static uint32_t copy_of(const struct capo_job_comm *comm, const struct capo_job_member *m)
{
        uint32_t copy = 0;

        for (const struct capo_job_member *k = m; m->rank >= 0 && k-- > comm->members;) {
                if (k->rank != m->rank)
                        break;
                copy += k->reported.n_ranks == m->reported.n_ranks;
        }
        return copy;
}

void log_runs_settle(struct log_import *m)
{
        _cleanup_free_ const char **names = xcalloc(m->job->n_nodes + 1, sizeof *names);
        _cleanup_free_ uint32_t *ranks_on = xcalloc(m->job->n_nodes + 1, sizeof *ranks_on);

        for (size_t i = 0; i < m->n_runs; i++) {
                const struct capo_job_comm *comm = &m->job->comms[m->runs[i].comm];
                struct capo_trial *t = &m->in->set->runs[m->runs[i].run];
                struct capo_layout layout = {0};
                char text[CAPO_LAYOUT_TEXT];
                size_t n = 0;

                memset(ranks_on, 0, m->job->n_nodes * sizeof *ranks_on);
                for (uint32_t k = 0; k < comm->n_members; k++)
                        ranks_on[m->job->processes[comm->members[k].process].node] +=
                                comm->members[k].reported.n_ranks == m->runs[i].n_ranks &&
                                copy_of(comm, &comm->members[k]) == m->runs[i].copy;
                for (uint32_t k = 0; k < comm->n_members; k++) { /* by rank */
                        uint32_t h = m->job->processes[comm->members[k].process].node;

                        if (ranks_on[h]) {
                                capo_layout_add(&layout, ranks_on[h], 1);
                                names[n++] = m->job->nodes[h].name;
                        }
                        ranks_on[h] = 0;
                }
                if ((int)layout.n_ranks != m->runs[i].n_ranks) /* logs of some ranks are missing */
                        continue;
                capo_input_hosts(t, names, n);
                /* NCCL's numbers and the launcher win, but for the order, which numbers leave open
                 */
                if (t->layout[0] ? !capo_layout_text_covers(
                                           t->layout, capo_layout_print(&layout, text, sizeof text))
                                 : t->n_nodes && t->n_nodes != (int)layout.n_nodes)
                        continue;
                t->n_nodes = (int)layout.n_nodes;
                capo_input_place(&layout, t);
        }
}

/* Add a run for @c, whose communicator has none yet. Return: its index; UINT32_MAX: an error that
 * in->error names. */
static uint32_t new_run(struct log_import *m, const struct log_comm *c, uint32_t copy)
{
        const struct log_labels *labels = &m->labels;
        struct capo_layout_reported reported = c->member->reported;
        struct log_run k = {.comm = c->comm, .n_ranks = reported.n_ranks, .copy = copy};
        struct capo_trial run = {
                .source = (char *)m->in->path,
                .iterations = 1,
                .nccl = labels->nccl,
                .began = {.at = (int64_t)(m->process->header.t0_real_ns / 1000000000)},
                .n_ranks = reported.n_ranks > 0 ? reported.n_ranks : 0,
                .n_nodes = reported.n_nodes > 0 ? reported.n_nodes : 0};
        const struct capo_job_process *p = m->process;
        const char *driver = log_text(p, CAPO_INFO_CUDA_DRIVER);
        struct capo_layout world, layout;
        bool have_world = capo_layout_parse(log_text(p, CAPO_INFO_LAYOUT), &world, NULL) == 0;

        if (have_world && reported.n_nodes <= 0 && (int)world.n_ranks == reported.n_ranks)
                run.n_nodes = reported.n_nodes = (int)world.n_nodes;
        if (capo_layout_of_comm(have_world ? &world : NULL, &reported, &layout, NULL) == 0) {
                capo_input_place(&layout, &run);
                run.n_nodes = (int)layout.n_nodes;
        }
        snprintf(run.gpu, sizeof run.gpu, "%.47s", log_text(p, CAPO_INFO_GPU_NAME));
        snprintf(run.job, sizeof run.job, "%.47s", log_text(p, CAPO_INFO_JOB));
        snprintf(run.uid, sizeof run.uid, "%.11s", log_text(p, CAPO_INFO_UID));
        if (*driver)
                snprintf(run.driver, sizeof run.driver, "CUDA %.24s", driver);
        memcpy(run.settings, labels->settings, sizeof run.settings);
        if (labels->sweep || labels->n_candidates)
                snprintf(run.why, sizeof run.why, "%s",
                         labels->sweep
                                 ? "the candidates of a sweep"
                                 : "recorded under a profile: what a row chose counts as forced");
        capo_input_tuner(&run, log_text(p, CAPO_INFO_NCCL_TUNER),
                         labels->sweep || labels->env_algo || labels->env_proto);
        if (capo_input_label(m->in, &run) < 0)
                return UINT32_MAX;
        xarray_room(&m->runs, m->n_runs, sizeof *m->runs);
        k.run = capo_samples_run(m->in->set, &run);
        m->runs[m->n_runs++] = k;
        return k.run;
}

uint32_t log_run_of(struct log_import *m, struct log_comm *c)
{
        uint32_t copy, run = UINT32_MAX;

        if (c->run) /* nearly always */
                return c->run - 1;
        copy = copy_of(&m->job->comms[c->comm], c->member);
        for (size_t i = 0; i < m->n_runs && run == UINT32_MAX; i++) {
                const struct log_run *k = &m->runs[i];

                if (k->comm == c->comm && k->n_ranks == c->member->reported.n_ranks &&
                    k->copy == copy)
                        run = k->run;
        }
        if (run == UINT32_MAX)
                run = new_run(m, c, copy);
        if (run != UINT32_MAX)
                c->run = run + 1;
        return run;
}
