/* SPDX-License-Identifier: Apache-2.0 */
/* Threads keep running while they are read. The frames of a thread are read one by one and then all
 * again in one go; changed ones are not shown. A loop returns to the same state, so equal values
 * prove nothing for a running thread; but if the system says that the thread has not run meanwhile,
 * it stood still. If it is never seen so, the frames that passed the first test (or the outer ones
 * that did) are shown, marked as not of one moment. */
#include <dirent.h>

#include "capo/msg.h"
#include "analysis/process/proc_pid.h"
#include "analysis/process/python_stack.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/plain_text.h"
#include "core/base/xalloc.h"

#define TIME_NS 2000000000u
enum {
        WALKED = 256, /* frames, including hidden ones of packages */
        PACKAGED = 6, /* innermost frames of installed packages that are shown; the program's own
                         are all shown */
        TRIES = 40,
        LINES = 64 << 10, /* bytes of text per thread */
        TASKS = 4096,
        MAPS = 64 << 20, /* bytes of /proc/PID/maps */
};

struct walk {
        char *text; /* LINES */
        unsigned n, n_shown;
        bool more;
        struct {
                uint64_t address;
                uint32_t piece; /* index of its first piece */
                uint32_t text;  /* offset of its line */
        } frames[WALKED + 1];
};

static void walk_frames(const struct process_python *p, const struct process_python_thread *t,
                        struct walk *w)
{
        uint64_t address = capo_py_innermost(&p->py, t->state);
        size_t used = 0;
        int packaged = PACKAGED;

        w->n = w->n_shown = 0;
        w->more = false;
        for (; address && !w->more; w->n++) {
                struct capo_py_frame f;
                int m = 0;

                w->frames[w->n].address = address;
                w->frames[w->n].piece = p->m->n;
                w->frames[w->n].text = (uint32_t)used;
                w->more = w->n == WALKED || w->n_shown == PROCESS_PYTHON_FRAMES ||
                          !capo_py_frame(&p->py, address, &f) ||
                          (!f.entry && (m = capo_py_say(&p->py, &f, w->text + used, LINES - used,
                                                        &packaged)) < 0);
                if (w->more)
                        break;
                used += (size_t)m;
                w->n_shown += m > 0;
                address = f.back;
        }
        w->text[used] = 0;
}

/* Is the thread still in the frame of that number and in all outer ones? Reads again from its
 * innermost frame. */
static bool stands_in(const struct process_python *p, const struct process_python_thread *t,
                      const struct walk *w, unsigned k)
{
        uint64_t address = capo_py_innermost(&p->py, t->state);
        struct capo_py_frame f;

        for (unsigned i = 0; i < WALKED && address && address != w->frames[k].address; i++)
                address = capo_py_frame(&p->py, address, &f) ? f.back : 0;
        return address && process_memory_changed(p->m, w->frames[k].piece) == w->frames[k].piece;
}

static unsigned print_lines(FILE *out, const char *before, const char *text, bool more)
{
        unsigned lines = more;

        for (size_t n; *text; text += n + 1, lines++) {
                n = strcspn(text, "\n");
                fprintf(out, "%s%.*s\n", before, (int)n, text);
        }
        if (more)
                fprintf(out, "%s" PROCESS_PYTHON_MORE "\n", before);
        return lines;
}

static FILE *open_status(int pid, int tid)
{
        char path[64];

        snprintf(path, sizeof path, "/proc/%d/task/%d/status", pid, tid);
        return fopen(path, "re");
}

/* Is the thread not running? Also sets its count of context switches, which increases each time
 * that it has run. */
static bool is_thread_stopped(const struct process_python *p, const struct process_python_thread *t,
                              uint64_t *switches)
{
        _cleanup_fclose_ FILE *status = t->tid ? open_status(p->m->pid, t->tid) : NULL;
        char line[256], state = 'R';
        unsigned n = 0;

        *switches = 0;
        if (p->m->fetch != process_memory_fetch) /* a test's memory */
                return true;
        while (status && fgets(line, sizeof line, status)) {
                const char *number =
                        strstr(line, "voluntary_ctxt_switches:"); /* and "nonvoluntary" */

                if (!strncmp(line, "State:\t", 7))
                        state = line[7];
                if (number && ++n)
                        *switches += strtoull(strchr(number, ':') + 1, NULL, 10);
        }
        return state != 'R' && n == 2;
}

unsigned process_python_frames(const struct process_python *p,
                               const struct process_python_thread *t, const char *before, FILE *out)
{
        _cleanup_free_ char *text = xmalloc(LINES), *best = xcalloc(1, LINES);
        struct walk w = {.text = text};
        unsigned n_best = 0, k;
        bool more = false;

        for (int i = 0; i < TRIES && !p->m->error; i++) {
                uint64_t switches, then;
                bool stood = is_thread_stopped(p, t, &switches);
                uint32_t changed;

                process_memory_forget(p->m, 0);
                walk_frames(p, t, &w);
                changed = process_memory_changed(p->m, 0);
                if (changed == 0 &&
                    (!w.n || (stood && is_thread_stopped(p, t, &then) && then == switches)))
                        return print_lines(out, before, text, w.more);
                for (k = 0; k < w.n && w.frames[k].piece < changed; k++)
                        ;
                if (k < w.n && w.n - k > n_best && (changed == 0 || stands_in(p, t, &w, k))) {
                        n_best = w.n - k;
                        strcpy(best, text + w.frames[k].text);
                        more = w.more;
                }
                process_memory_pause(p->m);
        }
        if (p->m->error)
                return 0;
        return print_lines(out, before, PROCESS_PYTHON_CHANGING "\n", false) +
               print_lines(out, before, best, more);
}

/* ---- threads by their numbers here ---- */

/* The last id in "NSpid:" of /proc/PID/task/TID/status: the thread's id in its own namespace. 0:
 * not known. */
static uint64_t number_there(int pid, int tid)
{
        _cleanup_fclose_ FILE *status = open_status(pid, tid);
        char line[256];

        while (status && fgets(line, sizeof line, status)) {
                if (!strncmp(line, "NSpid:", 6))
                        return strtoull(strrchr(line, '\t') ?: "", NULL, 10);
        }
        return 0;
}

/* Before 3.11 a thread's state only has its pthread_self(). glibc stores the thread id there, at
 * the same offset since 2.4; an id that is no thread of the process is ignored. */
static uint64_t number_of_pthread(const struct process_python *p, uint64_t thread_id)
{
#if defined __x86_64__
        enum { TID = 720 };
#else
        enum { TID = 208 };
#endif
        int32_t tid = 0;

        process_memory_read(p->m, thread_id + TID, &tid, sizeof tid);
        process_memory_forget(p->m, 0);
        return tid > 0 ? (uint64_t)tid : 0;
}

static void find_numbers(struct process_python *p)
{
        char path[64];
        struct dirent *e;
        unsigned n = 0;
        DIR *dir;

        for (unsigned i = 0; i < p->n; i++) {
                if (!p->threads[i].native_id)
                        p->threads[i].native_id = number_of_pthread(p, p->threads[i].thread_id);
        }
        snprintf(path, sizeof path, "/proc/%d/task", p->m->pid);
        dir = opendir(path);
        while (dir && n++ < TASKS && (e = readdir(dir))) {
                int tid = atoi(e->d_name);
                uint64_t there = tid ? number_there(p->m->pid, tid) : 0;

                for (unsigned i = 0; there && i < p->n; i++) {
                        if (p->threads[i].native_id == there)
                                p->threads[i].tid = tid;
                }
        }
        if (dir)
                closedir(dir);
}

int process_python_open(int pid, struct process_python *out, char *why, size_t room)
{
        struct process_memory *m = process_memory_new(pid);
        _cleanup_free_ char *maps = NULL;
        char path[64];
        size_t size = 0;
        int r;

        memset(out, 0, sizeof *out);
        m->end_ns = capo_clock_mono() + TIME_NS;
        snprintf(path, sizeof path, "/proc/%d/maps", pid);
        r = capo_file_read(path, MAPS, &maps, &size);
        m->error = r == 0 && !size ? -ESRCH : r; /* the file of an ended process is empty */
        r = m->error ? process_memory_refused(m, why, room)
                     : process_python_find(m, maps, out, why, room);
        out->m = m;
        if (r < 0)
                free(steal(&out->m));
        else
                find_numbers(out);
        return r;
}

char *process_python_now(int pid, char *why, size_t room)
{
        struct process_python p;
        char *text = NULL, name[64];
        size_t size = 0;
        FILE *out;

        if (process_python_open(pid, &p, why, room) < 0)
                return NULL;
        out = xmemstream(&text, &size);
        for (unsigned i = 0; i < p.n; i++) {
                _cleanup_free_ char *frames = NULL;
                size_t frames_size = 0;
                FILE *of_one = xmemstream(&frames, &frames_size);
                unsigned n = process_python_frames(&p, &p.threads[i], " ", of_one);
                int tid = p.threads[i].tid;

                xmemclose(of_one);
                if (n && tid && *capo_pid_name(pid, tid, name, sizeof name))
                        fprintf(out, "%u %d %s\n%s", i, tid, name, frames);
                else if (n && tid)
                        fprintf(out, "%u %d -\n%s", i, tid, frames);
                else if (n)
                        fprintf(out, "%u - -\n%s", i, frames);
        }
        xmemclose(out);
        capo_plain(text, size, false, true);
        if (!size) {
                free(steal(&text));
                if (p.m->error)
                        process_memory_refused(p.m, why, room);
        }
        free(p.m);
        return text;
}
