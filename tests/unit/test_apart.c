/* SPDX-License-Identifier: Apache-2.0 */
/* A program started beside this process: the process has no child of it, hears nothing of it and
 * lends it no file. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/util.h"
#include "shim/record/apart.h"

static volatile sig_atomic_t heard;
static int forks;
static char out[] = "/tmp/capo-apart-XXXXXX";

static void hear(int signal)
{
        heard++;
}

static void forked(void)
{
        forks++;
}

static void begin(void)
{
        int fd = mkstemp(out);

        cr_assert_geq(fd, 0);
        close(fd);
}

static void end(void)
{
        unlink(out);
}

TestSuite(apart, .init = begin, .fini = end);

static int shell(const char *script)
{
        char *argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)script, NULL};
        char *envp[] = {(char *)"PATH=/usr/bin:/bin", (char *)"MARK=here", NULL};

        return capo_apart(argv, envp, out, 60);
}

/* The program ends by saying "done": there is nothing else to wait for. */
static void wait_for_it(char *text, size_t room)
{
        for (;;) {
                _cleanup_close_ int fd = open(out, O_RDONLY);
                ssize_t n = read(fd, text, room - 1);

                cr_assert_geq(n, 0);
                text[n] = 0;
                if (strstr(text, "done\n"))
                        return;
                usleep(1000);
        }
}

Test(apart, the_process_does_not_notice)
{
        char text[4096];

        signal(SIGCHLD, hear);
        signal(SIGUSR1, hear);
        pthread_atfork(forked, forked, forked);
        cr_assert_eq(shell("kill -USR1 $$; echo survived"), 0);
        cr_assert_eq(shell("echo $MARK $HOME; nice; ulimit -t; echo done"), 0);
        wait_for_it(text, sizeof text);
        cr_assert(strstr(text, "here\n19\n31\n"), "%s", text);
        cr_assert(!strstr(text, "survived"), "%s", text);
        cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1);
        cr_assert_eq(errno, ECHILD);
        cr_assert_eq(heard, 0);
        cr_assert_eq(forks, 0);
}

Test(apart, it_has_no_file_of_ours)
{
        int fd = open("/dev/zero", O_RDONLY);
        char text[4096];

        cr_assert_eq(dup2(fd, 100), 100);
        cr_assert_eq(shell("ls -l /proc/$$/fd; echo done"), 0);
        wait_for_it(text, sizeof text);
        cr_assert(!strstr(text, "/dev/zero"), "%s", text);
        cr_assert_eq(fcntl(100, F_GETFD), 0, "still ours");
}

Test(apart, what_cannot_be_run)
{
        char *argv[] = {(char *)"/nonexistent/capo", NULL}, *envp[] = {NULL};
        sigset_t before, after;

        pthread_sigmask(SIG_SETMASK, NULL, &before);
        cr_assert_eq(capo_apart(argv, envp, out, 60), -ENOENT);
        pthread_sigmask(SIG_SETMASK, NULL, &after);
        for (int s = 1; s < 32; s++)
                cr_assert_eq(sigismember(&before, s), sigismember(&after, s));
}

/* It would have spoken where the job does. */
Test(apart, what_has_nowhere_to_speak)
{
        unlink(out);
        cr_assert_eq(shell("echo stranger"), -ENOENT);
}
