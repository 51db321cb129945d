/* SPDX-License-Identifier: Apache-2.0 */
/* Messages as they come out of the other end of a pipe. */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "capo/msg.h"
#include "core/base/util.h"

static int out;

static void listen_to_stderr(void)
{
        int pipes[2];

        cr_assert_eq(pipe(pipes), 0);
        cr_assert(dup2(pipes[1], STDERR_FILENO) >= 0);
        close(pipes[1]);
        out = pipes[0];
}

/* All that was said; nothing is said later. */
static const char *said(void)
{
        static char text[4096];
        ssize_t n;

        cr_assert_eq(write(STDERR_FILENO, "|", 1), 1);
        n = read(out, text, sizeof text - 1);
        cr_assert(n > 0 && text[n - 1] == '|');
        text[n - 1] = 0;
        return text;
}

TestSuite(msg, .init = listen_to_stderr);

Test(msg, levels)
{
        static const struct {
                enum capo_level last;
                const char *text;
        } rows[] = {
                {CAPO_ERROR, "capo: e 1\n"},
                {CAPO_WARN, "capo: e 1\ncapo: warning: w 2\n"},
                {CAPO_INFO, "capo: e 1\ncapo: warning: w 2\ncapo: i 3\n"},
                {CAPO_DEBUG, "capo: e 1\ncapo: warning: w 2\ncapo: i 3\ncapo: debug: d 4\n"},
        };

        capo_info("unless told");
        capo_debug("otherwise");
        cr_expect_str_eq(said(), "capo: unless told\n");
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                capo_msg_set_level(rows[i].last);
                capo_error("e %d", 1);
                capo_warn("w %d", 2);
                capo_info("i %d", 3);
                capo_debug("d %d", 4);
                cr_expect_str_eq(said(), rows[i].text);
        }
}

Test(msg, one_line_of_at_most_1023_bytes)
{
        static const size_t prefix = sizeof "capo: " - 1;
        static char text[2000];

        for (size_t n = 1010; n < 1030; n++) {
                const char *line;
                size_t expected = n + prefix + 1 < 1023 ? n + prefix + 1 : 1023;

                memset(text, 'a', n);
                text[n] = 0;
                capo_error("%s", text);
                line = said();
                cr_expect_eq(strlen(line), expected, "%zu: %zu", n, strlen(line));
                cr_expect_eq(line[expected - 1], '\n');
                cr_expect_eq(line[expected - 2], 'a');
        }
        capo_error("%s", "");
        cr_expect_str_eq(said(), "capo: \n");
}

Test(msg, errno_stays)
{
        errno = E2BIG;
        capo_error("%s", "anything");
        cr_expect_eq(errno, E2BIG);
        said();
        close(out); /* nobody listens: nothing happens */
        close(STDERR_FILENO);
        errno = ERANGE;
        capo_error("%s", "anything");
        cr_expect_eq(errno, ERANGE);
}

Test(msg, once_per_place)
{
        for (int i = 0; i < 3; i++)
                capo_warn_once("place %d", i);
        capo_warn_once("another");
        cr_expect_str_eq(said(), "capo: warning: place 0\ncapo: warning: another\n");
}

Test(msg, what_failed_goes_back_to_the_caller)
{
        char why[16] = "as it was";

        cr_expect_eq(capo_fail(-22, "no %s", "such file"), -22);
        cr_expect_str_eq(said(), "capo: no such file\n");
        cr_expect_eq(capo_why(-2, why, sizeof why, "%d of %s", 3, "a long list of things"), -2);
        cr_expect_str_eq(why, "3 of a long lis");
        cr_expect_eq(capo_why_at(-2, why, sizeof why, "a.xml", 7, "no %s", "GPU"), -2);
        cr_expect_str_eq(why, "a.xml:7: no GPU");
        capo_why_at(-2, why, sizeof why, "a.xml", 0, "no GPU");
        cr_expect_str_eq(why, "a.xml: no GPU");
        cr_expect_str_eq(said(), "");
}

Test(msg, short_ones)
{
        capo_msg(CAPO_ERROR, "%s", "");
        capo_msg(CAPO_ERROR, "x");
        cr_expect_str_eq(said(), "capo: \ncapo: x\n");
}

Test(msg, nobody_is_ended_by_a_pipe_that_nobody_reads)
{
        sigset_t pipe_signal, pending;

        signal(SIGPIPE, SIG_DFL);
        close(out);
        errno = 7;
        capo_warn("to nobody");
        cr_expect_eq(errno, 7);
        sigemptyset(&pipe_signal);
        sigaddset(&pipe_signal, SIGPIPE);
        sigprocmask(SIG_BLOCK, &pipe_signal, NULL);
        cr_expect(sigpending(&pending) == 0 && !sigismember(&pending, SIGPIPE));
        raise(SIGPIPE); /* one of the program's own */
        capo_warn("to nobody");
        cr_expect(sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE));
}
