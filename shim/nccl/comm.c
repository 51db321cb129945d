/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators, from creation to destruction. A wrapped call has a handle and needs an entry:
 * first the thread's last one (recorder.h), else the table of record/comms.h.
 *
 * The uid is what lets a report join ranks. Every rank must come to the same number by itself:
 *      CommInitRank*      hash of the 128-byte ncclUniqueId all ranks were given
 *      CommInitAll        the id NCCL makes inside (its call comes through our ncclGetUniqueId),
 *                         else a random number: all its ranks are in this process anyway
 *      Split, Shrink      hash of the parent's uid, how many children the parent had before, and
 *                         the colour: collective calls on one communicator come in one order on all
 *                         ranks
 *      Grow               as Shrink for old ranks; new ranks, who know no parent, hash the
 *                         ncclUniqueId: they are joined with the others by NCCL's own commHash
 *                         where a plugin got it
 *      unknown            made before capo looked or by a door it does not see: 0 */
#include <fcntl.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "capo/env.h"
#include "capo/msg.h"
#include "shim/nccl/comm.h"
#include "shim/nccl/call_override.h"
#include "shim/nccl/reported.h"
#include "shim/nccl/untuned.h"
#include "shim/record/start.h"
#include "shim/site/site_python.h"

_Atomic unsigned capo_comms_pending;

enum { COLOR_GUEST = -1000003 }; /* as the colours of wrap_nccl.c */

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static bool settings_logged; /* once more than when the recorder began */

/* Creations whose handle is not known yet. One list for all threads: short and seldom used. */
static struct {
        struct capo_creation creation;
        const struct capo_tls *thread;
} waiting[1024];

uint64_t capo_uid_of(const ncclUniqueId *id)
{
        uint64_t uid = XXH3_64bits(id, sizeof *id);

        return uid ? uid : 1;
}

uint64_t capo_uid_child(uint64_t parent, uint32_t nth, int color)
{
        uint64_t key[3] = {parent, nth, (uint64_t)(int64_t)color};
        uint64_t uid = XXH3_64bits(key, sizeof key);

        return parent == 0 ? 0 : uid ? uid : 1;
}

/* ---- names ---- */

/* CAPO_COMM_NAMES: lines "uid-or-ordinal name". The uid as the report prints it (hex), the ordinal
 * decimal, 1 the process' first communicator. Is @line @comm's? */
static bool name_in_line(const char *line, const struct capo_comm *comm, char *name, size_t room)
{
        char key[40], value[96], *end;
        unsigned long long number;

        if (*line == '#' || sscanf(line, "%39s %95[^\r\n]", key, value) != 2)
                return false;
        number = strtoull(key, &end, strlen(key) == 16 ? 16 : 10);
        if (*end || (number != comm->uid && number != comm->id))
                return false;
        snprintf(name, room, "%s", value);
        return true;
}

static void name_from_file(const struct capo_comm *comm, char *name, size_t room)
{
        const char *path = capo_shim_env()->comm_names;
        _cleanup_close_ int fd = -1;
        static char text[8192]; /* under the segment's lock; a job's stack may be small */
        size_t have = 0;
        struct stat st;
        ssize_t n;

        if (!*path)
                return;
        fd = open(path, O_RDONLY | O_CLOEXEC |
                                O_NONBLOCK); /* nothing in a job waits for who writes a FIFO */
        if (fd >= 0 && !fstat(fd, &st) && !S_ISREG(st.st_mode)) {
                capo_warn_once("%s: communicator names cannot be read: not a regular file", path);
                return;
        }
        while ((n = fd < 0 ? -1 : read(fd, text + have, sizeof text - 1 - have)) > 0) {
                char *line = text, *next;

                have += (size_t)n;
                for (; (next = memchr(line, '\n', (size_t)(text + have - line))); line = next + 1) {
                        *next = 0;
                        if (name_in_line(line, comm, name, room))
                                return;
                }
                have -= (size_t)(line - text);
                memmove(text, line, have);
                if (have == sizeof text - 1) /* no line of ours */
                        have = 0;
        }
        if (n < 0)
                capo_warn_once("%s: communicator names cannot be read: %s", path, strerror(errno));
        text[have] = 0;
        name_in_line(text, comm, name, room);
}

/* PyTorch's groups have a number ("0"), or a hash, which it tells NCCL, and a name that the program
 * gave ("default_pg", "mesh_dp"), which it does not. It is an argument of the two functions of
 * torch/distributed that make groups. */
static void name_of_torch(struct capo_creation *creation)
{
        static const char *const makers[] = {"_new_process_group_helper", "split_group"};
        char name[sizeof creation->name];

        for (size_t i = 0; i < N_ELEMENTS(makers); i++) {
                if (capo_python_local(makers[i], "group_desc", name, sizeof name) &&
                    strcmp(name, "undefined")) {
                        memcpy(creation->name, name, sizeof name);
                        return;
                }
        }
        if (!*creation->name)
                capo_python_local(makers[0], "group_name", creation->name, sizeof creation->name);
}

static void read_config(struct capo_creation *creation, const ncclConfig_t *config)
{
        if (!config || config->size < offsetof(ncclConfig_t, cgaClusterSize) ||
            config->magic != CAPO_NCCL_CONFIG_MAGIC)
                return;
        creation->nonblocking = config->blocking == 0;
        if (config->size >= offsetof(ncclConfig_t, commName) + sizeof config->commName &&
            config->commName) {
                strncpy(creation->name, config->commName, sizeof creation->name - 1);
                for (char *p = creation->name; *p; p++) {
                        if ((unsigned char)*p < 32)
                                *p = ' ';
                }
        }
}

void capo_comm_config(struct capo_creation *creation, const ncclConfig_t *config)
{
        int saved = errno;

        read_config(creation, config);
        name_of_torch(creation);
        errno = saved;
}

/* ---- creation, change, destruction ---- */

/* Ask NCCL itself. Nested, so that nothing of it is recorded. */
static void query_comm(struct capo_tls *t, struct capo_comm *comm, struct capo_nccl *lib)
{
        const void *inside = t->inside;
        int v;

        t->inside = __builtin_frame_address(0);
        if (comm->n_ranks == 0 && lib->ncclCommCount(comm->handle, &v) == ncclSuccess && v > 0)
                comm->n_ranks = (uint32_t)v;
        if (comm->rank < 0 && lib->ncclCommUserRank(comm->handle, &v) == ncclSuccess)
                comm->rank = v;
        if (comm->device < 0 && lib->ncclCommCuDevice(comm->handle, &v) == ncclSuccess)
                comm->device = v;
        t->inside = inside;
        capo_gpu_describe(comm->device);
}

/* @shared: of an id that several have. */
static void describe_comm(const struct capo_comm *comm, const struct capo_creation *creation,
                          bool shared)
{
        struct capo_seg_comm *entry = capo_comm_change(comm);

        if (entry && shared) {
                entry->log.flags |= CAPO_COMM_SEVERAL;
                entry->log.uid = 0;
                __atomic_store_n(&entry->log.t_destroyed, 0, __ATOMIC_RELAXED);
        } else if (entry) {
                entry->log.rank = comm->rank;
                entry->log.n_ranks = comm->n_ranks ? (int32_t)comm->n_ranks : -1;
                entry->log.device = comm->device;
                entry->log.comm_hash = comm->comm_hash;
                if (creation) {
                        entry->log.id = comm->id;
                        entry->log.parent = creation->parent ? creation->parent->id : 0;
                        entry->log.color = creation->color;
                        entry->log.n_nodes = entry->log.min_local = entry->log.max_local = -1;
                        entry->log.uid = comm->uid;
                        entry->log.t_created = capo_clock_ticks();
                        __atomic_store_n(&entry->log.handle, (uintptr_t)comm->handle,
                                         __ATOMIC_RELAXED);
                        entry->log.library = (uint16_t)comm->lib->number;
                        entry->log.flags = creation->nonblocking ? CAPO_COMM_NONBLOCKING : 0;
                        memcpy(entry->name, creation->name, sizeof creation->name);
                        name_from_file(comm, entry->name, sizeof entry->name);
                }
        }
        capo_comm_changed(entry);
}

static struct capo_comm *register_comm(struct capo_tls *t, const struct capo_creation *creation,
                                       ncclComm_t handle, bool in_progress, uint64_t begun)
{
        struct capo_comm what = {
                .handle = handle,
                .lib = creation->lib,
                .into = creation->lib,
                .uid = creation->uid,
                .nccl_hash = creation->apart ? 0 : creation->nccl_hash,
                .apart = creation->apart,
                .n_ranks = creation->n_ranks > 0 ? (uint32_t)creation->n_ranks : 0,
                .rank = creation->rank,
                .device = creation->device,
                .pending = in_progress,
                .begun = begun,
                .guest = creation->guest,
        };
        struct capo_comm *c, *old;
        int saved = errno; /* NCCL's answer has been given */
        bool shared;

        capo_gpu_detect();
        if (!in_progress && !creation->guest) /* without a lock: who wraps NCCL may call us */
                query_comm(t, &what, creation->lib);
        capo_lock(&table_lock);
        if (!settings_logged) /* NCCL has read its files of settings by now */
                capo_info_environment();
        settings_logged = true;
        old = capo_comm_known(handle);
        if (old && !creation->where) {
                capo_unlock(&table_lock);
                errno = saved;
                return old;
        }
        if (old)
                capo_comm_leave(old); /* NCCL gave the address out again */
        c = capo_comm_new(&what);
        if (!c) {
                capo_unlock(&table_lock);
                errno = saved;
                return capo_comm_none();
        }
        if (in_progress)
                atomic_fetch_add(&capo_comms_pending, 1);
        shared = capo_comm_name_id(c);
        capo_comm_enter(c);
        capo_unlock(&table_lock);
        describe_comm(c, creation, shared);
        if (!shared && !c->guest)
                capo_comm_claim(c);
        if (!in_progress && !c->guest) {
                capo_untuned_check(c->n_ranks, c->lib->version);
                capo_override_settle(c);
        }
        errno = saved;
        return c;
}

struct capo_comm *capo_comm_guest(struct capo_tls *t, struct capo_comm *parent, void *handle,
                                  enum capo_guest guest, const char *name)
{
        uint32_t nth = guest == CAPO_GUEST_M2N ? 0 : parent->guests++;
        struct capo_creation creation = {
                .where = (ncclComm_t *)&handle,
                .lib = parent->lib,
                .uid = capo_uid_child(parent->uid, nth, COLOR_GUEST - (int)guest),
                .parent = parent,
                .rank = parent->rank,
                .n_ranks = (int)parent->n_ranks,
                .device = parent->device,
                .color = -1,
                .apart = parent->apart,
                .guest = guest};

        snprintf(creation.name, sizeof creation.name, "%s", name);
        return register_comm(t, &creation, handle, false, capo_clock_ticks());
}

struct capo_comm *capo_comm_created(struct capo_tls *t, const struct capo_creation *creation,
                                    ncclResult_t result)
{
        size_t i = 0;

        if (result != ncclSuccess && result != ncclInProgress)
                return NULL;
        if (!t->group_depth)
                return *creation->where ? register_comm(t, creation, *creation->where,
                                                        result == ncclInProgress,
                                                        capo_call_record(t)->t_begin)
                                        : NULL;
        capo_lock(&table_lock);
        while (i < N_ELEMENTS(waiting) && waiting[i].thread)
                i++;
        if (i < N_ELEMENTS(waiting)) {
                waiting[i].creation = *creation;
                waiting[i].thread = t;
                t->n_creations++;
        }
        capo_unlock(&table_lock);
        if (i == N_ELEMENTS(waiting))
                capo_warn_once(
                        "more than %zu communicators are made in groups at a time: others are joined with no other rank's",
                        i);
        return NULL;
}

void capo_comm_group_over(struct capo_tls *t, ncclResult_t result)
{
        for (size_t i = 0; i < N_ELEMENTS(waiting) && t->n_creations; i++) {
                struct capo_creation creation;

                capo_lock(&table_lock);
                if (waiting[i].thread != t) {
                        capo_unlock(&table_lock);
                        continue;
                }
                creation = waiting[i].creation;
                waiting[i].thread = NULL;
                capo_unlock(&table_lock);
                t->n_creations--;
                if ((result == ncclSuccess || result == ncclInProgress) && *creation.where)
                        register_comm(t, &creation, *creation.where, result == ncclInProgress,
                                      t->group_begin);
        }
        t->n_creations = 0;
}

void capo_comm_settled(struct capo_tls *t, struct capo_comm *comm)
{
        int saved = errno;

        comm->pending = false;
        atomic_fetch_sub(&capo_comms_pending, 1);
        query_comm(t, comm, comm->lib);
        describe_comm(comm, NULL, false);
        if (!comm->comm_hash)
                capo_comm_claim(comm);
        capo_untuned_check(comm->n_ranks, comm->lib->version);
        capo_override_settle(comm);
        errno = saved;
}

void capo_comm_destroyed(struct capo_comm *comm, bool aborted)
{
        struct capo_comm *reshards =
                comm->guest ? NULL : capo_comm_known(capo_m2n_key(comm->handle));
        struct capo_seg_comm *entry;

        if (reshards)
                capo_comm_destroyed(reshards, aborted);
        entry = capo_comm_change(comm);
        if (entry) {
                __atomic_store_n(&entry->log.t_destroyed, capo_clock_ticks(), __ATOMIC_RELAXED);
                if (aborted)
                        entry->log.flags |= CAPO_COMM_ABORTED;
        }
        capo_comm_changed(entry);
        if (comm->pending)
                atomic_fetch_sub(&capo_comms_pending, 1);
        comm->pending = false;
        capo_lock(&table_lock);
        capo_comm_leave(comm);
        capo_unlock(&table_lock);
}

/* Out of line of capo_call_begin(): not the communicator of the last call. */
struct capo_comm *capo_comm_find(struct capo_tls *t, ncclComm_t handle, int which,
                                 const void *caller)
{
        struct capo_comm *c;
        int saved = errno;

        if (!handle) {
                c = capo_comm_none();
        } else {
                c = capo_comm_known(handle);
                if (!c) {
                        struct capo_creation creation = {.lib = capo_lib(t, which, caller),
                                                         .rank = -1,
                                                         .n_ranks = -1,
                                                         .device = -1,
                                                         .color = -1};

                        c = register_comm(t, &creation, handle, false, capo_clock_ticks());
                }
        }
        errno = saved;
        return c;
}

void capo_comm_fork(void)
{
        memset(waiting, 0, sizeof waiting);
        atomic_store(&capo_comms_pending, 0);
        settings_logged = false;
        pthread_mutex_init(&table_lock, NULL);
        capo_comms_fork();
        capo_reported_fork();
}
