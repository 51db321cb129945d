/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch: starts the ranks of a job on this machine, as torchrun does on a cluster, with any
 * layout: ranks of different pretended nodes get different NCCL_HOSTIDs, so NCCL (and the stand-in)
 * take them for different machines. It ends when the last rank does, with the worst exit status;
 * when one rank fails the others are stopped.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_RANKS 1024

static pid_t pids[MAX_RANKS];
static int n_ranks;
static volatile sig_atomic_t caught;

static void usage(FILE *to)
{
        fprintf(to,
                "usage: launch -n N [--layout A+B+...] [--timeout S] -- CMD [ARG...]\n\n"
                "Starts N copies of CMD with the variables torchrun sets: RANK, WORLD_SIZE, LOCAL_RANK, "
                "LOCAL_WORLD_SIZE,\n"
                "GROUP_RANK, MASTER_ADDR, MASTER_PORT.\n\n"
                "  -n N             ranks; may be left out when a layout says it\n"
                "  --layout 3+5     pretend the ranks are on several nodes, 3 on the first and 5 on the second:\n"
                "                   NCCL_HOSTID=node0, node1, and LOCAL_RANK counts within the node\n"
                "  --timeout S      stop all ranks after S seconds, exit status 124\n");
}

static void on_signal(int sig) { caught = sig; }

static void stop_all(int sig)
{
        for (int i = 0; i < n_ranks; i++)
                if (pids[i] > 0)
                        kill(pids[i], sig);
}

/* A port that rank 0 can listen on and nobody else is given meanwhile: it stays bound here, which
 * does not keep away who reuses it. */
static int keep_port(void)
{
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t room = sizeof at;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) ||
            bind(fd, (struct sockaddr *)&at, room) ||
            getsockname(fd, (struct sockaddr *)&at, &room))
                return 29500;
        return ntohs(at.sin_port);
}

static void set_int(const char *name, int value)
{
        char text[16];

        snprintf(text, sizeof text, "%d", value);
        setenv(name, text, 1);
}

static double now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
        static const struct option options[] = {
                {"layout", required_argument, NULL, 'l'},
                {"timeout", required_argument, NULL, 't'},
                {"help", no_argument, NULL, 'h'},
                {NULL, 0, NULL, 0},
        };
        int node_size[MAX_RANKS], n_nodes = 0, c, worst = 0, left, port;
        const char *layout = NULL;
        double t_end = 0, t_kill = 0;
        bool stopping = false;

        while ((c = getopt_long(argc, argv, "+n:h", options, NULL)) >= 0)
                switch (c) {
                case 'n': n_ranks = atoi(optarg); break;
                case 'l': layout = optarg; break;
                case 't': t_end = now() + atof(optarg); break;
                case 'h': usage(stdout); return 0;
                default: usage(stderr); return 2;
                }
        if (layout) {
                int sum = 0;

                for (const char *p = layout; *p;) {
                        char *end;
                        long n = strtol(p, &end, 10);

                        if (n < 1 || (*end && *end != '+') || n_nodes == MAX_RANKS ||
                            sum + n > MAX_RANKS) {
                                fprintf(stderr,
                                        "launch: --layout %s: expected numbers of ranks as in 3+5\n",
                                        layout);
                                return 2;
                        }
                        node_size[n_nodes++] = (int)n;
                        sum += (int)n;
                        p = end + (*end == '+');
                }
                if (n_ranks && n_ranks != sum) {
                        fprintf(stderr, "launch: --layout %s has %d ranks, -n says %d\n", layout,
                                sum, n_ranks);
                        return 2;
                }
                n_ranks = sum;
        } else {
                node_size[n_nodes++] = n_ranks;
        }
        if (n_ranks < 1 || n_ranks > MAX_RANKS || optind >= argc) {
                usage(stderr);
                return 2;
        }
        signal(SIGINT, on_signal);
        signal(SIGTERM, on_signal);
        port = keep_port();
        fflush(NULL);
        for (int node = 0, rank = 0; node < n_nodes; node++)
                for (int local = 0; local < node_size[node]; local++, rank++) {
                        pids[rank] = fork();
                        if (pids[rank] < 0) {
                                perror("launch: fork");
                                stop_all(SIGKILL);
                                return 1;
                        }
                        if (pids[rank])
                                continue;
                        prctl(PR_SET_PDEATHSIG, SIGKILL);
                        signal(SIGINT, SIG_DFL);
                        signal(SIGTERM, SIG_DFL);
                        set_int("RANK", rank);
                        set_int("WORLD_SIZE", n_ranks);
                        set_int("LOCAL_RANK", local);
                        set_int("LOCAL_WORLD_SIZE", node_size[node]);
                        set_int("GROUP_RANK", node);
                        set_int("GROUP_WORLD_SIZE", n_nodes);
                        setenv("MASTER_ADDR", "127.0.0.1", 1);
                        set_int("MASTER_PORT", port);
                        if (layout) {
                                char id[32];

                                snprintf(id, sizeof id, "node%d", node);
                                setenv("NCCL_HOSTID", id, 1);
                        }
                        execvp(argv[optind], argv + optind);
                        fprintf(stderr, "launch: cannot run %s: %s\n", argv[optind],
                                strerror(errno));
                        _exit(127);
                }
        for (left = n_ranks; left;) {
                int status, code, rank = 0;
                pid_t pid = waitpid(-1, &status, WNOHANG);

                if (pid <= 0) {
                        if (caught && !stopping) {
                                worst = 128 + caught;
                                stopping = true;
                                stop_all(SIGTERM);
                                t_kill = now() + 3;
                        }
                        if (t_end > 0 && now() > t_end && !stopping) {
                                fprintf(stderr, "launch: time is up, %d of %d ranks still run\n",
                                        left, n_ranks);
                                worst = 124;
                                stopping = true;
                                stop_all(SIGTERM);
                                t_kill = now() + 1;
                        }
                        if (t_kill > 0 && now() > t_kill) {
                                stop_all(SIGKILL);
                                t_kill = 0;
                        }
                        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
                        continue;
                }
                while (rank < n_ranks && pids[rank] != pid)
                        rank++;
                if (rank == n_ranks)
                        continue;
                pids[rank] = -1;
                left--;
                code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
                if (code && !stopping) { /* the first failure tells the story; what follows is our
                                            own stopping */
                        fprintf(stderr,
                                "launch: rank %d ended with status %d; stopping the others\n", rank,
                                code);
                        worst = code;
                        stopping = true;
                        stop_all(SIGTERM);
                        t_kill = now() + 3;
                }
        }
        return worst;
}
