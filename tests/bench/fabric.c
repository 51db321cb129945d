/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What capo costs a libfabric program, beside what libfabric's own hooks cost: the same loops over
 * the shm provider, bare, under capo, and under each FI_HOOK provider this libfabric has, in
 * processes that take turns.
 *
 *      fabric-bench BUILD|LIBCAPO.SO [ROUNDS]
 *
 * Every process has a second thread, asleep, as every training job has: in a process of one thread
 * glibc's locks leave out the bus lock, and the first thread that is added, whoever adds it, slows
 * every lock of libfabric. The row "bare, one thread" shows how much that alone is.
 *
 * Two loops, each timed in batches; a process reports the median batch, and the page the median
 * process: empty   fi_cq_read() of a queue on which nothing will ever arrive op      fi_recv +
 * fi_send of 64 bytes to oneself, then fi_cq_read until both have completed: two posts, two
 * completions; the column divides what was added by these four
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/util.h"

#define BATCHES     201
#define EMPTY_BATCH 20000
#define OP_BATCH    2000

static double now_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
        qsort(v, n, sizeof *v, by_value);
        return n ? v[n / 2] : 0;
}

/* ---- the measured program
 * ---------------------------------------------------------------------------------------- */

static void must(const char *what, long r)
{
        if (r) {
                fprintf(stderr, "%s: %ld\n", what, r);
                exit(77);
        }
}

static void *sleeper(void *unused)
{
        pause();
        return unused;
}

/*
 * In a process under capo the batches take turns between the tables that lie in the objects and the
 * provider's own, which capo keeps in the word before its copy (shim/fabric/shim_fabric.h,
 * FI_TABLE): what differs between two processes - where memory lies, what else the machine does -
 * is out of that comparison.
 */
struct tables {
        void *idle, *cq, *msg;
};

static void tables_of(struct tables *t, bool below, struct fid_cq *idle, struct fid_cq *cq,
                      struct fid_ep *ep)
{
        *t = (struct tables){idle->ops, cq->ops, ep->msg};
        if (below)
                *t = (struct tables){((void **)t->idle)[-2], ((void **)t->cq)[-2],
                                     ((void **)t->msg)[-2]};
}

static void put(const struct tables *t, struct fid_cq *idle, struct fid_cq *cq, struct fid_ep *ep)
{
        idle->ops = t->idle;
        cq->ops = t->cq;
        ep->msg = t->msg;
}

static int measure(void)
{
        pthread_t thread;

        static char out[64], in[64], name[256];
        static struct fi_context contexts[2];
        struct fi_info *hints = fi_allocinfo(), *info;
        struct fi_cq_attr cq_attr = {.size = 1024, .format = FI_CQ_FORMAT_CONTEXT};
        struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
        struct fi_cq_entry entry[4];
        struct fid_fabric *fabric;
        struct fid_domain *domain;
        struct fid_cq *cq, *idle;
        struct fid_av *av;
        struct fid_ep *ep;
        fi_addr_t self;
        size_t n = sizeof name;
        int ways = getenv("LD_PRELOAD") ? 2 : 1;
        struct tables tables[2];
        static double t[2][BATCHES];
        double begin, empty[2];

        if (!getenv("BENCH_ALONE"))
                must("pthread_create", pthread_create(&thread, NULL, sleeper, NULL));
        hints->caps = FI_MSG;
        hints->mode = FI_CONTEXT;
        hints->ep_attr->type = FI_EP_RDM;
        hints->domain_attr->threading = FI_THREAD_DOMAIN;
        hints->fabric_attr->prov_name = strdup("shm");
        must("fi_getinfo", fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
        must("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
        must("fi_domain", fi_domain(fabric, info, &domain, NULL));
        must("fi_cq_open", fi_cq_open(domain, &cq_attr, &cq, NULL));
        must("fi_cq_open", fi_cq_open(domain, &cq_attr, &idle, NULL));
        must("fi_av_open", fi_av_open(domain, &av_attr, &av, NULL));
        must("fi_endpoint", fi_endpoint(domain, info, &ep, NULL));
        must("fi_ep_bind", fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
        must("fi_ep_bind", fi_ep_bind(ep, &av->fid, 0));
        must("fi_enable", fi_enable(ep));
        must("fi_getname", fi_getname(&ep->fid, name, &n));
        must("fi_av_insert", fi_av_insert(av, name, 1, &self, 0, NULL) - 1);

        for (int way = 0; way < ways; way++)
                tables_of(&tables[way], way == 1, idle, cq, ep);
        for (int b = 0; b < ways * BATCHES; b++) {
                put(&tables[b % ways], idle, cq, ep);
                begin = now_ns();
                for (int i = 0; i < EMPTY_BATCH; i++)
                        fi_cq_read(idle, entry, 4);
                t[b % ways][b / ways] = (now_ns() - begin) / EMPTY_BATCH;
        }
        for (int way = 0; way < ways; way++)
                empty[way] = median(t[way], BATCHES);
        for (int b = 0; b < ways * BATCHES; b++) {
                put(&tables[b % ways], idle, cq, ep);
                begin = now_ns();
                for (int i = 0; i < OP_BATCH; i++) {
                        ssize_t done = 0, r;

                        while ((r = fi_recv(ep, in, sizeof in, NULL, FI_ADDR_UNSPEC,
                                            &contexts[0])) == -FI_EAGAIN)
                                fi_cq_read(cq, NULL, 0);
                        while ((r = fi_send(ep, out, sizeof out, NULL, self, &contexts[1])) ==
                               -FI_EAGAIN)
                                fi_cq_read(cq, NULL, 0);
                        while (done < 2) {
                                r = fi_cq_read(cq, entry, 4);
                                if (r > 0)
                                        done += r;
                                else if (r != -FI_EAGAIN)
                                        must("fi_cq_read", r);
                        }
                }
                t[b % ways][b / ways] = (now_ns() - begin) / OP_BATCH;
        }
        put(&tables[0], idle, cq, ep);
        for (int way = 0; way < ways; way++)
                printf("%.3f %.3f\n", empty[way], median(t[way], BATCHES));
        fi_close(&ep->fid);
        fi_close(&av->fid);
        fi_close(&cq->fid);
        fi_close(&idle->fid);
        fi_close(&domain->fid);
        fi_close(&fabric->fid);
        fi_freeinfo(info);
        fi_freeinfo(hints);
        return 0;
}

/* ---- the page
 * ----------------------------------------------------------------------------------------------------
 */

struct way {
        const char *name, *variable, *value;
        double empty[64], op[64];
        int n;
        double added_empty[64], added_op[64]; /* within the process */
};

static bool run(struct way *w, const char *self, const char *dir)
{
        int out[2], status;
        double empty, op, empty_below, op_below;
        FILE *f;
        pid_t pid;

        if (pipe(out))
                return false;
        pid = fork();
        if (pid == 0) {
                dup2(out[1], 1);
                dup2(open("/dev/null", O_WRONLY), 2);
                close(out[0]);
                if (w->variable)
                        setenv(w->variable, w->value, 1);
                if (w->variable && !strcmp(w->variable, "LD_PRELOAD"))
                        setenv("CAPO_DIR", dir, 1);
                execl(self, self, "--measure", NULL);
                _exit(127);
        }
        close(out[1]);
        f = fdopen(out[0], "r");
        status = f && fscanf(f, "%lf %lf", &empty, &op) == 2;
        if (status && fscanf(f, "%lf %lf", &empty_below, &op_below) == 2) {
                w->added_empty[w->n] = empty - empty_below;
                w->added_op[w->n] = op - op_below;
        }
        if (f)
                fclose(f);
        waitpid(pid, NULL, 0);
        if (!status)
                return false;
        w->empty[w->n] = empty;
        w->op[w->n++] = op;
        return true;
}

int main(int argc, char **argv)
{
        struct way ways[] = {
                {"bare", NULL, NULL},
                {"bare, one thread", "BENCH_ALONE", "1"},
                {"capo", "LD_PRELOAD", argc > 1 ? argv[1] : NULL},
                {"FI_HOOK=noop", "FI_HOOK", "noop"},
                {"FI_HOOK=profile", "FI_HOOK", "profile"},
                {"FI_HOOK=monitor", "FI_HOOK", "monitor"},
                {"FI_HOOK=trace", "FI_HOOK", "trace"},
                {"FI_HOOK=debug", "FI_HOOK", "debug"},
                {"FI_HOOK=perf", "FI_HOOK", "perf"},
        };
        char self[4096], hook[64], lib[4096], dir[] = "/tmp/capo-bench-XXXXXX", clean[4200];
        int rounds = argc > 2 ? atoi(argv[2]) : 7;
        ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
        _cleanup_free_ char *known = NULL;
        size_t room = 0;
        double empty0, op0;
        FILE *list;

        if (argc > 1 && !strcmp(argv[1], "--measure"))
                return measure();
        if (argc > 1 && !strstr(argv[1], ".so")) { /* a build folder */
                snprintf(lib, sizeof lib, "%s/shim/libcapo.so", argv[1]);
                ways[2].value = lib;
        }
        if (argc < 2 || n < 0 || rounds < 1 || rounds > 64) {
                fputs("usage: fabric-bench BUILD|LIBCAPO.SO [ROUNDS]      ROUNDS 1..64\n", stderr);
                return 2;
        }
        self[n] = 0;
        if (!mkdtemp(dir))
                return 1;
        list = popen("fi_info -l 2>/dev/null", "r"); /* which hooks this libfabric has */
        if (list && getdelim(&known, &room, 0, list) < 0)
                capo_freep(&known);
        if (list)
                pclose(list);
        for (int r = 0; r < rounds; r++) {
                for (size_t i = 0; i < N_ELEMENTS(ways); i++) {
                        if (ways[i].variable && !strcmp(ways[i].variable, "FI_HOOK") &&
                            (!known || !(snprintf(hook, sizeof hook, "ofi_hook_%s:", ways[i].value),
                                         strstr(known, hook))))
                                continue;
                        run(&ways[i], self, dir);
                }
        }
        if (!ways[0].n) {
                puts("skipped: no shm provider here");
                return 77;
        }
        empty0 = median(ways[0].empty, (size_t)ways[0].n);
        op0 = median(ways[0].op, (size_t)ways[0].n);
        printf("libfabric shm, medians of %d processes each, ns; added: to the bare run\n\n",
               rounds);
        printf("%-18s %12s %8s %8s %16s %8s %8s %12s\n", "", "empty read", "added", "ratio",
               "send+recv 64 B", "added", "ratio", "added per op");
        for (size_t i = 0; i < N_ELEMENTS(ways); i++) {
                struct way *w = &ways[i];
                double empty, op;

                if (!w->n) {
                        printf("%-18s not here\n", w->name);
                        continue;
                }
                empty = median(w->empty, (size_t)w->n);
                op = median(w->op, (size_t)w->n);
                printf("%-18s %12.2f %+8.2f %8.3f %16.2f %+8.2f %8.3f %+12.2f\n", w->name, empty,
                       empty - empty0, empty / empty0, op, op - op0, op / op0, (op - op0) / 4);
        }
        if (ways[2].n)
                printf("\ncapo, by turns with the provider's own tables in the same process: empty read %+.2f, added "
                       "per op %+.2f\n",
                       median(ways[2].added_empty, (size_t)ways[2].n),
                       median(ways[2].added_op, (size_t)ways[2].n) / 4);
        snprintf(clean, sizeof clean, "rm -rf %s", dir);
        return system(clean) ? 1 : 0;
}
