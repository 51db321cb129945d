/* SPDX-License-Identifier: Apache-2.0 */
/* The drain thread: it sleeps 1 to 50 ms, takes what is finished, writes, and has the last word.
 *
 * What the end of the process wants done (exit()) is done here, too, and not by the thread that
 * ends it: that one may have a stack of a few KB, a signal's handler's, and may hold a lock of
 * ours, and a folder whose writes hang must not hold it up. It waits as long as this one gets on,
 * and five seconds beyond. */
#include "capo/msg.h"
#include "core/log/alive.h"
#include "core/log/drain.h"
#include "core/log/info.h"
#include "shim/record/log_folder.h"
#include "shim/record/nap.h"
#include "shim/record/own_cost.h"
#include "shim/record/recorder.h"
#include "shim/record/start.h"

#define NAP_LEAST_NS  1000000
#define NAP_MOST_NS   50000000
#define STOP_LEAST_NS 1000000000
#define STOPS_MOST    64
#define CHECKPOINT_NS \
        10000000000u /* the first; each next one twice as far, up to CHECKPOINT_MOST_NS */
#define CHECKPOINT_MOST_NS 600000000000u
#define PATIENCE \
        100 /* whole naps of NAP_MOST_NS without a step: no matter how long the process is stopped \
             */
#define ALONE_NS \
        250000000u /* between two checks whether the job has ended its threads one by one \
                    */

_Atomic bool capo_shim_threaded;

static pthread_mutex_t thread_lock = PTHREAD_MUTEX_INITIALIZER,
                       drain_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool no_thread; /* it could not be made, or has gone */
static struct capo_drain *drain;
static struct {
        bool made, tried, never; /* never: it cannot be made, and is not tried again */
        int error;               /* why it was not made */
        uint64_t next_ns, wait_ns;
} log_file;
static bool goes_on; /* the log has its end, and others may call NCCL until the process has gone */
static _Atomic uint32_t wanted, done; /* enum capo_wish; done is a futex */
static _Atomic uint64_t stood =
        UINT64_MAX; /* where the drain thread did when it was waited for in vain */
static _Atomic(const struct capo_shim_part *) joined;

void capo_shim_join(const struct capo_shim_part *part) { atomic_store(&joined, part); }

/* ---- the drain thread ---- */

/* A nap that took a second longer than it should: the process was stopped, or it had no processor.
 * Whoever waited for it cannot tell that from its calls. Caller holds drain_lock. */
static void note_stop(uint64_t ns)
{
        uint64_t now_ns = capo_seg.header->clock.now_mono_ns - capo_seg.header->clock.t0_mono_ns;
        static unsigned n;
        char key[32];

        if (ns < STOP_LEAST_NS || now_ns < ns || n == STOPS_MOST)
                return;
        n++;
        snprintf(key, sizeof key, "%s+", CAPO_INFO_STOPPED);
        capo_shim_info(key, "%llu %llu", (unsigned long long)(now_ns - ns), (unsigned long long)ns);
}

/* The log, once the clock has a rate; @now: whenever the last try was. Under drain_lock. */
static void make_log(bool now)
{
        if (log_file.made || log_file.never || (!now && capo_clock_mono() < log_file.next_ns))
                return;
        log_file.never = !capo_seg.header->log_path[0]; /* said why at start */
        if (log_file.never)
                return;
        log_file.error = capo_folder_make();
        if (!log_file.error)
                log_file.error = capo_drain_create_log(drain);
        log_file.made = log_file.error == 0;
        log_file.never = capo_is_lasting(log_file.error);
        if (!log_file.made && (log_file.never || !log_file.tried))
                capo_warn("%s: cannot be made, %s: %s", capo_seg.header->log_path,
                          log_file.never ? "calls are counted but not kept"
                                         : "calls are kept in memory until it can",
                          strerror(-log_file.error));
        if (!log_file.made)
                log_file.next_ns = capo_clock_mono() + capo_drain_wait(&log_file.wait_ns);
        if (!log_file.tried)
                capo_info_write();
        log_file.tried = true;
        if (log_file.made)
                capo_drain_text(drain);
}

static unsigned round_once(void)
{
        const struct capo_shim_part *part = atomic_load(&joined);

        capo_clock_update(&capo_seg.header->clock);
        capo_gpu_poll();
        capo_kernel_poll(false);
        if (part)
                part->poll();
        return capo_drain_round(drain);
}

static void have_part_write(bool last)
{
        const struct capo_shim_part *part = atomic_load(&joined);

        if (part)
                part->checkpoint(last);
}

static int write_checkpoint(void)
{
        capo_nccl_tell();
        have_part_write(false);
        return capo_drain_checkpoint(drain);
}

static bool is_full(int error) { return error == -ENOSPC || error == -EDQUOT || error == -EFBIG; }

/* The file's end. Failures other than a lack of room are tried again for half a second. */
static int finish_log(void)
{
        uint64_t wait_ns = 0;
        int r;

        for (int tries = 0;; tries++) {
                make_log(true);
                r = log_file.error ? log_file.error : capo_drain_finish(drain, 1);
                if (r == 0 || log_file.never || capo_is_lasting(r) || is_full(r) || tries == 2)
                        return r;
                capo_nap_or_wake(capo_drain_wait(&wait_ns));
        }
}

/* Do threads that have called NCCL live beside the one that ends the process? */
static bool have_others(void)
{
        const struct capo_area *area = &capo_seg.header->areas[CAPO_AREA_RINGS];
        unsigned live = 0;

        for (uint32_t i = 0; i < area->used; i++) {
                const struct capo_ring *ring = capo_area_at(&capo_seg, CAPO_AREA_RINGS, i);

                live += atomic_load(&ring->state) == CAPO_RING_LIVE;
        }
        return live > 1;
}

/* Does no other thread call NCCL any more? One that is between two calls looks as if it had ended,
 * so the answer must hold for some milliseconds. */
static bool is_quiet(bool others)
{
        for (int checks = others ? 5 : 1; checks; checks--) {
                if (!capo_drain_quiet(drain))
                        return false;
                if (checks > 1)
                        capo_nap_or_wake(NAP_LEAST_NS);
        }
        return true;
}

/* All that is left to say, and the file's end; the segment is not needed any more then. */
static void last_words(void)
{
        struct capo_segment_header *h = capo_seg.header;
        bool others = have_others();
        int r;

        if (others)
                capo_drain_goes_on(drain);
        capo_clock_update(&h->clock);
        capo_clock_ready(&h->clock);
        if (h->cost_ns == 0) /* a short process: it had not come to that */
                h->cost_ns = capo_own_cost();
        make_log(true);
        have_part_write(true);
        atomic_store(&h->ended, 1);
        atomic_store(&capo_life.state, CAPO_SHIM_OVER); /* threads that have a ring go on */
        capo_gpu_stop();
        capo_kernel_poll(true);
        capo_nccl_tell();
        capo_drain_round(drain);
        r = finish_log();
        if (is_full(r))
                capo_warn("%s: no room for the rest; %s", h->log_path, capo_rest_goes());
        else if (r < 0 && !capo_is_lasting(r) && !log_file.never)
                capo_warn("%s: cannot be finished: %s; %s", h->log_path, strerror(-r),
                          capo_rest_goes());
        else if (r < 0 || is_quiet(others))
                capo_segment_remove(&capo_seg);
        /* else other threads call NCCL while the process ends: `capo report --recover` counts what
         * follow_others() does not come to */
        goes_on = others && r == 0;
}

/* Destructors of other libraries may take their time, and other threads may call NCCL meanwhile.
 * Their calls go behind the log's end. */
static void follow_others(void)
{
        uint64_t interval = NAP_LEAST_NS;

        while (goes_on) {
                capo_nap_or_wake(interval);
                capo_lock(&drain_lock);
                if (capo_drain_round(drain) > 0) {
                        goes_on = capo_drain_finish(drain, 1) == 0;
                        interval = NAP_LEAST_NS;
                } else if (interval < NAP_MOST_NS) {
                        interval += interval / 2;
                }
                capo_unlock(&drain_lock);
        }
}

static void mark_wish_done(uint32_t wish)
{
        atomic_store(&done, wish);
        syscall(SYS_futex, &done, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* What the end of the process asks for. Caller holds drain_lock. True: that was the last. */
static bool obey_wish(void)
{
        uint32_t wish = atomic_load(&wanted);

        if (wish >= CAPO_WISH_GPU && atomic_load(&done) < CAPO_WISH_GPU) {
                capo_gpu_poll();
                capo_gpu_stop();
                mark_wish_done(CAPO_WISH_GPU);
        }
        if (wish >= CAPO_WISH_END && atomic_load(&done) < CAPO_WISH_END) {
                last_words();
                mark_wish_done(CAPO_WISH_END);
        }
        return wish >= CAPO_WISH_END;
}

/* A job may end its first thread by pthread_exit(): the process ends with its last thread, which
 * must not be this one. glibc ends it when this one returns. */
static bool check_last_thread(void)
{
        static uint64_t next_ns;
        uint64_t now_ns = capo_seg.header->clock.now_mono_ns;

        if (now_ns < next_ns && next_ns - now_ns <= ALONE_NS)
                return false;
        next_ns = now_ns + ALONE_NS;
        capo_segment_hold(&capo_seg);
        no_thread = capo_alive_last(1 + (long)capo_machine_part.threads());
        if (no_thread)
                capo_machine_part.end();
        return no_thread;
}

static void *drain_main(void *unused)
{
        uint64_t interval = NAP_LEAST_NS, distance = CHECKPOINT_NS, wait_ns = 0, next, stopped_ns;
        bool early = true, failed = false, hangs;

        capo_nap_or_wake(2 * NAP_LEAST_NS);
        capo_lock(&drain_lock);
        if (atomic_load(&wanted) < CAPO_WISH_END) {
                capo_clock_update(&capo_seg.header->clock);
                capo_clock_ready(&capo_seg.header->clock);
                capo_seg.header->cost_ns = capo_own_cost();
        }
        capo_unlock(&drain_lock);
        next = capo_clock_mono() + distance;
        for (;;) {
                double full;

                stopped_ns = capo_nap_or_wake(interval);
                capo_lock(&drain_lock);
                if (obey_wish()) {
                        capo_unlock(&drain_lock);
                        follow_others();
                        return NULL;
                }
                round_once();
                note_stop(stopped_ns);
                full = capo_drain_fullest(drain);
                if (full < 0.25)
                        capo_drain_name_site(drain);
                if (!log_file.made &&
                    (capo_drain_waits(drain) ||
                     capo_seg.header->clock.now_mono_ns - capo_seg.header->clock.t0_mono_ns >
                             20000000)) {
                        make_log(false);
                } else if (early && log_file.made) { /* soon after the start, say which NCCL, and
                                                        which communicators */
                        early = false;
                        failed = write_checkpoint() < 0;
                        capo_machine_part.begin();
                }
                hangs = log_file.made && capo_hang_check();
                if (hangs)
                        failed = write_checkpoint() < 0;
                if (log_file.made && capo_seg.header->clock.now_mono_ns >= next) {
                        failed = write_checkpoint() < 0;
                        if (!failed) {
                                distance *= 2; /* without end where the file is to end */
                                if (distance > CHECKPOINT_MOST_NS && !capo_drain_near_max(drain))
                                        distance = CHECKPOINT_MOST_NS;
                                next = capo_clock_mono() + distance;
                                wait_ns = 0;
                        }
                }
                if (failed)
                        next = capo_clock_mono() + capo_drain_wait(&wait_ns);
                failed = false;
                capo_unlock(&drain_lock);
                if (check_last_thread())
                        return NULL;
                capo_machine_part.round(interval, stopped_ns);
                if (hangs)
                        capo_machine_part.ask();
                interval = full > 0.25 ? interval / 2 : interval + interval / 2;
                interval = interval < NAP_LEAST_NS  ? NAP_LEAST_NS
                           : interval > NAP_MOST_NS ? NAP_MOST_NS
                                                    : interval;
        }
}

/* Return: 0; -errno. */
static int begin_thread(void)
{
        int r = 0;

        capo_lock(&thread_lock);
        if (!atomic_exchange(&capo_shim_threaded, true)) {
                r = capo_own_thread(drain_main);
                no_thread = r < 0;
        }
        capo_unlock(&thread_lock);
        return r;
}

void capo_shim_thread_slow(void)
{
        int r = begin_thread();

        if (r < 0)
                capo_warn("no thread to write logs with: %s; only the last calls will be kept",
                          strerror(-r));
}

/* ---- what others do with it ---- */

int capo_rounds_begin(void)
{
        int r = capo_drain_new(&capo_seg, &drain);

        if (r == 0)
                capo_drain_resolve(drain, capo_site_text);
        return r;
}

/* Changes as long as the drain thread gets on. */
static uint64_t gets_on(void)
{
        const struct capo_segment_header *h = capo_seg.header;

        return (uint64_t)atomic_load_explicit(&h->steps, memory_order_relaxed) << 32 ^
               __atomic_load_n(&h->calls, __ATOMIC_RELAXED);
}

bool capo_rounds_ask(enum capo_wish wish)
{
        uint64_t at = gets_on();
        unsigned naps = 0;
        uint32_t had;

        if (capo_locked()) /* a handler that ends the process, amid what the drain may wait for */
                return false;
        atomic_store(&wanted, wish);
        begin_thread();
        if (no_thread && capo_trylock(&drain_lock)) {
                obey_wish();
                capo_unlock(&drain_lock);
                return true;
        }
        capo_wake_drain();
        while ((had = atomic_load(&done)) < wish) {
                uint64_t now = gets_on();

                naps = now == at ? naps : 0;
                at = now;
                if (at == stood || naps == PATIENCE) {
                        stood = at;
                        return false;
                }
                naps += capo_nap(&done, had, NAP_MOST_NS);
        }
        return true;
}

void capo_rounds_fork(bool lived)
{
        if (lived)
                capo_drain_forget(drain);
        drain = NULL;
        memset(&log_file, 0, sizeof log_file);
        no_thread = goes_on = false;
        atomic_store(&capo_shim_threaded, false);
        atomic_store(&wanted, CAPO_WISH_NONE);
        atomic_store(&done, CAPO_WISH_NONE);
        capo_wake_fork();
        stood = UINT64_MAX;
        pthread_mutex_init(&thread_lock, NULL);
        pthread_mutex_init(&drain_lock, NULL);
}

void capo_rounds_forked(void)
{
        const struct capo_shim_part *part = atomic_exchange(&joined, NULL);

        if (part)
                part->fork();
}
