/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "core/base/clock.h"
#include "core/base/util.h"
#include "profiles/machine/apart.h"

bool capo_apart_await(int end, double seconds)
{
        const uint64_t until = capo_clock_mono() + (uint64_t)(seconds * 1e9);
        struct pollfd p = {.fd = end, .events = POLLIN};
        int r;

        do {
                const uint64_t now = capo_clock_mono();

                r = poll(&p, 1, now < until ? (int)((until - now) / 1000000) + 1 : 0);
        } while (r < 0 && errno == EINTR);
        return r > 0;
}

int capo_apart(int (*ask)(const void *arg, void *result), const void *arg, void *result,
               size_t size, double seconds)
{
        void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        const struct sigaction usual = {.sa_handler = SIG_DFL};
        struct sigaction before;
        int ends[2], status = -1, r = -EAGAIN;
        pid_t child;

        if (shared == MAP_FAILED)
                return -EAGAIN;
        memcpy(shared, result, size);
        sigaction(SIGCHLD, &usual, &before); /* ignored, a child's end cannot be read */
        child = pipe2(ends, O_CLOEXEC) ? -1 : fork();
        if (!child) {
                int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

                fcntl(ends[1], F_SETFD, 0); /* open as long as a program that @ask becomes */
                dup2(null, STDOUT_FILENO);
                dup2(null, STDERR_FILENO);
                _exit(ask(arg, shared));
        }
        if (child > 0) {
                close(ends[1]);
                r = capo_apart_await(ends[0], seconds) ? 0 : -ETIMEDOUT;
                close(ends[0]);
                if (r)
                        kill(child, SIGKILL);
                /* stuck in the kernel it does not even end when killed, and is not waited for */
                while (waitpid(child, &status, r ? WNOHANG : 0) < 0 && errno == EINTR)
                        ;
                if (!r)
                        r = WIFEXITED(status) ? WEXITSTATUS(status) : -EIO;
        }
        sigaction(SIGCHLD, &before, NULL);
        if (r >= 0)
                memcpy(result, shared, size);
        munmap(shared, size);
        return r;
}
