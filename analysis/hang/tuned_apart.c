/* SPDX-License-Identifier: Apache-2.0 */
/* All ranks have entered a call and it does not end: did NCCL run it the same way on all? NCCL
 * chooses algorithm, protocol and channels on each rank from that rank's tuner and settings, and
 * never compares them. Ranks with different choices send data that no rank receives. */
#include "core/base/xalloc.h"
#include "analysis/hang/hang_judge.h"
#include "analysis/hang/hang_play.h"

/* The property in which two choices differ; NULL: no known one. */
static const char *choice_difference(const struct capo_hang_call *a, const struct capo_hang_call *b)
{
        if (!a || !b || !a->algo_proto || !b->algo_proto)
                return NULL;
        if (a->algo_proto != b->algo_proto)
                return a->algo_proto >> 4 != b->algo_proto >> 4 ? "algorithm" : "protocol";
        return a->channels && b->channels && a->channels != b->channels ? "channels" : NULL;
}

/* The members' calls with one number on a communicator, and what decided them. */
struct choices {
        const struct capo_hang_job *job;
        const struct capo_hang_comm *comm;
        const struct capo_hang_call **call; /* by member; NULL not known */
        bool profiles;                      /* compare profiles and settings instead of choices */
};

static const char *members_differ(const struct choices *c, uint32_t a, uint32_t b)
{
        const struct capo_hang_process *pa = &c->job->processes[c->comm->members[a].process],
                                       *pb = &c->job->processes[c->comm->members[b].process];

        if (!c->profiles)
                return choice_difference(c->call[a], c->call[b]);
        if (pa->tuned && pb->tuned && strcmp(pa->tuned, pb->tuned) != 0)
                return "profile";
        return pa->settings && pb->settings && strcmp(pa->settings, pb->settings) != 0 ? "settings"
                                                                                       : NULL;
}

static bool member_counts(const struct choices *c, uint32_t i)
{
        const struct capo_hang_process *p = &c->job->processes[c->comm->members[i].process];

        return c->profiles ? p->tuned || p->settings : c->call[i] && c->call[i]->algo_proto;
}

/* Accuse the ranks whose choice most others did not make; all, if no side is larger. Return: do
 * they differ? */
static bool accuse_few(const struct choices *c, struct capo_hang_verdict *v)
{
        uint32_t most = 0, best = 0, known = 0, n = c->comm->n_members;

        for (uint32_t i = 0; i < n; i++) {
                uint32_t same = 0;

                for (uint32_t k = 0; k < n && member_counts(c, i); k++)
                        same += member_counts(c, k) && !members_differ(c, i, k);
                known += same > 0;
                if (same > best) {
                        best = same;
                        most = i;
                }
        }
        if (best == known)
                return false;
        hang_acquit(v);
        v->kind = CAPO_HANG_TUNED;
        v->most = c->comm->members[most].process;
        for (uint32_t i = 0; i < n; i++) {
                const char *what = member_counts(c, i) ? members_differ(c, most, i) : NULL;

                if (!member_counts(c, i) || (!what && 2 * best > known))
                        continue;
                hang_accuse(v, c->comm->members[i].process, CAPO_HANG_WHY_TUNED, c->call[i]);
                v->culprits[v->n_culprits - 1].differs = what;
        }
        if (c->call[most])
                v->call = c->call[most];
        v->n_ranks = n;
        v->n_waiting = best;
        return true;
}

/* The newest call that ended on the GPUs of all ranks, and with it all before. A single rank can
 * get through a call in which the others are stuck. */
static uint32_t newest_ended_seq(const struct capo_hang_job *job, uint32_t comm)
{
        const struct capo_hang_comm *c = &job->comms[comm];
        uint32_t least = c->n_members ? UINT32_MAX : 0;

        for (uint32_t i = 0; i < c->n_members; i++) {
                const struct capo_hang_process *p = &job->processes[c->members[i].process];
                uint32_t seq = 0;

                for (uint32_t k = 0; k < p->n_calls; k++) {
                        const struct capo_hang_call *call = &p->calls[k];

                        if (call->comm == comm && call->gpu == CAPO_HANG_GPU_ENDED &&
                            is_collective(call) && call->seq > seq)
                                seq = call->seq;
                }
                least = seq < least ? seq : least;
        }
        return least;
}

/* The first call of @comm that may be stuck and whose choices differ. */
static bool first_of(const struct capo_hang_job *job, uint32_t comm, struct capo_hang_verdict *v)
{
        struct choices c = {.job = job, .comm = &job->comms[comm]};
        const uint32_t n = c.comm->n_members, after = newest_ended_seq(job, comm);
        _cleanup_free_ const struct capo_hang_call **calls = xcalloc(n + 1, sizeof(*calls));
        const struct capo_hang_process *first =
                n ? &job->processes[c.comm->members[0].process] : NULL;
        bool found = false;

        c.call = calls;
        for (uint32_t i = 0; first && i < first->n_calls && !found; i++) {
                const struct capo_hang_call *call = &first->calls[i];

                if (call->comm != comm || !is_collective(call) || call->captured ||
                    call->seq <= after)
                        continue;
                for (uint32_t k = 0; k < n; k++)
                        calls[k] = hang_made_as(&job->processes[c.comm->members[k].process], comm,
                                                call->seq);
                found = accuse_few(&c, v);
                if (found) {
                        v->comm = comm;
                        v->seq = call->seq;
                        v->sure = CAPO_HANG_CERTAIN;
                }
        }
        return found;
}

/* The choices for the stuck call are not known: compare profiles and settings. */
static void by_profile(const struct capo_hang_job *job, struct capo_hang_verdict *v)
{
        struct choices c = {.job = job, .comm = &job->comms[v->comm], .profiles = true};
        const uint32_t n = c.comm->n_members;
        _cleanup_free_ const struct capo_hang_call **calls = xcalloc(n + 1, sizeof(*calls));
        bool known = n > 0;

        c.call = calls;
        for (uint32_t k = 0; k < n; k++) {
                calls[k] =
                        hang_made_as(&job->processes[c.comm->members[k].process], v->comm, v->seq);
                known &= calls[k] && calls[k]->algo_proto;
        }
        if (!known && accuse_few(&c, v))
                v->sure = CAPO_HANG_LIKELY;
}

void hang_judge_tuned(const struct capo_hang_job *job, struct capo_hang_verdict *v)
{
        const bool runs = v->kind == CAPO_HANG_RUNNING;
        bool found = false;

        for (uint32_t i = 0; i < job->n_comms && !found; i++)
                found = (!runs || i == v->comm) && first_of(job, i, v);
        if (found && !runs)
                v->sure = CAPO_HANG_LIKELY;
        if (!found && runs && v->comm != CAPO_HANG_NONE)
                by_profile(job, v);
}
