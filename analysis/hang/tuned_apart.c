/* SPDX-License-Identifier: Apache-2.0 */
/* All ranks have entered a call and it does not end: did NCCL run it the same way on all? NCCL
 * chooses algorithm, protocol and channels on each rank from that rank's tuner and settings, and
 * never compares them. Ranks with different choices send data that no rank receives. */
#include "core/base/among.h"
#include "analysis/hang/hang_judge.h"

/* The members' calls with one number on a communicator, and what decided them. */
struct choices {
        const struct capo_hang_job *job;
        const struct capo_hang_comm *comm;
        const struct capo_hang_call **call; /* by member; NULL not known */
        bool profiles;                      /* compare profiles and settings instead of choices */
};

/* The property in which the choices of two members differ; NULL: no known one. */
static const char *members_differ(const struct choices *c, uint32_t a, uint32_t b)
{
        const struct capo_hang_process *pa = &c->job->processes[c->comm->members[a].process],
                                       *pb = &c->job->processes[c->comm->members[b].process];
        const struct capo_hang_call *ca = c->call[a], *cb = c->call[b];

        if (c->profiles && pa->tuned && pb->tuned && strcmp(pa->tuned, pb->tuned) != 0)
                return "profile";
        if (c->profiles)
                return pa->settings && pb->settings && strcmp(pa->settings, pb->settings) != 0
                               ? "settings"
                               : NULL;
        if (ca->algo_proto != cb->algo_proto)
                return ca->algo_proto >> 4 != cb->algo_proto >> 4 ? "algorithm" : "protocol";
        return ca->channels && cb->channels && ca->channels != cb->channels ? "channels" : NULL;
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
                uint32_t seq = (uint32_t)MOST_OF(call, p->calls, p->n_calls,
                                                 call->comm == comm && is_collective(call) &&
                                                                 call->gpu == CAPO_HANG_GPU_ENDED
                                                         ? call->seq
                                                         : 0);

                least = seq < least ? seq : least;
        }
        return least;
}

/* Compare the choices for call @seq of @comm or, with @profiles, what decides them if the choices are
 * not known. */
static bool judge_number(const struct capo_hang_job *job, uint32_t comm, uint32_t seq,
                         bool profiles, struct capo_hang_verdict *v)
{
        const struct capo_hang_comm *of = &job->comms[comm];
        _cleanup_free_ const struct capo_hang_call **calls = hang_made_by_all(job, comm, seq);
        const struct choices c = {job, of, calls, profiles};

        return !(profiles && ALL_OF(call, calls, of->n_members, *call && (*call)->algo_proto)) &&
               accuse_few(&c, v);
}

/* The first call of @comm that may be stuck and whose choices differ. */
static bool first_of(const struct capo_hang_job *job, uint32_t comm, struct capo_hang_verdict *v)
{
        const struct capo_hang_comm *of = &job->comms[comm];
        const uint32_t after = newest_ended_seq(job, comm);
        const struct capo_hang_process *first =
                of->n_members ? &job->processes[of->members[0].process] : NULL;
        const struct capo_hang_call *found =
                first ? FIRST_OF(call, first->calls, first->n_calls,
                                 call->comm == comm && is_collective(call) && !call->captured &&
                                         call->seq > after &&
                                         judge_number(job, comm, call->seq, false, v))
                      : NULL;

        if (found) {
                v->comm = comm;
                v->seq = found->seq;
                v->sure = CAPO_HANG_CERTAIN;
        }
        return found;
}

void hang_judge_tuned(const struct capo_hang_job *job, struct capo_hang_verdict *v)
{
        const bool runs = v->kind == CAPO_HANG_RUNNING;
        bool found = false;

        for (uint32_t i = 0; i < job->n_comms && !found; i++)
                found = (!runs || i == v->comm) && first_of(job, i, v);
        if (found ? !runs
                  : runs && v->comm != CAPO_HANG_NONE &&
                            judge_number(job, v->comm, v->seq, true, v))
                v->sure = CAPO_HANG_LIKELY;
}
