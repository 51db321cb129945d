/* SPDX-License-Identifier: Apache-2.0 */
/* What the process says of a hang: a line on standard error, and frames in its log with the calls
 * that it is in and the frames of its threads. hang.txt beside the logs is the verdict of `capo
 * watch`, which is no part of the job. A process that sees a new one writes a frame as well: the
 * one that holds all up is in host code and would see no hang. */
#include <sys/stat.h>

#include "capo/call_ids.h"
#include "capo/env.h"
#include "capo/frame_types.h"
#include "capo/msg.h"
#include "core/base/calls.h"
#include "core/base/text.h"
#include "core/log/hang_frame.h"
#include "shim/record/start.h"
#include "shim/record/watch.h"

#define VERDICT "hang.txt"
#define SECOND  UINT64_C(1000000000)

enum {
        MOST = 16, /* frames of a process by its own watch, and as many for others' */
        QUIET_SECONDS = 5,
        PYTHON = 8000, /* bytes of the text at most, 2000 of a thread */
        NATIVE = 7000,
};

static struct {
        struct capo_watch watch;
        uint64_t quiet_calls, quiet_since_ns; /* so many calls, since then */
        unsigned own_frames, asked;
        uint64_t period_ns, next_ns; /* of checks of the folder */
        ino_t known;                 /* of the verdict that was seen */
        char folder[1024];
        char text[32000];
} hang;

static ino_t verdict_there(void)
{
        char path[sizeof hang.folder + 32];
        struct stat st;

        snprintf(path, sizeof path, "%s/%s", hang.folder, VERDICT);
        return *hang.folder && stat(path, &st) == 0 ? st.st_ino : 0;
}

void capo_hang_begin(void)
{
        int64_t seconds = capo_shim_env()->hang;
        const char *path = capo_seg.header->log_path, *slash = strrchr(path, '/');

        memset(&hang, 0, sizeof hang - sizeof hang.text);
        if (seconds <= 0)
                return;
        capo_watch_init(&hang.watch, (uint64_t)(seconds < 86400 ? seconds : 86400) * SECOND);
        hang.period_ns =
                hang.watch.limit_ns / 5 < 60 * SECOND ? hang.watch.limit_ns / 5 : 60 * SECOND;
        if (slash)
                snprintf(hang.folder, sizeof hang.folder, "%.*s", (int)(slash - path), path);
        hang.known = verdict_there();
}

struct stacks {
        char *text;
        size_t n;
};

static void put_thread(unsigned nth, char *frames, void *arg)
{
        struct stacks *p = arg;
        size_t end = p->n + PYTHON / 4 < PYTHON ? p->n + PYTHON / 4 : PYTHON;

        for (char *line; (line = strsep(&frames, "\n")) && *line;)
                p->n += capo_hang_text_python(p->text + p->n, end - p->n, nth, line);
}

static bool put_native(const struct capo_native *t, char *frames, void *arg)
{
        struct stacks *s = arg;
        size_t before = s->n;

        s->n += capo_hang_text_thread(s->text + s->n, NATIVE - s->n, t->tid,
                                      t->running ? "running" : t->wait, t->name);
        for (char *line; s->n > before && (line = strsep(&frames, "\n")) && *line;)
                s->n += capo_hang_text_native(s->text + s->n, NATIVE - s->n, t->tid, line);
        return s->n > before;
}

static void write_frame(unsigned nth, uint64_t since_ns)
{
        struct capo_hang_text t = {.since_ns = since_ns, .nth = nth};
        size_t n =
                capo_hang_text_write(&capo_seg, &t, hang.text, sizeof hang.text - PYTHON - NATIVE);
        struct stacks python = {.text = hang.text + n}, native;
        static char frames[2048];

        if (!nth)
                hang.asked++;
        capo_python_threads(put_thread, &python);
        n += python.n;
        native = (struct stacks){.text = hang.text + n};
        capo_native_threads(frames, sizeof frames, put_native, &native);
        n += native.n;
        capo_shim_text(CAPO_FRAME_HANG, hang.text, n);
}

/* "AllReduce #12 of world" */
static void name_of(const struct capo_stand *s, char *text, size_t room)
{
        snprintf(text, room, s->seq && s->call != CAPO_CALL_GROUP ? "%s #%u" : "%s",
                 capo_call_name(s->call), s->seq);

        if (s->comm && s->comm <= capo_seg.header->areas[CAPO_AREA_COMMS].used) {
                const struct capo_seg_comm *comm =
                        capo_area_at(&capo_seg, CAPO_AREA_COMMS, s->comm - 1u);
                char name[sizeof comm->name];

                capo_lock(&capo_seg.lock);
                memcpy(name, comm->name, sizeof name);
                capo_unlock(&capo_seg.lock);
                name[sizeof name - 1] = 0;
                if (*name)
                        capo_append(text, room, " of %s", name);
        }
        if (s->where == CAPO_UNFINISHED_BUSY)
                capo_append(text, room, ", or work around it on its stream,");
}

static void report_hang(const struct capo_stand *s)
{
        const struct capo_timebase *clock = &capo_seg.header->clock;
        long rank = capo_launcher_rank();
        char what[256];

        write_frame(++hang.own_frames, capo_clock_ns(clock, s->begin));
        name_of(s, what, sizeof what);
        if (rank >= 0)
                capo_warn(
                        "rank %ld: %s has not moved for %llu s; `capo hang %d` says who waits for whom",
                        rank, what, (unsigned long long)(hang.watch.limit_ns / SECOND),
                        capo_seg.header->pid);
        else
                capo_warn("%s has not moved for %llu s; `capo hang %d` says who waits for whom",
                          what, (unsigned long long)(hang.watch.limit_ns / SECOND),
                          capo_seg.header->pid);
}

/* Does anything stand here that was reported? */
static bool has_reported_hang(void) { return hang.watch.n && hang.watch.stands[0].warned; }

/* Who makes no call: others wait for it, or the job is idle. Once each time. */
static bool has_gone_quiet(uint64_t now_ns)
{
        uint64_t calls = capo_seg.header->calls;

        if (calls != hang.quiet_calls || hang.watch.n) {
                hang.quiet_calls = calls;
                hang.quiet_since_ns = now_ns;
        }
        if (!calls || !hang.quiet_since_ns || now_ns - hang.quiet_since_ns < hang.watch.early_ns ||
            hang.asked >= MOST / 2)
                return false;
        hang.quiet_since_ns = 0; /* until the next call */
        return true;
}

bool capo_hang_check(void)
{
        uint64_t now_ns = capo_seg.header->clock.now_mono_ns;
        const struct capo_stand *s;
        bool frame = false;

        if (!hang.watch.limit_ns)
                return false;
        if (now_ns >= hang.watch.next_ns)
                capo_stream_poll(now_ns, hang.watch.limit_ns / 2 < QUIET_SECONDS * SECOND
                                                 ? hang.watch.limit_ns / 2
                                                 : QUIET_SECONDS * SECOND);
        s = capo_watch_check(&hang.watch, &capo_seg, now_ns);
        if (s && hang.own_frames < MOST) {
                report_hang(s);
                frame = true;
        } else if (hang.watch.early &&
                   hang.own_frames < MOST) { /* in case nothing is left later on */
                write_frame(++hang.own_frames,
                            capo_clock_ns(&capo_seg.header->clock, hang.watch.early->begin));
                frame = true;
        }
        if (has_gone_quiet(now_ns)) {
                write_frame(0, UINT64_MAX);
                frame = true;
        }
        if (now_ns >= hang.next_ns && *hang.folder) {
                ino_t there = verdict_there();

                hang.next_ns = now_ns + hang.period_ns;
                if (there && there != hang.known) {
                        hang.known = there;
                        if (!has_reported_hang() && hang.asked < MOST) {
                                write_frame(0, UINT64_MAX);
                                frame = true;
                        }
                }
        }
        return frame;
}
