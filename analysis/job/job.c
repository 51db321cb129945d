/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/among.h"
#include "core/base/calls.h"
#include "core/base/xalloc.h"
#include "analysis/job/figures.h"
#include "analysis/job/job.h"
#include "analysis/job/scratch.h"

struct capo_job *capo_job_new(void)
{
        struct capo_job *job = xcalloc(1, sizeof *job);

        job->scratch = xcalloc(1, sizeof *job->scratch);
        return job;
}

static void free_process(struct capo_job_process *p)
{
        for (uint32_t i = 0; i < p->n_info && !p->shared_; i++) {
                free(p->info[i].key);
                free(p->info[i].value);
        }
        if (!p->shared_)
                free(p->host);
        xfree(p->info, p->silent.v, p->still.v, p->path);
        capo_log_close(p->log);
        xfree(p->fabric, p->machine, p->rules);
}

void capo_job_free(struct capo_job *job)
{
        if (!job)
                return;
        for (uint32_t i = 0; i < job->n_processes; i++)
                free_process(&job->processes[i]);
        for (uint32_t i = 0; i < job->n_nodes; i++) {
                free(job->nodes[i].key);
                free(job->nodes[i].name);
        }
        for (uint32_t i = 0; i < job->n_comms; i++) {
                xfree(job->comms[i].name, job->comms[i].layout, job->comms[i].members);
                capo_skew_free(job->comms[i].skew);
                if (job->scratch && job->scratch->meets)
                        capo_meet_free(job->scratch->meets[i]);
        }
        for (uint32_t i = 0; i < job->n_rows; i++) {
                for (unsigned c = 0; c < CAPO_TIMES; c++)
                        capo_hist_finish(&job->rows[i].time[c]);
        }
        for (uint32_t i = 0; i < job->n_sites; i++)
                free(job->sites[i].text);
        if (job->scratch) {
                xfree(job->scratch->rows.slots, job->scratch->sites.slots,
                      job->scratch->comms.slots, job->scratch->failures.slots, job->scratch->meets,
                      job->scratch->uses, job->scratch->first_use);
                job_reading_free(job->scratch->spare);
                for (uint32_t i = 0; i < job->scratch->n_texts; i++)
                        free(job->scratch->text[i]);
                free(job->scratch->text);
                free(job->scratch->texts.slots);
        }
        xfree(job->scratch, job->failures, job->processes, job->nodes, job->comms, job->rows,
              job->sites, job);
}

struct capo_log *capo_job_log(const struct capo_job *job, uint32_t process)
{
        struct capo_log *log = job->processes[process].log;

        if (log)
                capo_log_rewind(log);
        return log;
}

void job_list_uses(struct capo_job *job)
{
        struct job_scratch *s = job->scratch;
        size_t n = 0;

        s->first_use = xcalloc(job->n_processes + 2, sizeof *s->first_use);
        for (uint32_t c = 0; c < job->n_comms; c++)
                n += job->comms[c].n_members;
        s->uses = xcalloc(n + 1, sizeof *s->uses);
        for (uint32_t c = 0; c < job->n_comms; c++) {
                for (uint32_t m = 0; m < job->comms[c].n_members; m++)
                        s->first_use[job->comms[c].members[m].process + 2]++;
        }
        for (uint32_t p = 0; p < job->n_processes; p++)
                s->first_use[p + 2] += s->first_use[p + 1];
        /* a use list ends where the next one begins */
        for (uint32_t c = 0; c < job->n_comms; c++) {
                for (uint32_t m = 0; m < job->comms[c].n_members; m++)
                        s->uses[s->first_use[job->comms[c].members[m].process + 1]++] =
                                (struct capo_job_use){c, m};
        }
}

const struct capo_job_use *capo_job_uses(const struct capo_job *job, uint32_t process, uint32_t *n)
{
        const uint32_t *first = job->scratch->first_use;

        *n = first ? first[process + 1] - first[process] : 0;
        return *n ? job->scratch->uses + first[process] : NULL;
}

const char *capo_job_info(const struct capo_job_process *process, const char *key)
{
        const struct capo_job_info *of =
                FIRST_OF(i, process->info, process->n_info, !strcmp(i->key, key));

        return of ? of->value : NULL;
}

uint32_t capo_job_gpus(const struct capo_job *job)
{
        _cleanup_free_ uint64_t *devices = xcalloc(job->n_processes + 1, sizeof *devices);
        uint32_t n = 0;

        for (uint32_t i = 0; i < job->n_comms; i++) {
                for (uint32_t k = 0; k < job->comms[i].n_members; k++) {
                        const struct capo_job_member *m = &job->comms[i].members[k];

                        if (m->device >= 0)
                                devices[m->process] |= UINT64_C(1) << m->device % 64;
                }
        }
        for (uint32_t i = 0; i < job->n_processes; i++)
                n += devices[i] ? (uint32_t)__builtin_popcountll(devices[i]) : 1;
        return n;
}

uint64_t capo_job_duration_ns(const struct capo_job *job)
{
        return job->t_end_ns > job->t_begin_ns ? job->t_end_ns - job->t_begin_ns : 0;
}

enum capo_clock capo_job_row_clock(const struct capo_job_row *row)
{
        for (enum capo_clock c = CAPO_CLOCK_KERNEL; c > CAPO_CLOCK_NONE; c--) {
                if (row->time[c].count)
                        return c;
        }
        return CAPO_CLOCK_NONE;
}

struct capo_sampled capo_job_times_sampled(const struct capo_hist *time, enum capo_clock clock,
                                           uint64_t calls)
{
        bool event = clock == CAPO_CLOCK_EVENT;

        return (struct capo_sampled){
                .timed = &time[clock],
                .chosen = &time[event ? CAPO_TIMES_CHOSEN : CAPO_CLOCK_NONE /* empty */],
                .calls = calls};
}

struct capo_sampled capo_job_row_sampled(const struct capo_job_row *row)
{
        struct capo_sampled s =
                capo_job_times_sampled(row->time, capo_job_row_clock(row), row->calls);

        s.inferred_calls = row->inferred_calls;
        s.inferred_ns = row->inferred_ns;
        return s;
}

double capo_job_row_total_ns(const struct capo_job_row *row)
{
        struct capo_sampled s = capo_job_row_sampled(row);

        return capo_sampled_mean(&s) * (double)row->calls;
}

bool capo_job_masked(const struct capo_job_comm *comm, const struct capo_job_member **who)
{
        uint64_t least = UINT64_MAX, most = 0;
        bool masked = false;

        *who = NULL;
        for (uint32_t i = 0; i < comm->n_members; i++) {
                const struct capo_job_member *m = &comm->members[i];

                *who = m->given.calls < least ? m : m->given.calls == least ? NULL : *who;
                least = m->given.calls < least ? m->given.calls : least;
                most = m->given.calls > most ? m->given.calls : most;
                masked |= m->masked;
        }
        if (least == most)
                *who = NULL;
        return masked;
}

bool capo_job_row_bandwidth(const struct capo_job *job, const struct capo_job_row *row,
                            double *algbw, double *busbw)
{
        enum capo_clock clock = capo_job_row_clock(row);
        enum capo_call_kind kind = capo_call_kind(row->call);
        int32_t n_ranks = row->comm != CAPO_NO_COMM ? job->comms[row->comm].n_ranks : -1;
        struct capo_sampled s = capo_job_row_sampled(row);
        double ns;

        *algbw = *busbw = 0;
        if ((clock != CAPO_CLOCK_EVENT && clock != CAPO_CLOCK_KERNEL) || !row->bytes ||
            n_ranks < 1 || kind == CAPO_KIND_GROUP || kind == CAPO_KIND_OTHER ||
            capo_ran_half(row->algo_proto))
                return false;
        ns = capo_sampled_quantile(&s, 0.5);
        if (ns <= 0)
                return false;
        *algbw = (double)row->bytes / ns; /* bytes per ns are GB/s */
        *busbw = *algbw * capo_busbw_factor(kind, (unsigned)n_ranks);
        return true;
}

void capo_job_row_merge(struct capo_job_row *to, const struct capo_job_row *from)
{
        to->calls += from->calls;
        to->count += from->count;
        to->failed += from->failed;
        to->inferred_calls += from->inferred_calls;
        to->inferred_ns += from->inferred_ns;
        for (unsigned c = 0; c < CAPO_TIMES; c++)
                capo_hist_merge(&to->time[c], &from->time[c]);
}

char *capo_job_member_text(const struct capo_job_comm *comm, const struct capo_job_member *member,
                           char *text)
{
        if (member->job_rank >= 0)
                snprintf(text, 300, "rank %d", member->job_rank);
        else
                snprintf(text, 300, "rank %d of %.250s", member->rank, comm->name);
        return text;
}

char *capo_job_ranks_text(const struct capo_job *job, uint32_t nodes, char *text)
{
        uint64_t largest = MOST_OF(c, job->comms, job->n_comms, c->n_members),
                 seen = largest > job->n_processes ? largest : job->n_processes;

        snprintf(text, 120, "%s", capo_text_plural((unsigned)job->n_ranks, "rank", NULL));
        if (nodes && seen < (uint32_t)job->n_ranks)
                capo_append(text, 120, ", logs of %" PRIu64, seen);
        if (nodes)
                capo_append(text, 120, " on %s", capo_text_plural(nodes, "node", NULL));
        return text;
}
