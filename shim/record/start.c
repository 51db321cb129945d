/* SPDX-License-Identifier: Apache-2.0 */
/* The life of the recorder in this process.
 *
 *      first wrapped call   settings, segment                                  on the job's thread,
 *                           well under a ms and the drain thread: at the first NCCL call; a program
 *                           of one thread that only uses libfabric keeps its one thread, because a
 *                           second makes every lock of glibc a bus lock
 *      drain thread         sleeps 1 to 50 ms, takes what is finished, writes; makes the log after
 *                           its first nap, because by then the clock is calibrated (rounds.c)
 *      exit()               an on_exit handler, which runs before those of CUDA, has GPU times
 *                           collected a last time; the library's destructor, which runs last, has
 *                           the drain thread write END and remove the segment
 *      fork()               the child forgets everything and has not started; the parent goes on. A
 *                           child that a bare clone() made does the same at its first call: it
 *                           finds capo_life emptied by the kernel
 *      anything else        (kill, _exit, exec, abort) leaves the segment behind, for the next
 *                           `capo report` to recover
 *
 * The drain thread has all signals blocked, allocates nothing from the job's allocator and never
 * holds a lock that a usual recorded call wants. What it does not inherit: thread.c. */
#include <dlfcn.h>
#include <sys/mman.h>

#include "capo/env.h"
#include "capo/msg.h"
#include "core/base/fpu.h"
#include "shim/find/loader.h"
#include "shim/record/log_folder.h"
#include "shim/record/recorder.h"
#include "shim/record/start.h"

union capo_life capo_life;

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t thread_key;
static bool key_made;
static bool emptied;   /* the kernel empties capo_life in every copy of the process */
static bool hooks_set; /* atexit, atfork, key: once per program, forks included */
static _Atomic int
        lives; /* as capo_life.state, but copied into every child; IN_BETWEEN: being reset there */
#define IN_BETWEEN (-1)

/* glibc's word on it (sys/single_threaded.h, 2.32), asked for by name: a reference to the symbol
 * would keep the library from loading where glibc is older. There nobody is alone. */
static const char *single_threaded;

bool capo_shim_alone(void)
{
        return single_threaded && *single_threaded && !atomic_load(&capo_shim_threaded);
}

/* ---- start ---- */

__attribute__((constructor)) static void begin_settings(void)
{
        capo_env_begin();
        capo_report_reached();
}

static void at_exit(int status, void *unused)
{
        CAPO_FPU_OURS;

        if (atomic_load(&capo_life.state) != CAPO_SHIM_ON || capo_seg.header->pid != getpid())
                return;
        atomic_store(&capo_seg.header->exit_status, 1 + (uint32_t)(status & 0xff));
        capo_machine_part.end();
        if (!atomic_load(&capo_gpu_on) || !capo_rounds_ask(CAPO_WISH_GPU))
                capo_gpu_stop();
}

static void at_fork_child_of(int was)
{
        bool lived = was == CAPO_SHIM_ON && capo_seg.header;

        if (lived)
                capo_segment_unmap(&capo_seg); /* the parent's; only this thread lives here */
        capo_loader_child();
        capo_rounds_fork(lived);
        capo_info_fork();
        capo_folder_fork();
        pthread_mutex_init(&start_lock, NULL);
        capo_segment_forget(&capo_seg);
        pthread_mutex_init(&capo_seg.lock, NULL);
        capo_record_fork();
        capo_comm_fork();
        capo_gpu_fork();
        capo_machine_part.fork();
        capo_stream_fork();
        capo_kernel_fork();
        capo_site_fork();
        capo_nccl_fork();
        atomic_store(&capo_life.state, CAPO_SHIM_UNSTARTED);
        capo_rounds_forked();
        atomic_store(&lives, CAPO_SHIM_UNSTARTED);
}

static void at_fork_child(void)
{
        if (emptied && atomic_load(&capo_life.state) != CAPO_SHIM_UNSTARTED)
                return; /* an older handler of the job's made a call, which forgot the parent */
        at_fork_child_of(atomic_load(&lives));
}

/* A child that no fork handler saw: its state is UNSTARTED, its memory is that of its parent. */
static void forget_parent(void)
{
        int was = atomic_load(&lives);

        if (was == CAPO_SHIM_UNSTARTED || atomic_load(&capo_life.state) != CAPO_SHIM_UNSTARTED)
                return;
        if (was != IN_BETWEEN && atomic_compare_exchange_strong(&lives, &was, IN_BETWEEN)) {
                at_fork_child_of(was);
                return;
        }
        while (atomic_load(&lives) == IN_BETWEEN)
                sched_yield();
}

static void thread_gone(void *unused) { capo_thread_end(); }

static bool start_recording(void)
{
        struct capo_segment_config config;
        int r;

        capo_env_read(&capo_settings);
        capo_msg_set_level(capo_settings.verbose > 0 ? CAPO_DEBUG
                           : capo_settings.quiet     ? CAPO_WARN
                                                     : CAPO_INFO);
        if (capo_settings.off || !*capo_settings.dir)
                return false;
        if (!hooks_set) {
                hooks_set = true;
                single_threaded = dlsym(RTLD_DEFAULT, "__libc_single_threaded");
                key_made = pthread_key_create(&thread_key, thread_gone) == 0;
                if (!key_made)
                        capo_warn(
                                "no key for a thread's own data is left: rings of threads that end are not used again");
                pthread_atfork(capo_loader_fork, capo_loader_forked, at_fork_child);
                on_exit(at_exit, NULL);
                if (sysconf(_SC_PAGESIZE) <= CAPO_LIFE_PAGE) /* all of the page is ours */
                        emptied = madvise(&capo_life, sizeof capo_life, MADV_WIPEONFORK) == 0;
        }
        config = (struct capo_segment_config){
                .ring_bytes = capo_settings.ring,
                .flight_records = capo_settings.flight > 0 ? (uint64_t)capo_settings.flight : 0,
                .trace_all = !strcmp(capo_settings.trace, "all"),
                .log_max = capo_settings.log_max,
        };
        if (*capo_settings.trace && !config.trace_all)
                capo_warn(
                        "CAPO_TRACE=%s is not understood (all, or empty), keeping summaries and the last calls",
                        capo_settings.trace);
        r = capo_segment_create(&capo_seg, capo_settings.shm, &config);
        if (r < 0) {
                capo_warn("not recording: no memory: %s", strerror(-r));
                return false;
        }
        capo_clock_init(&capo_seg.header->clock);
        capo_gpu_switch(atomic_load(&capo_gpu_on)); /* the short way depends on the clock too */
        capo_folder_choose();
        atomic_store_explicit(&capo_seg.header->ready, 1, memory_order_release);
        r = capo_rounds_begin();
        if (r < 0) {
                capo_warn("not recording: no memory: %s", strerror(-r));
                capo_segment_remove(&capo_seg);
                return false;
        }
        capo_hang_begin();
        capo_info_environment();
        return true;
}

bool capo_shim_start_slow(void)
{
        int saved = errno, state;
        CAPO_FPU_OURS;

        forget_parent();
        capo_lock(&start_lock);
        state = atomic_load(&capo_life.state);
        if (state == CAPO_SHIM_UNSTARTED) {
                state = start_recording() ? CAPO_SHIM_ON : CAPO_SHIM_OFF;
                atomic_store(&capo_life.state, state);
                atomic_store(&lives, state);
        }
        capo_unlock(&start_lock);
        errno = saved;
        return state == CAPO_SHIM_ON;
}

/* ---- threads ---- */

bool capo_thread_start(struct capo_tls *t)
{
        int saved = errno;

        if (!capo_shim_start()) {
                if (atomic_load(&capo_life.state) ==
                    CAPO_SHIM_OVER) /* the process ends meanwhile */
                        atomic_fetch_add_explicit(&capo_seg.header->dropped, 1,
                                                  memory_order_relaxed);
                return false;
        }
        capo_shim_thread();
        if (t->no_ring) { /* asked lately; ask again now and then */
                t->no_ring--;
                atomic_fetch_add_explicit(&capo_seg.header->dropped, 1, memory_order_relaxed);
                return false;
        }
        if (capo_ring_take(t)) {
                t->comm = capo_comm_none();
                t->ready = 1;
                if (key_made)
                        pthread_setspecific(thread_key, (void *)1);
        } else {
                capo_warn_once(
                        "no memory for the calls of another thread; they are counted as dropped");
                t->no_ring = 1024;
                atomic_fetch_add_explicit(&capo_seg.header->dropped, 1, memory_order_relaxed);
        }
        errno = saved;
        return t->ready;
}

/* ---- end ---- */

__attribute__((destructor)) static void end_recording(void)
{
        CAPO_FPU_OURS;

        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
        pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL); /* as core/base/lock.c has it */
        if (atomic_load(&capo_life.state) != CAPO_SHIM_ON || capo_seg.header->pid != getpid())
                return;
        if (capo_rounds_ask(CAPO_WISH_END))
                return;
        /* it hangs in a write, most likely: do not hang the job's exit too; the segment stays for
         * `capo report --recover` */
        capo_warn("%s: the log cannot be finished now; %s", capo_seg.header->log_path,
                  capo_rest_goes());
        atomic_store(&capo_seg.header->ended, 1);
        atomic_store(&capo_life.state, CAPO_SHIM_OVER);
}
