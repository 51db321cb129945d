/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks what this thread is doing: the tuner, the profiler and libfabric's calls. */
#include "shim/record/recorder.h"

bool capo_shim_current(struct capo_shim_outer *out)
{
        struct capo_tls *t = &capo_tls;
        const struct capo_record *r;

        if (!t->ready)
                return false;
        if (t->group_depth) {
                struct capo_comm *comm = t->group_comm;

                *out = (struct capo_shim_outer){
                        .comm_uid = comm && !t->group_uids ? comm->uid : 0,
                        .t_begin = t->group_begin,
                        .seq = t->group_members ? t->group_seq : 0,
                        .comm = comm && !t->group_mixed ? comm->id : 0,
                        .call = t->group_call,
                };
                return true;
        }
        if (!t->inside)
                return false;
        r = capo_call_record(t);
        *out = (struct capo_shim_outer){
                .comm_uid = t->comm->uid,
                .t_begin = r->t_begin,
                .seq = r->seq,
                .comm = t->comm->id,
                .call = r->call,
        };
        return true;
}
