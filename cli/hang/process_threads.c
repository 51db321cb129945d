/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the stacks of threads: from a HANG frame, read now, or read while stopped. Only a few
 * threads and frames are printed, innermost first; --json has all. */
#include "cli/hang/hang_describe.h"
#include "analysis/process/python_stack.h"
#include "analysis/process/stacks.h"
#include "core/base/clock.h"

bool hang_text_stacks(int pid, FILE *out)
{
        enum { THREADS = 6, FRAMES = 8 };
        char why[400];
        _cleanup_free_ char *text = process_stacks(pid, why, sizeof why);
        unsigned threads = 0, frames = 0, python = 0;

        if (!text)
                fprintf(out, "    no stacks: %s", why);
        for (char *line, *rest = text; (line = strsep(&rest, "\n")) && *line;) {
                if (*line != ' ') {
                        threads++;
                        frames = python = 0;
                        if (threads <= THREADS)
                                fprintf(out, "%s    thread %s:", threads > 1 ? "\n" : "", line);
                } else if (threads <= THREADS && line[1] == ' ' && python++ < FRAMES) {
                        fprintf(out, "%s%s", python > 1 ? " <-" : "\n        Python:", line + 1);
                } else if (threads <= THREADS && line[1] != ' ' && frames++ < FRAMES) {
                        fprintf(out, "%s%s", frames > 1 ? " <-" : "", line);
                }
        }
        if (threads > THREADS)
                fprintf(out, "\n    and %u more threads (--json)", threads - THREADS);
        fputc('\n', out);
        return text;
}

/* "main thread:", "thread 2:", "thread 2 (NAME, TID):" from "NUMBER" or "NUMBER TID NAME". */
static const char *thread_words(const char *line)
{
        unsigned nth = 0, tid = 0;
        int name = 0, n = sscanf(line, "%u %u %n", &nth, &tid, &name);

        return nth == 0 ? "main thread:"
               : n == 2 ? hang_print("thread %u (%s, %u):", nth, line + name, tid)
                        : hang_print("thread %u:", nth);
}

/* Is it a frame of the program's own Python code? capo_py_say() prints files of packages and of the
 * standard library without their root, others with the full path. */
static bool is_own_frame(const char *frame) { return *frame == '/' && strstr(frame, ".py:"); }

/* The next frame at *@at. False: no more, or a line of another thread follows. */
static bool next_frame(const char **at, bool indented, char frame[512])
{
        size_t n = strcspn(*at, "\n");

        if (!n || (indented && **at != ' '))
                return false;
        snprintf(frame, 512, "%.*s", (int)n - indented, *at + indented);
        *at += n + ((*at)[n] == '\n');
        return true;
}

unsigned hang_text_frames(const char **text, const char *first, unsigned plain, FILE *out)
{
        enum { OWN = 12 };
        const bool indented = **text == ' ';
        unsigned shown = 0, own = 0;
        bool left_out = false;
        char frame[512];

        for (const char *at = *text; next_frame(&at, indented, frame);)
                own += is_own_frame(frame);
        while (next_frame(text, indented, frame)) {
                bool shows = strncmp(frame, "<frozen ", 8) && strncmp(frame, "0x", 2) &&
                             (shown < (own ? 1 : plain) || (is_own_frame(frame) && shown <= OWN));

                if (shows)
                        fprintf(out, "%s%s%s", shown++ ? " <- " : first, left_out ? "... <- " : "",
                                frame);
                left_out = !shows && shown;
        }
        return shown;
}

/* Print the first few threads. @text: from hang_frames(); NULL: none. */
static void print_python_stacks(const char *text, uint64_t at_ns, FILE *out)
{
        enum { THREADS = 3, FRAMES = 4 };
        unsigned threads = 0;

        while (text && *text) {
                char line[512];

                if (*text == ' ' && threads <= THREADS) {
                        hang_text_frames(&text, " ", FRAMES, out);
                } else if (next_frame(&text, false, line) && *line != ' ' && ++threads <= THREADS) {
                        fprintf(out, "%s    Python at %s, %s", threads > 1 ? "\n" : "",
                                hang_clock(at_ns), thread_words(line));
                }
        }
        if (threads > THREADS)
                fprintf(out, "\n    and %u more threads (--json)", threads - THREADS);
        if (threads)
                fputc('\n', out);
}

void hang_text_python(int pid, FILE *out)
{
        char why[400];
        _cleanup_free_ char *text = process_python_now(pid, why, sizeof why);

        print_python_stacks(text, capo_clock_of(CLOCK_REALTIME), out);
        if (!text && *why)
                fprintf(out, "    no lines of Python: %s\n", why);
}

/* C stacks that its recorder saw, unless --stacks was given: waiting threads, each place once. */
static void print_native_stacks(const struct hang_page *p, uint32_t process, FILE *out)
{
        enum { THREADS = 3, FRAMES = 6 };
        uint64_t at_ns = 0;
        _cleanup_free_ char *text = p->stacks && hang_lives_here(p, process)
                                            ? NULL
                                            : hang_frames(p, process, true, &at_ns);
        unsigned threads = 0, frames = 0, tid = 0;
        char wait[64] = "";

        for (char *line, *rest = text; (line = strsep(&rest, "\n")) && *line;) {
                if (*line != ' ') {
                        frames = 0;
                        if (sscanf(line, "%u %63s", &tid, wait) != 2)
                                *wait = 0;
                        continue;
                }
                if (!strncmp(line, " as ", 4) || (!frames && ++threads > THREADS) ||
                    frames++ >= FRAMES)
                        continue;
                if (frames == 1)
                        fprintf(out, "%s    native at %s, %s (%s):", threads > 1 ? "\n" : "",
                                hang_clock(at_ns),
                                tid == p->job->processes[process].header.pid
                                        ? "main thread"
                                        : hang_print("thread %u", tid),
                                wait);
                fprintf(out, "%s%.*s", frames > 1 ? " <-" : "", (int)(1 + strcspn(line + 1, " ")),
                        line);
        }
        if (threads > THREADS)
                fprintf(out, "\n    and %u more places (--json)", threads - THREADS);
        if (threads)
                fputc('\n', out);
}

void hang_text_threads(const struct hang_page *p, uint32_t process, FILE *out)
{
        int pid = (int)p->job->processes[process].header.pid;
        uint64_t at_ns = 0;
        _cleanup_free_ char *text = hang_frames(p, process, false, &at_ns);

        print_python_stacks(text, at_ns, out);
        print_native_stacks(p, process, out);
        if ((!p->stacks || !hang_lives_here(p, process) || !hang_text_stacks(pid, out)) && !text &&
            hang_lives_here(p, process))
                hang_text_python(pid, out);
}
