/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the stand-in NCCL share. */
#pragma once

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>
#include <nccl.h>

#define MAX_CHANNELS 8
#define MAX_RANKS    4096
#define N_ALGOS      7 /* NCCL 2.23 and later; the stand-in has Tree and Ring */
#define N_PROTOS     3
#define N_SYMK       6            /* symmetric kernels */
#define DEPTH        8            /* messages in flight per channel and direction */
#define LL_CHUNK     4096u        /* one eager message; shm copies up to this without a handshake */
#define SIMPLE_CHUNK (256u << 10) /* one pipelined message; at most MAX_CHUNK when a tuner asks */
#define MAX_CHUNK    (1u << 20)

/* ncclFunc_t: the numbers tuners and profilers are given (nccl_common.h 2.28). */
enum func {
        FN_BROADCAST,
        FN_REDUCE,
        FN_ALLGATHER,
        FN_REDUCESCATTER,
        FN_ALLREDUCE,
        FN_SENDRECV,
        FN_SEND,
        FN_RECV,
        FN_ALLTOALL,
        FN_SCATTER,
        FN_GATHER,
        FN_ALLGATHERV,
        FN_PUTSIGNAL,
        FN_SIGNAL,
        FN_WAITSIGNAL,
        N_FUNCS
};
enum algo { ALGO_TREE, ALGO_RING };
enum proto { PROTO_LL, PROTO_LL128, PROTO_SIMPLE };

struct comm;

/* A reduction as the data path sees it: multiply each input first, fold, divide at the end; scalars
 * in the element type. */
struct redop {
        ncclRedOp_t fold;      /* ncclSum, Prod, Max, Min */
        bool pre;              /* inputs are multiplied by the scalar */
        unsigned divide;       /* the result is divided by this; 0: not */
        const void *scalar_at; /* ncclScalarDevice: read when the collective runs; NULL: `scalar` */
        unsigned char scalar[8];
};

/* What a call's own config asks for (how.c). */
struct how {
        bool leave_out[N_ALGOS][N_PROTOS];
        bool force;       /* nothing else may run; else NCCL's choice where nothing is left */
        bool chosen;      /* algSelection says something */
        unsigned no_symk; /* bits: symmetric kernels that are left out */
        int min_channels, max_channels; /* 0: not said */
        int policy;                     /* CTAPolicy; -1: not said */
        uint64_t tag;
};

struct task {
        enum func fn;
        struct how how;
        struct comm *comm;
        cudaStream_t stream;
        const void *send;
        void *recv;
        size_t count; /* elements as the caller said */
        ncclDataType_t type;
        struct redop op;
        int peer; /* root or peer */
        struct {  /* one-sided calls */
                int window, signal, context;
                size_t offset;
        } rma;
        size_t bytes; /* as reported to a tuner: of the larger of both buffers (facts of nccl's
                         enqueue.h) */
        uint64_t seq; /* n-th collective of its kind on the communicator */
        int algo, proto, channels;
        const char *kernel; /* a symmetric kernel, and no algorithm of the table; NULL none */
        bool copied;        /* by copy engines: no kernel at all */
        size_t chunk;       /* bytes of one Simple message */
        void *coll_event, *api_event; /* the profiler's handles */
};

/* One finished launch: everything a group asked of one communicator, run in one host function on a
 * stream. */
struct plan {
        struct comm *comm;
        uint64_t ticket;
        bool captured;
        int n;
        struct plan *next; /* captured plans live as long as their communicator */
        struct task tasks[];
};

struct req { /* one libfabric operation; ctx must come first: completions carry its address */
        struct fi_context2 ctx;
        bool done;
        int error;
        size_t bytes;
};

struct net { /* one endpoint of a channel: [0] towards ranks of this host, [1] towards the others */
        struct fid_ep *ep;
        struct fid_cq *cq;
        struct fid_av *av;
        size_t name_bytes;
        unsigned char name[128];
};

struct peer_link {
        int net;
        fi_addr_t addr;
        uint64_t sent, received; /* messages of collectives, which both ends count alike */
};

struct chan {
        struct comm *comm;
        int id;
        bool open;
        struct net nets[2];
        struct peer_link *peers;
        unsigned char *recv_slots, *send_slots;
        size_t slot_bytes;
        struct step *steps;
        size_t n_steps, room;
        unsigned char *scratch;
        size_t scratch_bytes;
        /* the worker of channels 1.. ; channel 0 runs on the stream's */
        pthread_t thread;
        bool has_thread, stop;
        pthread_mutex_t lock;
        pthread_cond_t cond;
        const struct task *task;
        int result;
        bool busy;
        uint64_t t_begin_ns, t_end_ns; /* of the last task, for the profiler's KernelCh */
        uint64_t t_moved_ns;           /* and its KernelPhase: since when it moved data */
};

struct rank_info { /* what each rank tells the others at init */
        uint64_t host_hash;
        int device, pid;
        int version;
        int has_shm;
};

struct boot; /* bootstrap.c */

struct registration {
        void *buffer;
        size_t bytes;
        int window; /* its number; -1: no window */
};

/* nccl_tuner.h, ncclTunerConstants_v5/v6 and ncclNvlDomainInfo_v5/v6: 2.28 to 2.30. */
struct tuner_constants {
        double base_lat[N_ALGOS][N_PROTOS];
        double hw_lat[3][N_ALGOS][N_PROTOS];
        double ll_max_bw[4][3];
        double ring_ll128_bw[4][3];
        double tree_ll128_bw[4][3];
        double tree_bw[4][3];
        double nvls_tree_bw[4][3];
};
struct nvl_domain {
        int n, min_ranks, max_ranks;
};

struct comm {
        uint64_t magic;
        atomic_int refs;
        int rank, n, device;
        uint64_t hash; /* same on all ranks */
        char name[64];
        struct boot *boot;
        struct rank_info *ranks;
        int *node_of;
        int n_nodes, min_local, max_local;
        bool blocking;
        int n_channels;
        struct chan chans[MAX_CHANNELS];
        CUcontext ctx;

        atomic_int abort;     /* everything under way stops */
        atomic_int timed_out; /* that, because the library itself did not wait any longer */
        atomic_int error;     /* first asynchronous error */
        atomic_int state; /* ncclInProgress while another thread inits, launches or finalizes; then
                             its result */
        bool finalized, revoked, suspended;
        bool linger;          /* host waits move the data path's last messages along */
        uint64_t t_linger_ns; /* and end at this time; 0: no end */
        char last_error[256];

        pthread_mutex_t lock; /* tickets: plans of one communicator run one after the other, in
                                 launch order */
        pthread_cond_t served;
        uint64_t next_ticket, now_serving;
        bool running;
        struct plan *captured;

        struct {
                bool used;
                ncclDataType_t type;
                const void *at;
                unsigned char scalar[8];
        } * user_ops;
        int n_user_ops;

        uint64_t seq[N_FUNCS];
        uint64_t *p2p_sent, *p2p_received;
        struct rma *rma;
        struct registration *
                *windows; /* in the order of registration, which is the same on all ranks */
        int n_windows;

        void *tuner_ctx;
        bool tuned, tuner_loader;
        struct tuner_constants constants;
        bool allowed[5][N_ALGOS][N_PROTOS]; /* after NCCL_ALGO and NCCL_PROTO */
        bool env_restricts;

        void *profiler_ctx;
        bool profiled;
        uint64_t split_count;
};

#define COMM_MAGIC 0x6d6d6f636f706163ull

/* --- debug.c --- */
enum { LOG_NONE, LOG_VERSION, LOG_WARN, LOG_INFO, LOG_ABORT, LOG_TRACE };
enum {
        SUB_INIT = 1,
        SUB_COLL = 2,
        SUB_P2P = 4,
        SUB_NET = 0x10,
        SUB_GRAPH = 0x20,
        SUB_TUNING = 0x40,
        SUB_ENV = 0x80,
        SUB_PROFILE = 0x4000,
        SUB_ALL = ~0
};
void std_log(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
        __attribute__((format(printf, 5, 6)));
void std_log_reset(void);
bool std_log_wants(int level, unsigned long flags);
#define INFO(flags, ...) std_log(LOG_INFO, (flags), __FILE__, __LINE__, __VA_ARGS__)
/* fail() - remember why for ncclGetLastError, warn, return the code. comm may be NULL. */
ncclResult_t fail(struct comm *comm, ncclResult_t code, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
const char *std_last_error(void);
/* std_note() - one line about this call to CAPO_STANDIN_LOG's file, if there is one: what a test
 * counts. */
void std_note(const struct comm *comm, const char *what, size_t count, size_t type_bytes, int peer);
int std_version(void);      /* as ncclGetVersion says it: CAPO_STANDIN_NCCL_VERSION or 22809 */
double std_timeout_s(void); /* CAPO_STANDIN_TIMEOUT, 0 = wait for ever */
uint64_t std_now_ns(void);
long std_env_long(const char *name, long otherwise);

/* --- bootstrap.c --- host network between ranks, before and beside the data path; all stop on
 * comm->abort */
ncclResult_t boot_make_id(ncclUniqueId *id);
ncclResult_t boot_open(struct comm *comm, const ncclUniqueId *id);
/* boot_join() - a ring among some ranks of `parent` (their ranks there, in the new order), found
 * through its listeners.
 */
ncclResult_t boot_join(struct comm *comm, struct comm *parent, const int *members, uint64_t tag);
ncclResult_t boot_allgather(struct comm *comm, void *all, size_t bytes_each);
void boot_close(struct comm *comm);

/* --- net.c --- libfabric */
bool net_shm_usable(void);
ncclResult_t chan_open(struct chan *ch); /* collective over the comm; channel 0 by bootstrap, the
                                            others through channel 0 */
void chan_close(struct chan *ch);
/* Asynchronous; 0 or an error code. Tags tell kinds of messages apart; see net.c. */
enum kind { KIND_DATA, KIND_CLEAR, KIND_P2P, KIND_NAME, KIND_PUT };
ncclResult_t net_send(struct chan *ch, int to, enum kind kind, uint64_t seq, const void *data,
                      size_t bytes, struct req *req);
ncclResult_t net_recv(struct chan *ch, int from, enum kind kind, uint64_t seq, void *data,
                      size_t bytes, struct req *req);
ncclResult_t net_inject(struct chan *ch, int to, enum kind kind,
                        uint64_t seq); /* a message without data */
ncclResult_t net_wait(struct chan *ch, struct req *req);
void net_progress(struct chan *ch);

/* --- standin_reduce.c --- */
size_t type_bytes(ncclDataType_t type);
const char *type_text(ncclDataType_t type);
bool type_is_float(ncclDataType_t type);
/* out[i] = a[i] (op) b[i]; out may be a or b. */
void reduce(ncclDataType_t type, ncclRedOp_t op, void *out, const void *a, const void *b, size_t n);
void reduce_scale(ncclDataType_t type, void *out, const void *in, const void *scalar, size_t n);
void reduce_divide(ncclDataType_t type, void *out, const void *in, unsigned by, size_t n);
void scalar_from_double(ncclDataType_t type, double value, void *out);

/* --- algo.c --- */
ncclResult_t run_collective(struct chan *ch, const struct task *t);
/* --- exec.c --- runs plans on the stream's worker */
void exec_plan(void *plan);
void exec_stop_threads(struct comm *comm);
ncclResult_t exec_drain(struct comm *comm); /* until all launched plans ended */

/* --- rma.c --- one-sided puts and signals */
ncclResult_t rma_run(const struct task *t);
void rma_free(struct comm *comm);

/* --- enqueue.c --- groups */
ncclResult_t group_start(void);
ncclResult_t group_end(ncclSimInfo_t *simulate);
ncclResult_t enqueue(const struct task *t, int n); /* n tasks that belong together: one call's */
ncclResult_t group_job(struct comm *comm, ncclResult_t (*run)(void *arg),
                       void *arg);       /* an init; now, or at the group's end */
ncclResult_t group_fail(ncclResult_t r); /* inside a group the error is also the group's */
extern __thread int group_depth;

/* --- standin_choose.c --- */
extern const char *const algo_names[N_ALGOS], *const proto_names[N_PROTOS],
                                                      *const func_names[N_FUNCS];
/* how.c: what @config asks for; all zero for NULL. Says why where it is none. */
ncclResult_t how_read(struct comm *comm, const ncclCollConfig_t *config, struct how *how);
bool how_same(const struct how *a, const struct how *b); /* but for the tag */
ncclResult_t model_init(struct comm *comm);
ncclResult_t choose(struct comm *comm, struct task *tasks, int n, int pipe_ops, float *us);

/* --- sym.c --- */
unsigned sym_named(const char *word,
                   size_t n); /* the kernels that a word of algSelection begins; 0 none */
/* sym_choose() - do @tasks, which are alike, run beside the table? Then they say as what. */
bool sym_choose(struct comm *comm, struct task *tasks, int n);
ncclResult_t sym_wait(struct chan *ch, const struct task *t); /* for all ranks */

/* --- standin_plugin.c --- */
ncclResult_t tuner_open(struct comm *comm);
void tuner_close(struct comm *comm);
bool tuner_ask(struct comm *comm, enum func fn, size_t bytes, int pipe_ops, float *table, int reg,
               int *channels, ncclResult_t *r);
size_t tuner_chunk(struct comm *comm, enum func fn, size_t bytes, int algo, int proto, size_t chunk,
                   ncclResult_t *r);
void *plugin_load(const char *env, const char *prefix, char *found, size_t room);

/* --- standin_profiler.c --- */
ncclResult_t profiler_open(struct comm *comm);
void profiler_close(struct comm *comm);
/* Tells of a launch: before it, since a fast stream could finish it while this one still tells. */
void profiler_launch(struct comm *comm, struct plan *plan);
void profiler_channels(const struct task *t);

/* --- init.c --- */
enum init_kind { INIT_ID, INIT_SPLIT, INIT_SHRINK, INIT_GROW };

struct init {
        enum init_kind kind;
        struct comm *comm, *parent;
        ncclComm_t *out;
        ncclUniqueId id;
        bool has_id;
        int color, key, nth; /* nth child of its parent */
        int *members, n_members;
};
struct piece {
        const void *at;
        size_t bytes;
};
uint64_t init_hash(const struct piece *pieces, int n);
ncclResult_t init_start(
        struct init in); /* *in.out is the new communicator, or NULL after an error */

/* --- standin_comm.c --- */
ncclResult_t comm_new(struct comm **out, int n, int rank, const ncclConfig_t *config,
                      struct comm *parent);
ncclResult_t comm_check(struct comm *comm,
                        const char *what); /* argument and state check of an API call */
void comm_ref(struct comm *comm);
void comm_unref(struct comm *comm);
ncclResult_t comm_async(struct comm *comm, ncclResult_t (*run)(void *arg), void *arg);
ncclResult_t comm_setup(struct comm *comm);

/* --- standin_driver.c --- libcuda.so.1, loaded as NCCL loads it */
#define DRIVER_CALLS(X)             \
        X(cuInit)                   \
        X(cuDeviceGetCount)         \
        X(cuCtxGetCurrent)          \
        X(cuCtxSetCurrent)          \
        X(cuCtxGetDevice)           \
        X(cuDevicePrimaryCtxRetain) \
        X(cuCtxPushCurrent)         \
        X(cuCtxPopCurrent)          \
        X(cuLaunchHostFunc)         \
        X(cuStreamIsCapturing)      \
        X(cuStreamWaitEvent)        \
        X(cuEventCreate)            \
        X(cuEventRecord)            \
        X(cuEventDestroy)           \
        X(cuMemAlloc)               \
        X(cuMemFree)
extern struct driver {
#define X(name) __typeof__(name) *p_##name;
        DRIVER_CALLS(X)
#undef X
        void (*lost)(
                void); /* of our own driver only: the task that calls it has not done its work */
} cu;
ncclResult_t driver_open(void);
ncclResult_t driver_device(int *device); /* the calling thread's current device; 0's primary context
                                            when it has none */
