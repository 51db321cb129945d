/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of the recorder in this process.
 *
 *      first wrapped call   settings, segment                                  on the job's thread, well under a ms
 *                           and the drain thread: at the first NCCL call; a program of one thread that only uses
 *                           libfabric keeps its one thread, because a second makes every lock of glibc a bus lock
 *      drain thread         sleeps 1 to 50 ms, takes what is finished, writes; makes the log after its first nap,
 *                           because by then the clock is calibrated
 *      exit()               an atexit handler, which runs before those of CUDA, collects GPU times a last time; the
 *                           library's destructor, which runs last, drains, writes END and removes the segment
 *      fork()               the child forgets everything and is unborn; the parent goes on. So does a child that
 *                           a bare clone() made, at its first call: capo_life, which the kernel emptied, tells it
 *      anything else        (kill, _exit, exec, abort) leaves the segment behind for `capo recover` or the next report
 *
 * The drain thread has all signals blocked, allocates nothing from the job's allocator and never holds a lock that a
 * recorded call can want in its steady state. What it does not inherit: thread.c.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "capo/msg.h"
#include "core/base/fpu.h"
#include "core/log/drain.h"
#include "shim/record/start.h"

#define NAP_LEAST_NS       1000000
#define NAP_MOST_NS        50000000
#define CALLBACKS          8
#define CHECKPOINT_NS      10000000000u /* the first; each next one twice as far, up to CHECKPOINT_MOST_NS */
#define CHECKPOINT_MOST_NS 600000000000u

union capo_life capo_life;
_Atomic bool capo_shim_threaded;

static struct capo_env env;
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t drain_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t thread_key;
static bool hooks_set; /* atexit, atfork, key: once per program, forks included */
static struct capo_drain *drain;
static bool log_made, log_tried;
static int log_error;     /* why it was not made */
static _Atomic int lives; /* as capo_life.state, but copied into every child; IN_BETWEEN: being reset there */
#define IN_BETWEEN (-1)
static _Atomic uint32_t wake; /* futex: 1 when the drain should not sleep */
static uint64_t poll_by;      /* CLOCK_MONOTONIC: somebody wants a round then; 0 nobody */
static _Atomic bool stopping;
static struct {
        void (*checkpoint[CALLBACKS])(bool last);
        void (*poll[CALLBACKS])(void);
        void (*fork[CALLBACKS])(void);
        _Atomic unsigned n_checkpoint, n_poll, n_fork;
} callbacks;

const struct capo_env *capo_shim_env(void)
{
        return &env;
}

void *capo_shim_alloc(size_t size)
{
        void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        return p == MAP_FAILED ? NULL : p;
}

/* ---- callbacks ---- */

#define REGISTER(list, f)                                                  \
        do {                                                               \
                unsigned i = atomic_fetch_add(&callbacks.n_##list, 1);     \
                                                                           \
                if (i >= CALLBACKS) {                                      \
                        atomic_fetch_sub(&callbacks.n_##list, 1);          \
                        return false;                                      \
                }                                                          \
                __atomic_store_n(&callbacks.list[i], f, __ATOMIC_RELEASE); \
                return true;                                               \
        } while (0)
#define CALL_ALL(list, ...)                                                                                      \
        do {                                                                                                     \
                for (unsigned i = 0; i < atomic_load(&callbacks.n_##list); i++) {                                \
                        __typeof__(callbacks.list[0]) f = __atomic_load_n(&callbacks.list[i], __ATOMIC_ACQUIRE); \
                        if (f)                                                                                   \
                                f(__VA_ARGS__);                                                                  \
                }                                                                                                \
        } while (0)

bool capo_shim_at_checkpoint(void (*write)(bool last))
{
        REGISTER(checkpoint, write);
}

bool capo_shim_at_poll(void (*poll)(void))
{
        REGISTER(poll, poll);
}

bool capo_shim_at_fork(void (*child)(void))
{
        REGISTER(fork, child);
}

/* ---- the drain thread ---- */

void capo_wake_drain(void)
{
        if (atomic_exchange_explicit(&wake, 1, memory_order_relaxed) == 0)
                syscall(SYS_futex, &wake, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void capo_shim_nap(uint64_t ns)
{
        struct timespec time = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

        syscall(SYS_futex, &wake, FUTEX_WAIT_PRIVATE, 0, &time, NULL, 0);
        atomic_store_explicit(&wake, 0, memory_order_relaxed);
}

void capo_shim_poll_by(uint64_t mono_ns)
{
        poll_by = mono_ns;
}

static uint64_t interval_or_sooner(uint64_t interval)
{
        uint64_t now;

        if (!poll_by)
                return interval;
        now = capo_clock_mono();
        return poll_by <= now ? 1 : poll_by - now < interval ? poll_by - now : interval;
}

/* The log, as soon as the clock has a rate. Caller holds drain_lock. */
static void make_log(void)
{
        if (log_tried)
                return;
        log_tried = true;
        if (!capo_seg.header->log_path[0])
                return; /* said why at start */
        log_error = capo_drain_create_log(drain);
        log_made = log_error == 0;
        if (!log_made)
                capo_warn("%s: cannot be made, calls are counted but not kept: %s", capo_seg.header->log_path,
                          strerror(-log_error));
        capo_info_write();
        capo_drain_text(drain);
}

static unsigned round_once(void)
{
        capo_clock_update(&capo_seg.header->clock);
        capo_gpu_poll();
        capo_kernel_poll(false);
        CALL_ALL(poll);
        return capo_drain_round(drain);
}

static void checkpoint(void)
{
        capo_nccl_tell();
        capo_speed_tell();
        CALL_ALL(checkpoint, false);
        capo_drain_checkpoint(drain);
}

static void *drain_main(void *unused)
{
        uint64_t interval = NAP_LEAST_NS, distance = CHECKPOINT_NS, next;
        bool early = true, hangs;

        capo_shim_nap(2 * NAP_LEAST_NS);
        capo_lock(&drain_lock);
        if (!atomic_load(&stopping)) {
                capo_clock_update(&capo_seg.header->clock);
                capo_clock_ready(&capo_seg.header->clock);
                capo_seg.header->cost_ns = capo_cost_measure();
        }
        capo_unlock(&drain_lock);
        next = capo_clock_mono() + distance;
        while (!atomic_load(&stopping)) {
                double full;

                capo_shim_nap(interval_or_sooner(interval));
                capo_lock(&drain_lock);
                if (atomic_load(&stopping)) {
                        capo_unlock(&drain_lock);
                        break;
                }
                round_once();
                full = capo_drain_fullest(drain);
                if (!log_tried && (capo_drain_waits(drain) ||
                                   capo_seg.header->clock.now_mono_ns - capo_seg.header->clock.t0_mono_ns > 20000000)) {
                        make_log();
                } else if (early && log_made) { /* soon after the start, say which NCCL, and which communicators */
                        early = false;
                        checkpoint();
                }
                hangs = log_made && capo_hang_look();
                if (hangs)
                        checkpoint();
                if (capo_seg.header->clock.now_mono_ns >= next) {
                        checkpoint();
                        distance = distance * 2 > CHECKPOINT_MOST_NS ? CHECKPOINT_MOST_NS : distance * 2;
                        next = capo_clock_mono() + distance;
                }
                capo_unlock(&drain_lock);
                capo_speed_poll(hangs);
                interval = full > 0.25 ? interval / 2 : interval + interval / 2;
                interval = interval < NAP_LEAST_NS ? NAP_LEAST_NS : interval > NAP_MOST_NS ? NAP_MOST_NS : interval;
        }
        return NULL;
}

/*
 * glibc's word on it (sys/single_threaded.h, 2.32), asked for by name: a reference to the symbol would keep the library
 * from loading where glibc is older. There nobody is alone.
 */
static const char *single_threaded;

bool capo_shim_alone(void)
{
        return single_threaded && *single_threaded && !atomic_load(&capo_shim_threaded);
}

void capo_shim_thread_slow(void)
{
        int r = 0;

        capo_lock(&start_lock);
        if (!atomic_exchange(&capo_shim_threaded, true))
                r = capo_own_thread(drain_main);
        capo_unlock(&start_lock);
        if (r < 0)
                capo_warn("no thread to write logs with: %s; only the last calls will be kept", strerror(-r));
}

/* ---- birth ---- */

/* mkdir -p. 0 or -errno. */
static int make_folder(const char *dir)
{
        static char path[PATH_MAX]; /* not on the stack: the job's may be as small as it likes. Under start_lock */
        struct stat st;

        if (snprintf(path, sizeof path, "%s", dir) >= (int)sizeof path)
                return -ENAMETOOLONG;
        for (char *p = path + 1; *p; p++) {
                if (*p == '/') {
                        *p = 0;
                        mkdir(path, 0777);
                        *p = '/';
                }
        }
        if (mkdir(path, 0700) && errno != EEXIST)
                return -errno;
        return stat(path, &st) ? -errno : S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

/* realpath() of a folder that is there, into @out: without its 8 KB of stack. 0 or -errno. */
static int whole_path(const char *dir, char *out, size_t room)
{
        _cleanup_close_ int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
        char link[32];
        ssize_t n;

        if (fd < 0)
                return -errno;
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        n = readlink(link, out, room);
        if (n >= (ssize_t)room)
                return -ENAMETOOLONG;
        if (n > 0 && *out == '/') {
                out[n] = 0;
                return 0;
        }
        return realpath(dir, out) ? 0 : -errno; /* no /proc; @room is PATH_MAX */
}

static void choose_log(struct capo_segment_header *h)
{
        static char folder[PATH_MAX];
        int r = make_folder(env.dir);

        if (r == 0)
                r = whole_path(env.dir, folder, sizeof folder);
        if (r == 0 && snprintf(h->log_path, sizeof h->log_path, "%s/%s.%d.capo", folder, h->host, h->pid) >=
                              (int)sizeof h->log_path - 8)
                r = -ENAMETOOLONG;
        if (r < 0) {
                h->log_path[0] = 0;
                capo_warn("%s: no logs there, calls are counted but not kept: %s", env.dir, strerror(-r));
        }
}

static void at_exit(void)
{
        CAPO_FPU_OURS;

        if (atomic_load(&capo_life.state) != CAPO_SHIM_ON || capo_seg.header->pid != getpid())
                return;
        capo_lock(&drain_lock);
        capo_gpu_poll();
        capo_gpu_stop();
        capo_unlock(&drain_lock);
        capo_speed_stop();
}

static void at_fork_child_of(int was)
{
        if (was == CAPO_SHIM_ON && capo_seg.header) {
                munmap(capo_seg.header, capo_seg.header->size); /* the parent's; only this thread lives here */
                capo_drain_free(drain);
        }
        drain = NULL;
        log_made = log_tried = false;
        log_error = 0;
        atomic_store(&capo_shim_threaded, false);
        atomic_store(&stopping, false);
        atomic_store(&wake, 0);
        poll_by = 0;
        callbacks.n_checkpoint = callbacks.n_poll = 0;
        pthread_mutex_init(&start_lock, NULL);
        pthread_mutex_init(&drain_lock, NULL);
        capo_segment_forget(&capo_seg);
        pthread_mutex_init(&capo_seg.lock, NULL);
        capo_record_fork();
        capo_comm_fork();
        capo_gpu_fork();
        capo_speed_fork();
        capo_kernel_fork();
        capo_site_fork();
        capo_nccl_fork();
        atomic_store(&capo_life.state, CAPO_SHIM_UNBORN);
        CALL_ALL(fork);
        atomic_store(&lives, CAPO_SHIM_UNBORN);
}

static void at_fork_child(void)
{
        at_fork_child_of(atomic_load(&lives));
}

/* Unborn, but with the memory of one that lives: a child that no fork handler saw. */
static void forget_parent(void)
{
        int was = atomic_load(&lives);

        if (was == CAPO_SHIM_UNBORN || atomic_load(&capo_life.state) != CAPO_SHIM_UNBORN)
                return;
        if (was != IN_BETWEEN && atomic_compare_exchange_strong(&lives, &was, IN_BETWEEN)) {
                at_fork_child_of(was);
                return;
        }
        while (atomic_load(&lives) == IN_BETWEEN)
                sched_yield();
}

static void thread_gone(void *unused)
{
        capo_thread_end();
}

void capo_thread_watch(void)
{
        pthread_setspecific(thread_key, (void *)1);
}

static bool start(void)
{
        struct capo_segment_config config;
        int r;

        capo_env_read(&env);
        capo_msg_set_level(env.verbose > 0 ? CAPO_DEBUG : env.quiet ? CAPO_WARN : CAPO_INFO);
        if (env.off || !*env.dir)
                return false;
        if (!hooks_set) {
                hooks_set = true;
                single_threaded = dlsym(RTLD_DEFAULT, "__libc_single_threaded");
                pthread_key_create(&thread_key, thread_gone);
                pthread_atfork(NULL, NULL, at_fork_child);
                atexit(at_exit);
                if (sysconf(_SC_PAGESIZE) <= CAPO_LIFE_PAGE) /* all of the page is ours */
                        madvise(&capo_life, sizeof capo_life, MADV_WIPEONFORK);
        }
        config = (struct capo_segment_config){
                .ring_bytes = env.ring,
                .flight_records = env.flight > 0 ? (uint64_t)env.flight : 0,
                .trace_all = !strcmp(env.trace, "all"),
        };
        if (*env.trace && !config.trace_all)
                capo_warn("CAPO_TRACE=%s is not understood (all, or empty), keeping summaries and the last calls",
                          env.trace);
        r = capo_segment_create(&capo_seg, env.shm, &config);
        if (r < 0) {
                capo_warn("not recording: no memory: %s", strerror(-r));
                return false;
        }
        capo_clock_init(&capo_seg.header->clock);
        capo_gpu_switch(atomic_load(&capo_gpu_on)); /* the short way depends on the clock too */
        choose_log(capo_seg.header);
        atomic_store_explicit(&capo_seg.header->born, 1, memory_order_release);
        r = capo_drain_new(&capo_seg, &drain);
        if (r < 0) {
                capo_warn("not recording: no memory: %s", strerror(-r));
                capo_segment_remove(&capo_seg);
                return false;
        }
        capo_drain_resolve(drain, capo_site_text);
        capo_hang_begin();
        return true;
}

bool capo_shim_start_slow(void)
{
        int saved = errno, state;
        CAPO_FPU_OURS;

        forget_parent();
        capo_lock(&start_lock);
        state = atomic_load(&capo_life.state);
        if (state == CAPO_SHIM_UNBORN) {
                state = start() ? CAPO_SHIM_ON : CAPO_SHIM_OFF;
                atomic_store(&capo_life.state, state);
                atomic_store(&lives, state);
        }
        capo_unlock(&start_lock);
        errno = saved;
        return state == CAPO_SHIM_ON;
}

/* ---- death ---- */

__attribute__((destructor)) static void over(void)
{
        struct timespec until;
        int r;
        CAPO_FPU_OURS;

        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
        if (atomic_load(&capo_life.state) != CAPO_SHIM_ON || capo_seg.header->pid != getpid())
                return;
        atomic_store(&stopping, true);
        capo_wake_drain();
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 5;
        if (pthread_mutex_timedlock(&drain_lock, &until)) {
                /* the drain hangs in a write: do not hang the job's exit too; the segment stays for `capo recover` */
                capo_warn("%s: writing hangs; capo recover will finish the log", capo_seg.header->log_path);
                atomic_store(&capo_life.state, CAPO_SHIM_OVER);
                return;
        }
        capo_clock_update(&capo_seg.header->clock);
        capo_clock_ready(&capo_seg.header->clock);
        if (capo_seg.header->cost_ns == 0) /* a short process: the drain thread did not come to it */
                capo_seg.header->cost_ns = capo_cost_measure();
        make_log();
        capo_speed_tell();
        CALL_ALL(checkpoint, true);
        atomic_store(&capo_life.state, CAPO_SHIM_OVER);
        capo_gpu_stop();
        capo_kernel_poll(true);
        capo_nccl_tell();
        capo_drain_round(drain);
        r = capo_drain_finish(drain, 1);
        if (log_error)
                r = log_error;
        if (r == -ENOSPC || r == -EDQUOT || r == -EFBIG)
                capo_warn("%s: no room for the rest; capo recover will finish it", capo_seg.header->log_path);
        else
                capo_segment_remove(&capo_seg);
        capo_unlock(&drain_lock);
}
