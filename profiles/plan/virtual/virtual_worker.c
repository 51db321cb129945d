/* SPDX-License-Identifier: Apache-2.0 */
/* One simulated node: loads the libnccl in question, replaces its CUDA runtime, and runs the node's
 * ranks, one thread each. Every rank makes every call of the question, as in a job. NCCL's
 * decisions are captured on the way (profiler, tuner, kernel launch). Kernels never finish, so
 * nothing waits for them and communicators are not destroyed: when all ranks of all nodes have made
 * their last call, the process exits. */
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "capo/collectives.h"
#include "core/base/nccl_facts.h"
#include "core/base/nccl_release.h"
#include "profiles/machine/elf_file.h"
#include "profiles/plan/virtual/patch.h"
#include "profiles/plan/virtual/virtual.h"
#include "profiles/plan/virtual/virtual_job.h"

enum { SUM = 0, INT8 = 0, FLOAT32 = 7, WINDOW_SYMMETRIC = 1 }; /* nccl.h */

struct unique_id {
        char bytes[128];
};

#define BUFFERS const void *src, void *dst, size_t count, int type
#define FUNCTIONS(F)                                                                           \
        F(GetVersion, false, int, (int *version))                                              \
        F(GetUniqueId, false, int, (struct unique_id * id))                                    \
        F(CommInitRank, false, int, (void **comm, int n_ranks, struct unique_id id, int rank)) \
        F(GetErrorString, false, const char *, (int rc))                                       \
        F(GetLastError, true, const char *, (void *comm))                                      \
        F(AllReduce, false, int, (BUFFERS, int op, void *comm, void *stream))                  \
        F(Broadcast, false, int, (BUFFERS, int root, void *comm, void *stream))                \
        F(Reduce, false, int, (BUFFERS, int op, int root, void *comm, void *stream))           \
        F(AllGather, false, int, (BUFFERS, void *comm, void *stream))                          \
        F(ReduceScatter, false, int, (BUFFERS, int op, void *comm, void *stream))              \
        F(MemAlloc, true, int, (void **p, size_t bytes))                                       \
        F(CommWindowRegister, true, int,                                                       \
          (void *comm, void *p, size_t bytes, void **window, int flags))

static struct {
#define FUNCTION(name, optional, type, parameters) type(*name) parameters;
        FUNCTIONS(FUNCTION)
#undef FUNCTION
} nccl;

static const struct {
        const char *name;
        void **to;
        bool optional;
} functions[] = {
#define FUNCTION(name, optional, type, parameters) {"nccl" #name, (void **)&nccl.name, optional},
        FUNCTIONS(FUNCTION)
#undef FUNCTION
};

/* ---- redirecting the runtime ---- */

struct patching {
        char *base;          /* load address */
        unsigned char *stub; /* next free place for a stub */
        unsigned char *stub_end;
        unsigned patched, n_spare;
        void *spare[PLAN_SPARE]; /* room for jumps in code that is no longer executed */
};

enum { SPARE_AT = 16 }; /* offset of the jump, to a multiple of 4 */
static_assert(SPARE_AT >= (int)CAPO_PATCH_BYTES, "behind the jump");

static int patch_one(const char *name, uint64_t value, uint64_t size, void *arg)
{
        struct patching *p = arg;
        void *to;
        int r;

        plan_host_symbol(name, p->base + value);
        if (plan_job->messages && strncmp(name, "_Z", 2) == 0)
                return plan_standin_symbol(name, value, size, p->base);
        if (strncmp(name, "cuda", 4) || name[4] < 'A' || name[4] > 'Z' ||
            !strcmp(name, "cudaRuntimeGetVersion"))
                return 0;
        to = plan_cuda_find(name);
        if (!to) { /* a stub that reports the name of the missing function */
                const char *kept = strdup(name);
                size_t n = kept ? capo_patch_stub(p->stub, (size_t)(p->stub_end - p->stub), kept,
                                                  (void *)plan_gap)
                                : 0;

                to = n ? p->stub : (void *)plan_gap;
                p->stub += n;
        }
        r = capo_patch_jump(p->base + value, to);
        if (r == 0) {
                if (size >= 2 * SPARE_AT && p->n_spare < N_ELEMENTS(p->spare))
                        p->spare[p->n_spare++] = p->base + value + SPARE_AT;
                p->patched++;
        }
        return r;
}

/* Call @each for every symbol of that type in .symtab, the table that the dynamic linker does not
 * need and `strip` removes. libnccl contains its CUDA runtime as local functions, and only this table
 * has their addresses. Return: 0; what @each returned; -ENODATA: there is no table. */
static int walk_symbols(unsigned type,
                        int (*each)(const char *name, uint64_t value, uint64_t size, void *arg),
                        void *arg)
{
        _cleanup_(capo_elf_close) struct capo_elf_file elf = {0};
        struct capo_elf_symbol s = {0};
        int r = capo_elf_open(plan_job->libnccl, &elf);

        while (!r && capo_elf_next(&elf, SHT_SYMTAB, &s)) {
                if (ELF64_ST_TYPE(s.symbol->st_info) == type && s.symbol->st_value)
                        r = each(s.name, s.symbol->st_value, s.symbol->st_size, arg);
        }
        return r || s.name ? r : -ENODATA;
}

static int redirect_cuda(void *handle)
{
        struct link_map *map;
        size_t room = 1 << 16;
        struct patching p = {0};
        int r;

        if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0)
                return -EINVAL;
        p.base = (char *)map->l_addr;
        p.stub = mmap(NULL, room, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
                      -1, 0);
        if (p.stub == MAP_FAILED)
                return -errno;
        p.stub_end = p.stub + room;
        r = walk_symbols(STT_FUNC, patch_one, &p);
        if (r == -ENODATA)
                plan_fail(
                        "%s: stripped: it has no .symtab, so the CUDA runtime inside it cannot be found",
                        plan_job->libnccl);
        else if (r < 0)
                plan_fail("%s: %s", plan_job->libnccl, strerror(-r));
        else if (p.patched < 50)
                plan_fail(
                        "%s: only %u CUDA runtime functions found in its .symtab: not a libnccl with a static CUDA "
                        "runtime",
                        plan_job->libnccl, p.patched);
        if (r < 0 || p.patched < 50)
                return -ENOEXEC;
        if (plan_job->messages && plan_standin_patch(p.base, p.spare) < 0)
                return -ENOEXEC;
        if (capo_nccl_has(plan_job->version, CAPO_NCCL_KERNELS_BY_TABLE))
                walk_symbols(STT_OBJECT, plan_kernel_table, p.base);
        return 0;
}

static int check_memory(void)
{
        double needed =
                plan_job->domain_bytes[capo_nccl_has(plan_job->version, CAPO_NCCL_PATHS_TWICE)];

        if (plan_job->available_bytes <= 0 || needed <= plan_job->available_bytes)
                return 0;
        plan_fail("NVLink domains of that many ranks take about %.0f GB of memory, and %.0f GB are "
                  "available: this NCCL keeps all paths of a domain in every rank",
                  needed / 1e9, plan_job->available_bytes / 1e9);
        return -ENOMEM;
}

static int load_nccl(void)
{
        void *handle = dlopen(plan_job->libnccl, RTLD_NOW | RTLD_LOCAL);

        if (!handle) {
                plan_fail("%s cannot be loaded: %s", plan_job->libnccl, dlerror());
                return -ENOENT;
        }
        for (size_t i = 0; i < N_ELEMENTS(functions); i++) {
                *functions[i].to = dlsym(handle, functions[i].name);
                if (!*functions[i].to && !functions[i].optional) {
                        plan_fail("%s is not a libnccl of 2.19 or later: it has no %s",
                                  plan_job->libnccl, functions[i].name);
                        return -ENOENT;
                }
        }
        nccl.GetVersion(&plan_job->version);
        if (!capo_nccl_has(plan_job->version, CAPO_NCCL_PLANNED)) {
                char text[16];

                plan_fail("%s is NCCL %s; plan needs 2.19 or later", plan_job->libnccl,
                          capo_nccl_text((uint32_t)plan_job->version, text, sizeof text));
                return -EINVAL;
        }
        return check_memory() < 0 ? -ENOMEM : redirect_cuda(handle);
}

/* ---- the ranks ---- */

struct rank {
        pthread_t thread;
        uint32_t rank, asked; /* asked: index in job->asked */
        int dev;
        void *comm;
        int rc;
};

static uint64_t most;              /* bytes of the largest row */
static char *plain_buffer;         /* address space only; no kernel reads it */
static _Thread_local char *buffer; /* plain_buffer, or this rank's window */

static int call_collective(void *comm, uint32_t n_ranks, const struct capo_plan_row *row)
{
        bool shared = row->coll == CAPO_COLL_ALLGATHER || row->coll == CAPO_COLL_REDUCESCATTER;
        uint64_t share = shared ? row->bytes / n_ranks : row->bytes;
        int type = share % 4 == 0 || share > (1 << 20) ? FLOAT32 : INT8;
        size_t count = type == FLOAT32 ? share / 4 : share;

        switch (row->coll) {
        case CAPO_COLL_BROADCAST: return nccl.Broadcast(buffer, buffer, count, type, 0, comm, NULL);
        case CAPO_COLL_REDUCE: return nccl.Reduce(buffer, buffer, count, type, SUM, 0, comm, NULL);
        case CAPO_COLL_ALLGATHER: return nccl.AllGather(buffer, buffer, count, type, comm, NULL);
        case CAPO_COLL_REDUCESCATTER:
                return nccl.ReduceScatter(buffer, buffer, count, type, SUM, comm, NULL);
        default: return nccl.AllReduce(buffer, buffer, count, type, SUM, comm, NULL);
        }
}

static int open_window(struct rank *me)
{
        void *memory, *window = NULL;

        if (!nccl.MemAlloc || !nccl.CommWindowRegister) {
                plan_fail("this NCCL has no ncclCommWindowRegister; 2.27 and later have");
                return -ENOSYS;
        }
        me->rc = nccl.MemAlloc(&memory, most);
        if (!me->rc)
                me->rc = nccl.CommWindowRegister(me->comm, memory, most, &window, WINDOW_SYMMETRIC);
        if (me->rc) {
                plan_fail("rank %u: %s: its buffer becomes no window", me->rank,
                          nccl.GetErrorString(me->rc));
                return -EIO;
        }
        if (!window) /* NCCL returns none if the machine does not support windows: the buffer is an
                        ordinary one */
                atomic_store(&plan_job->windowless, 1);
        buffer = memory;
        return 0;
}

static void *play_rank(void *arg)
{
        const char *log = getenv("NCCL_DEBUG_FILE");
        struct stat st;
        struct rank *me = arg;
        struct plan_agree *agree = plan_job_agree(plan_job, me->asked);
        struct unique_id id;

        memcpy(&id, plan_job->id, sizeof id);
        plan_device = me->dev;
        if (plan_job->messages && plan_standin_begin(me->asked) < 0)
                return NULL;
        me->rc = nccl.CommInitRank(&me->comm, (int)plan_job->n_ranks, id, (int)me->rank);
        if (me->rc != 0) {
                const char *last = nccl.GetLastError ? nccl.GetLastError(NULL) : NULL;

                plan_fail("ncclCommInitRank of rank %u: %s%s%.200s", me->rank,
                          nccl.GetErrorString(me->rc), last && *last ? ": " : "", last ? last : "");
                return NULL;
        }
        buffer = plain_buffer;
        if (plan_job->windows && open_window(me) < 0)
                return NULL;
        for (uint32_t i = 0; i < plan_job->n_rows && !atomic_load(&plan_job->failed); i++) {
                struct capo_plan_row *row = &plan_job->rows[i].row;
                struct plan_seen seen = {.row = me->rank == 0 ? row : NULL,
                                         .algo = -1,
                                         .proto = -1,
                                         .func_index = -1};

                plan_seen = &seen;
                me->rc = call_collective(me->comm, plan_job->n_ranks, row);
                plan_seen = NULL;
                if (seen.algo < 0)
                        plan_kernel_decode(&seen, row->coll);
                agree[i] = (struct plan_agree){
                        (int8_t)seen.algo, (int8_t)seen.proto,
                        (uint8_t)(seen.channels ? seen.channels : (int)seen.grid), 1};
                if (me->rank == 0) {
                        row->algo = (uint8_t)(seen.algo + 1);
                        row->proto = (uint8_t)(seen.proto + 1);
                        row->channels = (uint8_t)seen.grid;
                        row->warps = (uint8_t)(seen.block / 32);
                        /* NCCL writes whole lines: its output so far belongs to the calls so far */
                        plan_job->rows[i].log_end =
                                log && stat(log, &st) == 0 ? (uint64_t)st.st_size : 0;
                        atomic_fetch_add(&plan_job->rows_done, 1);
                }
                if (me->rc != 0) {
                        plan_fail("rank %u, row %u: %s", me->rank, i, nccl.GetErrorString(me->rc));
                        return NULL;
                }
        }
        atomic_fetch_add(&plan_job->ranks_ready, 1);
        return NULL;
}

static bool wait_for(_Atomic uint32_t *word, uint32_t at_least)
{
        while (atomic_load(word) < at_least) {
                if (atomic_load(&plan_job->failed)) {
                        plan_fail_wait();
                        return false;
                }
                usleep(300);
        }
        return true;
}

/* Up to 2.21, threads that load the tuner at the same time may wrongly find none (misc/tuner.cc
 * reads its state without the lock). Jobs with one process per rank do not have that problem, but
 * our threads do. So a communicator of one rank is created first, without the graph file, which is
 * for another one. */
static int load_tuner_alone(uint32_t node)
{
        const char *file = getenv("NCCL_GRAPH_FILE");
        _cleanup_free_ char *kept = file ? strdup(file) : NULL;
        struct unique_id id;
        int r = -ENOENT;
        void *comm;

        unsetenv("NCCL_GRAPH_FILE"); /* no other thread runs yet */
        for (uint32_t i = 0; i < plan_job->n_ranks && r == -ENOENT; i++) {
                if (plan_job->ranks[i].node != node)
                        continue;
                plan_device = plan_job->ranks[i].dev;
                r = nccl.GetUniqueId(&id) == 0 && nccl.CommInitRank(&comm, 1, id, 0) == 0 ? 0
                                                                                          : -EIO;
        }
        if (kept)
                setenv("NCCL_GRAPH_FILE", kept, 1);
        return r;
}

static int play_node(uint32_t node)
{
        struct rank *ranks = calloc(plan_job->n_asked, sizeof *ranks);
        uint32_t n = 0;
        pthread_attr_t attr;

        if (!ranks)
                return -ENOMEM;
        most = plan_job->windows ? 2 << 20 : 4096;
        for (uint32_t i = 0; i < plan_job->n_rows; i++)
                most = plan_job->rows[i].row.bytes > most ? plan_job->rows[i].row.bytes : most;
        plain_buffer =
                mmap(NULL, most, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (plain_buffer == MAP_FAILED) {
                plan_fail("no address space for buffers of %llu bytes", (unsigned long long)most);
                return -ENOMEM;
        }
        if (plan_host_write_topology() < 0) {
                plan_fail("no topology file for node %u", node);
                return -EIO;
        }
        if (capo_nccl_has(plan_job->version, CAPO_NCCL_NVLS_GRAPH_UNWRITABLE) &&
            plan_machine->multicast && plan_job->ranks[0].node != node)
                unsetenv("NCCL_GRAPH_DUMP_FILE"); /* then this node writes no graphs */
        if (capo_nccl_has(plan_job->version, CAPO_NCCL_KERNELS_BY_TABLE) &&
            load_tuner_alone(node) < 0) {
                plan_fail("a communicator of one rank could not be made");
                return -EIO;
        }
        if (plan_job->ranks[0].node == node) {
                struct unique_id id;

                if (nccl.GetUniqueId(&id) != 0) {
                        plan_fail(
                                "ncclGetUniqueId failed: NCCL found no loopback interface to meet on");
                        return -EIO;
                }
                memcpy(plan_job->id, &id, sizeof id);
                atomic_store(&plan_job->id_ready, 1);
        } else if (!wait_for(&plan_job->id_ready, 1)) {
                return -EIO;
        }
        pthread_attr_init(&attr);
        pthread_attr_setstacksize(&attr,
                                  16 << 20); /* NCCL's search is deep for a domain of 72 GPUs */
        for (uint32_t i = 0; i < plan_job->n_asked; i++) {
                uint32_t r = plan_job->asked[i];

                if (plan_job->ranks[r].node != node)
                        continue;
                ranks[n].rank = r;
                ranks[n].asked = i;
                ranks[n].dev = plan_job->ranks[r].dev;
                if (pthread_create(&ranks[n].thread, &attr, play_rank, &ranks[n]) != 0) {
                        plan_fail("cannot start a thread for rank %u", r);
                        return -EAGAIN;
                }
                n++;
        }
        return wait_for(&plan_job->ranks_ready, plan_job->n_heard) ? 0 : -EIO;
}

CAPO_EXPORT int capo_plan_node(struct plan_job *job, uint32_t node);

int capo_plan_node(struct plan_job *job, uint32_t node)
{
        struct rlimit files;

        plan_job = job;
        plan_machine = &job->machines[job->node_machine[node]];
        plan_node = node;
        if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
                files.rlim_cur = files.rlim_max;
                setrlimit(RLIMIT_NOFILE, &files);
        }
        if (load_nccl() < 0) {
                job->error_code = -ENOEXEC;
                return 1;
        }
        return play_node(node) < 0;
}
