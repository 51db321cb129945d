/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in of NCCL M2N: checks as release 0.2.0 does, and a reshard that moves the data. As in
 * the real library, NCCL is called through its public names: a hidden communicator is split off,
 * and a reshard is a group on it (there of signals and puts, here of sends and receives).
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_m2n.h>

#define API __attribute__((visibility("default")))
#define EP(result, name, params)
#define M2N(result, name, params) API __typeof__(nccl##name) nccl##name;
#include "standin_nccl_ext.def"

enum { DIMS = 3, AXES = 2, HANDLES = 64, COMMS = 64 };

struct ncclM2nHandle {
        ncclM2nConfig_t config;
};

/* One side of a reshard. */
struct side {
        int dims[AXES], axes, start, ranks;
        int placement[AXES];
        size_t shape[DIMS];
        char *data;
};

struct reshard {
        ncclM2nHandle_t handle;
        ncclComm_t comm;
        cudaStream_t stream;
        size_t element;
        struct side from, to;
};

/* A box of a rank's tile, on its way from or to a buffer without holes. */
struct box {
        char *tile, *packed;
        size_t shape[DIMS], start[DIMS], size[DIMS], element;
        bool in; /* from the buffer into the tile, and then the buffer is done with */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ncclM2nHandle_t handles[HANDLES];
static struct {
        ncclComm_t of, hidden;
} comms[COMMS];

static __thread char last_error[256];
static __thread struct {
        int depth, n;
        ncclResult_t error;
        struct reshard *entries;
} group;

static ncclResult_t fail(ncclResult_t rc, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        vsnprintf(last_error, sizeof last_error, format, args);
        va_end(args);
        return rc;
}

const char *ncclM2nGetLastError(void) { return last_error; }

ncclResult_t ncclM2nInit(ncclM2nHandle_t *handle, const ncclM2nConfig_t *config)
{
        ncclM2nHandle_t h;
        int i = 0;

        *last_error = 0;
        if (!handle)
                return fail(ncclInvalidArgument, "ncclM2nInit: handle is NULL");
        *handle = NULL;
        if (config && (config->size != sizeof *config || config->magic != NCCL_M2N_API_MAGIC ||
                       config->version != NCCL_M2N_API_VERSION))
                return fail(ncclInvalidArgument, "ncclM2nInit: malformed config");
        h = calloc(1, sizeof *h);
        if (config)
                h->config = *config;
        pthread_mutex_lock(&lock);
        while (i < HANDLES && handles[i])
                i++;
        if (i < HANDLES)
                handles[i] = h;
        pthread_mutex_unlock(&lock);
        if (i == HANDLES) {
                free(h);
                return fail(ncclSystemError, "ncclM2nInit: too many handles");
        }
        *handle = h;
        return ncclSuccess;
}

static bool is_handle(ncclM2nHandle_t handle, bool drop)
{
        bool found = false;

        pthread_mutex_lock(&lock);
        for (int i = 0; i < HANDLES && !found; i++) {
                found = handles[i] == handle;
                if (found && drop)
                        handles[i] = NULL;
        }
        pthread_mutex_unlock(&lock);
        return found;
}

/* With the last handle the hidden communicators go. */
ncclResult_t ncclM2nFinalize(ncclM2nHandle_t handle)
{
        bool last = true;

        *last_error = 0;
        if (group.depth)
                return fail(ncclInvalidArgument, "ncclM2nFinalize: a group is active");
        if (handle && !is_handle(handle, true))
                return fail(ncclInvalidArgument, "ncclM2nFinalize: unknown handle");
        free(handle);
        pthread_mutex_lock(&lock);
        for (int i = 0; i < HANDLES; i++)
                last &= !handles[i];
        for (int i = 0; i < COMMS && last; i++) {
                if (comms[i].hidden)
                        ncclCommDestroy(comms[i].hidden);
                comms[i].of = comms[i].hidden = NULL;
        }
        pthread_mutex_unlock(&lock);
        return ncclSuccess;
}

/* ---- one reshard ---- */

static size_t type_bytes(ncclDataType_t type)
{
        static const unsigned char bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

        return (unsigned)type < sizeof bytes ? bytes[type] : 0;
}

static ncclResult_t take_side(struct side *s, const ncclDistTensor_t *t, const char *which, int n)
{
        const ncclMesh_t *mesh = t ? t->mesh : NULL;

        if (!t || t->size < sizeof *t || t->version != NCCL_M2N_API_VERSION || !t->localShape ||
            t->ndims < 1 || t->ndims > DIMS || !type_bytes(t->dtype) || !t->placements)
                return fail(ncclInvalidArgument, "%s: malformed tensor", which);
        if (!mesh || mesh->size < sizeof *mesh || mesh->version != NCCL_M2N_API_VERSION ||
            mesh->ndims < 1 || mesh->ndims > AXES || !mesh->dims)
                return fail(ncclInvalidArgument, "%s: malformed mesh", which);
        *s = (struct side){
                .axes = mesh->ndims, .start = mesh->startRank, .ranks = 1, .data = t->dataPtr};
        for (int i = 0; i < DIMS; i++)
                s->shape[i] = i < t->ndims ? t->localShape[i] : 1;
        for (int a = 0; a < s->axes; a++) {
                s->dims[a] = mesh->dims[a];
                s->placement[a] = t->placements[a];
                if (s->dims[a] < 1 || s->placement[a] < NCCL_RESHARD_REPLICATE ||
                    s->placement[a] >= t->ndims)
                        return fail(ncclInvalidArgument, "%s: axis %d", which, a);
                s->ranks *= s->dims[a];
        }
        if (s->start < 0 || s->start + s->ranks > n)
                return fail(ncclInvalidArgument, "%s: ranks beyond the communicator", which);
        return ncclSuccess;
}

/* Where in the whole tensor the tile of the side's @nth rank begins; which of the copies it is. */
static int tile_of(const struct side *s, int nth, size_t start[DIMS], int *copies)
{
        int at[AXES] = {s->axes == 2 ? nth / s->dims[1] : nth, s->axes == 2 ? nth % s->dims[1] : 0},
            copy = 0;

        *copies = 1;
        memset(start, 0, DIMS * sizeof *start);
        for (int a = 0; a < s->axes; a++) {
                if (s->placement[a] >= 0) {
                        start[s->placement[a]] = (size_t)at[a] * s->shape[s->placement[a]];
                } else {
                        copy = copy * s->dims[a] + at[a];
                        *copies *= s->dims[a];
                }
        }
        return copy;
}

static size_t bytes_of(const struct box *b)
{
        return b->size[0] * b->size[1] * b->size[2] * b->element;
}

static void run_box(void *arg)
{
        struct box *b = arg;
        size_t line = b->size[2] * b->element;
        char *packed = b->packed;

        for (size_t i = 0; i < b->size[0]; i++) {
                for (size_t j = 0; j < b->size[1]; j++, packed += line) {
                        char *tile =
                                b->tile +
                                (((b->start[0] + i) * b->shape[1] + b->start[1] + j) * b->shape[2] +
                                 b->start[2]) *
                                        b->element;

                        memcpy(b->in ? tile : packed, b->in ? packed : tile, line);
                }
        }
        if (b->in)
                free(b->packed);
        free(b);
}

static void run_free(void *packed) { free(packed); }

/* What the @p-th rank that sends has of the tile of the @q-th that receives, for the one that is
 * @mine; NULL: nothing. */
static struct box *overlap(const struct reshard *r, int p, int q, bool sending)
{
        const struct side *mine = sending ? &r->from : &r->to;
        size_t from[DIMS], to[DIMS];
        struct box *b = calloc(1, sizeof *b);
        int copies, unused, copy = tile_of(&r->from, p, from, &copies);
        bool some = copy == q % copies;

        tile_of(&r->to, q, to, &unused);
        for (int i = 0; i < DIMS && some; i++) {
                size_t begin = from[i] > to[i] ? from[i] : to[i];
                size_t end_from = from[i] + r->from.shape[i], end_to = to[i] + r->to.shape[i];
                size_t end = end_from < end_to ? end_from : end_to;

                some = begin < end;
                b->size[i] = some ? end - begin : 0;
                b->start[i] = begin - (sending ? from[i] : to[i]);
                b->shape[i] = mine->shape[i];
        }
        b->tile = mine->data;
        b->element = r->element;
        b->in = !sending;
        if (some)
                b->packed = malloc(bytes_of(b));
        else
                free(b);
        return some ? b : NULL;
}

static ncclResult_t hidden_comm(ncclComm_t comm, ncclComm_t *hidden)
{
        ncclResult_t rc = ncclSuccess;
        int rank, i = 0;

        pthread_mutex_lock(&lock);
        while (i < COMMS && comms[i].of && comms[i].of != comm)
                i++;
        if (i == COMMS) {
                rc = ncclSystemError;
        } else if (!comms[i].of) {
                rc = ncclCommUserRank(comm, &rank);
                if (!rc)
                        rc = ncclCommSplit(comm, 0, rank, &comms[i].hidden, NULL);
                if (!rc)
                        comms[i].of = comm;
        }
        if (!rc)
                *hidden = comms[i].hidden;
        pthread_mutex_unlock(&lock);
        return rc;
}

/* Send and receive boxes, in one group. */
static ncclResult_t issue(const struct reshard *r)
{
        int rank, at, most = r->from.ranks + r->to.ranks, n_sent = 0, n_taken = 0;
        struct box **taken = calloc((size_t)most, sizeof *taken);
        char **sent = calloc((size_t)most, sizeof *sent);
        ncclComm_t comm;
        ncclResult_t rc = hidden_comm(r->comm, &comm);

        if (!rc)
                rc = ncclCommUserRank(r->comm, &rank);
        if (!rc)
                rc = ncclGroupStart();
        if (rc)
                goto out;
        at = rank - r->from.start;
        for (int q = 0; at >= 0 && at < r->from.ranks && q < r->to.ranks && !rc; q++) {
                struct box *b = overlap(r, at, q, true);
                size_t bytes;

                if (!b)
                        continue;
                bytes = bytes_of(b);
                sent[n_sent++] = b->packed;
                rc = cuLaunchHostFunc(r->stream, run_box, b) ? ncclUnhandledCudaError : ncclSuccess;
                if (!rc)
                        rc = ncclSend(sent[n_sent - 1], bytes, ncclInt8, r->to.start + q, comm,
                                      r->stream);
        }
        at = rank - r->to.start;
        for (int p = 0; at >= 0 && at < r->to.ranks && p < r->from.ranks && !rc; p++) {
                struct box *b = overlap(r, p, at, false);

                if (!b)
                        continue;
                taken[n_taken++] = b;
                rc = ncclRecv(b->packed, bytes_of(b), ncclInt8, r->from.start + p, comm, r->stream);
        }
        if (!rc)
                rc = ncclGroupEnd();
        else
                ncclGroupEnd();
        for (int i = 0; i < n_sent; i++)
                cuLaunchHostFunc(r->stream, run_free, sent[i]);
        for (int i = 0; i < n_taken; i++)
                cuLaunchHostFunc(r->stream, run_box, taken[i]);
out:
        free(taken);
        free(sent);
        return rc;
}

/* The calls of a group by handle, communicator and stream, in the order in which those came first. */
static ncclResult_t issue_all(struct reshard *entries, int n)
{
        bool *done = calloc((size_t)n + 1, sizeof *done);
        ncclResult_t rc = ncclSuccess;

        for (int i = 0; i < n && !rc; i++) {
                for (int j = i; j < n && !rc; j++) {
                        if (done[j] || entries[j].handle != entries[i].handle ||
                            entries[j].comm != entries[i].comm ||
                            entries[j].stream != entries[i].stream)
                                continue;
                        done[j] = true;
                        rc = issue(&entries[j]);
                        if (rc)
                                fail(rc, "ncclM2nGroupEnd: entry %d", j);
                }
        }
        free(done);
        return rc;
}

/* ---- the calls ---- */

ncclResult_t ncclM2nGroupStart(void)
{
        *last_error = 0;
        group.depth++;
        return ncclSuccess;
}

static void forget_group(void)
{
        free(group.entries);
        memset(&group, 0, sizeof group);
}

ncclResult_t ncclM2nGroupEnd(void)
{
        struct reshard *entries = group.entries;
        int n = group.n;
        ncclResult_t rc = group.error;

        *last_error = 0;
        if (!group.depth)
                return fail(ncclInvalidUsage, "ncclM2nGroupEnd: no group is active");
        if (--group.depth)
                return ncclSuccess;
        group.entries = NULL;
        forget_group();
        if (rc)
                fail(rc, "ncclM2nGroupEnd: a recorded call failed");
        else
                rc = issue_all(entries, n);
        free(entries);
        return rc;
}

ncclResult_t ncclM2nGroupAbort(void)
{
        *last_error = 0;
        forget_group();
        return ncclSuccess;
}

static ncclResult_t reshard(ncclM2nHandle_t handle, ncclComm_t comm, const ncclDistTensor_t *src,
                            const ncclDistTensor_t *dst, cudaStream_t stream)
{
        struct reshard r = {.handle = handle, .comm = comm, .stream = stream};
        CUstreamCaptureStatus capturing = 0;
        ncclResult_t rc;
        int n;

        *last_error = 0;
        if (!comm || (handle && !is_handle(handle, false)))
                return fail(ncclInvalidArgument, "ncclReshard: comm or handle");
        rc = ncclCommCount(comm, &n);
        if (rc || (rc = take_side(&r.from, src, "src", n)) ||
            (rc = take_side(&r.to, dst, "dst", n)))
                return rc;
        if (src->ndims != dst->ndims || src->dtype != dst->dtype)
                return fail(ncclInvalidArgument,
                            "ncclReshard: src and dst differ in dimensions or type");
        if (n > 1 && r.from.start < r.to.start + r.to.ranks &&
            r.to.start < r.from.start + r.from.ranks)
                return fail(ncclInvalidArgument, "ncclReshard: the meshes overlap");
        cuStreamIsCapturing(stream, &capturing);
        if (capturing)
                return fail(ncclInvalidUsage, "ncclReshard: the stream is being captured");
        r.element = type_bytes(src->dtype);
        if (!group.depth)
                return issue(&r);
        group.entries = realloc(group.entries, (size_t)(group.n + 1) * sizeof r);
        group.entries[group.n++] = r;
        return ncclSuccess;
}

ncclResult_t ncclReshard(ncclM2nHandle_t handle, ncclComm_t comm, const ncclDistTensor_t *src,
                         const ncclDistTensor_t *dst, cudaStream_t stream)
{
        ncclResult_t rc = reshard(handle, comm, src, dst, stream);

        if (group.depth && rc && !group.error)
                group.error = rc;
        return rc;
}

ncclResult_t ncclReshardWithWindow(ncclM2nHandle_t handle, ncclComm_t comm, ncclWindow_t window,
                                   const ncclDistTensor_t *src, const ncclDistTensor_t *dst,
                                   cudaStream_t stream)
{
        (void)window;
        return ncclReshard(handle, comm, src, dst, stream);
}
