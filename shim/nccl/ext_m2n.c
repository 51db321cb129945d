/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL M2N: reshards. One in a group is issued by the outermost ncclM2nGroupEnd, as NCCL's calls in
 * a group are, and is recorded in the same way. Bytes are an upper bound: this rank's tile. */

#include "capo/call_ids.h"
#include "shim/nccl/ext_m2n.h"
#include "shim/nccl/ext_real.h"

static __thread int open_groups __attribute__((tls_model("initial-exec")));

struct capo_comm *capo_m2n_comm(struct capo_tls *t, ncclComm_t comm, const void *caller)
{
        struct capo_comm *reshards = capo_comm_known(capo_m2n_key(comm));

        if (reshards || !comm)
                return reshards;
        return capo_comm_guest(t, capo_comm_find(t, comm, -1, caller), capo_m2n_key(comm),
                               CAPO_GUEST_M2N, "m2n");
}

enum { SRC_FIRST, SRC_LAST, DST_FIRST, DST_LAST, SIDE };

static unsigned asked_text(const struct capo_call_asked *asked, char *line, unsigned room)
{
        static const char *const sides[] = {"none", "src", "dst"};
        const int *n = asked->number;
        int wrote = snprintf(line, room, "config: src=%d-%d dst=%d-%d side=%s\n", n[SRC_FIRST],
                             n[SRC_LAST], n[DST_FIRST], n[DST_LAST], sides[n[SIDE]]);

        return wrote > 0 && (unsigned)wrote < room ? (unsigned)wrote : 0;
}

/* The ranks of the tensor's mesh. False: not known. */
static bool ranks_of(const ncclDistTensor_t *tensor, int *first, int *last)
{
        const ncclMesh_t *mesh;
        int n = 1;

        if (!tensor)
                return false;
        mesh = CAPO_EXT_HAS(tensor, mesh) && tensor->version == CAPO_M2N_VERSION ? tensor->mesh
                                                                                 : NULL;
        if (!mesh || !CAPO_EXT_HAS(mesh, startRank) || mesh->version != CAPO_M2N_VERSION) {
                capo_ext_unknown();
                return false;
        }
        if (!mesh->dims || mesh->ndims < 1 || mesh->ndims > 2 || !tensor->localShape ||
            tensor->ndims < 1 || tensor->ndims > 3)
                return false;
        for (int i = 0; i < mesh->ndims; i++)
                n *= mesh->dims[i];
        *first = mesh->startRank;
        *last = mesh->startRank + n - 1;
        return true;
}

struct capo_what capo_m2n_reshard(struct capo_tls *t, const ncclDistTensor_t *src,
                                  const ncclDistTensor_t *dst, struct capo_call_asked *asked)
{
        struct capo_what what = {.type = NO_TYPE, .op = NO_OP, .peer = -1};
        int rank = t->comm ? t->comm->rank : -1, *n = asked->number;
        const ncclDistTensor_t *mine = NULL;

        if (!ranks_of(src, &n[SRC_FIRST], &n[SRC_LAST]) ||
            !ranks_of(dst, &n[DST_FIRST], &n[DST_LAST]))
                return what;
        if (rank >= n[SRC_FIRST] && rank <= n[SRC_LAST])
                mine = src;
        else if (rank >= n[DST_FIRST] && rank <= n[DST_LAST])
                mine = dst;
        n[SIDE] = mine == src ? 1 : mine == dst ? 2 : 0;
        asked->text = asked_text;
        if (!mine || (unsigned)mine->dtype > 11)
                return what;
        what.type = mine->dtype;
        what.count = 1;
        for (int i = 0; i < mine->ndims; i++)
                what.count *= mine->localShape[i];
        return what;
}

/* ---- groups ---- */

typedef ncclResult_t (*group_call)(void);

ncclResult_t capo_ncclM2nGroupStart(const void *real, const void *caller, const void *frame)
{
        struct capo_tls *t = &capo_tls;
        ncclResult_t rc;
        uint64_t begin;

        if (capo_ext_passes(t, caller, frame))
                return ((group_call)real)();
        begin = capo_clock_ticks();
        rc = ((group_call)real)();
        if (rc == ncclSuccess && open_groups++ == 0 && t->group_depth++ == 0)
                capo_group_begin(t, begin, capo_site_here(t, caller, frame));
        t->inside = NULL;
        return rc;
}

ncclResult_t capo_ncclM2nGroupEnd(const void *real, const void *caller, const void *frame)
{
        struct capo_tls *t = &capo_tls;
        struct capo_group_gpu gpu = {.n = 0};
        bool ends = open_groups == 1, whole;
        ncclResult_t rc;

        if (!open_groups || capo_ext_passes(t, caller, frame))
                return ((group_call)real)();
        whole = ends && t->group_depth == 1;
        if (whole && t->group_members && atomic_load_explicit(&capo_gpu_on, memory_order_acquire))
                capo_group_time(t, &gpu);
        if (whole)
                atomic_store_explicit(&t->ring->closing, capo_clock_ticks(), memory_order_relaxed);
        rc = ((group_call)real)();
        open_groups--;
        if (ends)
                t->group_depth--;
        if (whole) {
                atomic_store_explicit(&t->ring->closing, 0, memory_order_relaxed);
                if (rc != ncclSuccess) /* nothing was issued */
                        capo_group_forget(t);
                capo_group_end(t, &gpu, rc, capo_clock_ticks());
        }
        t->inside = NULL;
        return rc;
}

/* What the group had was never issued. */
ncclResult_t capo_ncclM2nGroupAbort(const void *real, const void *caller, const void *frame)
{
        struct capo_what what = {.type = NO_TYPE, .op = NO_OP, .peer = -1, .other = true};
        struct capo_tls *t = &capo_tls;
        struct capo_record *r;
        ncclResult_t rc;

        if (capo_ext_passes(t, caller, frame))
                return ((group_call)real)();
        if (open_groups && t->group_depth && --t->group_depth == 0 && t->group_comm)
                capo_group_forget(t);
        open_groups = 0;
        r = capo_ext_begin(t, NULL, NULL, CAPO_CALL_M2NGROUPABORT, &what, NULL, caller, frame);
        rc = ((group_call)real)();
        capo_call_end(t, r, capo_clock_ticks(), rc, true, NULL);
        return rc;
}
