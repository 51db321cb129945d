/* SPDX-License-Identifier: Apache-2.0 */
/* Recording a call of NCCL EP or NCCL M2N. */
#pragma once

#include "shim/nccl/comm.h"
#include "shim/nccl/ext_abi.h"

/** capo_ext_passes() - as capo_call_passes(). */
static inline bool capo_ext_passes(struct capo_tls *t, const void *caller, const void *frame)
{
        struct capo_nccl *unused;

        return capo_call_passes(t, -1, caller, frame, &unused);
}

/** capo_ext_begin() - begins a recorded call on @comm (NULL: none), which asks for @asked. */
static inline struct capo_record *capo_ext_begin(struct capo_tls *t, struct capo_comm *comm,
                                                 void *stream, unsigned id,
                                                 const struct capo_what *what,
                                                 const struct capo_call_asked *asked,
                                                 const void *caller, const void *frame)
{
        struct capo_record *r;

        t->comm = comm ? comm : capo_comm_none();
        t->lib_of_none = t->comm->lib;
        t->asked = asked && asked->text ? asked : NULL;
        r = capo_call_begin_long(t, stream, id, what, caller, frame);
        t->asked = NULL;
        return r;
}
