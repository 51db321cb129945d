/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Candidates are written to files, real NCCL is asked with each, and the best that loses nowhere is kept. What NCCL
 * says is its model, and that reckons nothing for a channel: more of them cost nothing there.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/nccl.h"
#include "core/base/order.h"
#include "core/base/size.h"
#include "core/base/util.h"
#include "profiles/fragment/best.h"

#define GAIN_LEAST 1.02 /* of NCCL's own estimate: less is not worth a file */
#define LOSS_MOST  0.99 /* and nothing may fall below this share of its own */
/* A channel takes multiprocessors, a change of NIC leaves the rail; NCCL's model forgets both: each must bring that. */
#define PER_CHANNEL 1.01
#define TRIES       6 /* questions about several machines, from the candidate on that the links promise most of */

static const char *const coll_names[FRAGMENT_COLLS] = {"broadcast", "all-gather", "all-reduce"};

int graph_sizes_parse(const char *text, struct graph_sizes *out, char *why, size_t room)
{
        long n = capo_plan_sizes_parse(text, out->bytes, N_ELEMENTS(out->bytes), why, room);

        if (n < 0)
                return (int)n;
        out->n = (size_t)n;
        qsort(out->bytes, out->n, sizeof *out->bytes, capo_order_u64);
        return 0;
}

int graph_path(const char *pattern, int node, char *path, size_t room)
{
        const char *at = strstr(pattern, "%n");
        int n = at ? snprintf(path, room, "%.*s%d%s", (int)(at - pattern), pattern, node, at + 2)
                   : snprintf(path, room, "%s", pattern);

        return n < 0 || (size_t)n >= room ? -ENAMETOOLONG : 0;
}

/* A file that is there whole or not at all; what is no regular file (a device, a FIFO) is written in place, and
 * @temporary is "" then. */
static FILE *begin_file(const char *path, char *temporary, size_t room, char *why, size_t why_room)
{
        bool in_place;
        struct stat st;
        FILE *f = NULL;

        errno = 0;
        in_place = stat(path, &st) == 0 && !S_ISREG(st.st_mode);
        *temporary = 0;
        if (in_place)
                f = fopen(path, "we");
        else if (snprintf(temporary, room, "%s.%d", path, (int)getpid()) < (int)room)
                f = fopen(temporary, "we");
        if (!f)
                snprintf(why, why_room, "%.200s: %s", path, strerror(errno ? errno : ENAMETOOLONG));
        return f;
}

static int end_file(FILE *f, const char *temporary, const char *path, int r, char *why, size_t why_room)
{
        if (fclose(f) != 0 && !r)
                r = -errno;
        if (!r && *temporary && rename(temporary, path) < 0)
                r = -errno;
        if (r) {
                if (*temporary)
                        unlink(temporary);
                snprintf(why, why_room, "%.200s: %s", path, strerror(-r));
        }
        return r;
}

/* One file per machine; %n in @pattern stands for its number. */
static int save_files(const char *pattern, const struct graph_plan *g, const struct capo_topology *t,
                      const struct capo_alloc *a, int nccl_version, char *why, size_t room)
{
        for (int node = 0; node < g->n_nodes; node++) {
                char path[4096], temporary[4128];
                int r = graph_path(pattern, node, path, sizeof path);
                FILE *f = r ? NULL : begin_file(path, temporary, sizeof temporary, why, room);

                if (!f)
                        return r ? r : -EIO;
                r = end_file(f, temporary, path, graph_write(f, g, node, t, a, nccl_version), why, room);
                if (r)
                        return r;
        }
        return 0;
}

static void write_machines(FILE *f, const struct graph_plan *g, const struct capo_topology *t,
                           const struct capo_alloc *a, int nccl_version)
{
        fprintf(f, "capo-graph 1 nccl %d\n", nccl_version);
        for (int node = 0; node < g->n_nodes; node++) {
                fputs("machine", f);
                for (int k = 0; k < g->nodes[node].n_gpus; k++) {
                        const struct capo_topology_gpu *gpu = &t->gpus[a->ranks[g->nodes[node].first + k].gpu];

                        fprintf(f, " %d@%s", gpu->dev, gpu->busid);
                }
                for (size_t i = 0; i < t->n_nics && g->n_nodes > 1; i++)
                        fprintf(f, "%s %s", i ? "" : " nics", t->nics[i].name);
                fputc('\n', f);
        }
}

int graph_save_folder(const char *folder, const struct graph_plan *g, const struct capo_topology *t,
                      const struct capo_alloc *a, int nccl_version, char *why, size_t room)
{
        char pattern[4096], path[4096], temporary[4128];
        FILE *f;
        int r;

        if (mkdir(folder, 0777) < 0 && errno != EEXIST) {
                r = -errno;
                snprintf(why, room, "%.200s: %s", folder, strerror(errno));
                return r;
        }
        if (snprintf(pattern, sizeof pattern, "%s/graph-%%n.xml", folder) >= (int)sizeof pattern ||
            snprintf(path, sizeof path, "%s/machines", folder) >= (int)sizeof path) {
                snprintf(why, room, "%.200s: %s", folder, strerror(ENAMETOOLONG));
                return -ENAMETOOLONG;
        }
        r = save_files(pattern, g, t, a, nccl_version, why, room);
        f = r ? NULL : begin_file(path, temporary, sizeof temporary, why, room);
        if (!f)
                return r ? r : -EIO;
        write_machines(f, g, t, a, nccl_version);
        return end_file(f, temporary, path, 0, why, room);
}

/* With the file against without it: the gain at the largest size, and whether anything is lost, in @why. */
static bool loses(const struct fragment_nccl *with, const struct fragment_nccl *own, char *why, size_t room)
{
        double worst = LOSS_MOST;

        for (size_t i = 0; i < own->n_sizes && i < with->n_sizes; i++) {
                for (int c = 0; c < FRAGMENT_COLLS; c++) {
                        double was = own->sizes[i].row[c].gbs, is = with->sizes[i].row[c].gbs;
                        char size[32];

                        if (was <= 0 || is >= worst * was)
                                continue;
                        worst = is / was;
                        snprintf(why, room, "%s of %s would be %.0f %% slower", coll_names[c],
                                 capo_size_print(own->sizes[i].bytes, size, sizeof size), 100 * (1 - worst));
                }
        }
        return worst < LOSS_MOST;
}

static double gain(const struct fragment_nccl *with, const struct fragment_nccl *own)
{
        double was = own->sizes[own->n_sizes - 1].row[FRAGMENT_ALLREDUCE].gbs;

        return was > 0 ? with->sizes[with->n_sizes - 1].row[FRAGMENT_ALLREDUCE].gbs / was : 0;
}

struct search {
        const struct capo_topology *t;
        const struct capo_alloc *a;
        struct fragment_nccl_ask ask;
        char pattern[64], paths[GRAPH_NODES][80];
        const char *files[GRAPH_NODES];
};

/* NCCL's answer with this candidate. False, with @why, when it does not take it or gains nothing. */
static bool try(struct search *w, const struct graph_plan *plan, const struct fragment_nccl *own,
                struct fragment_nccl *seen, char *why, size_t room)
{
        memset(seen, 0, sizeof *seen);
        if (save_files(w->pattern, plan, w->t, w->a, own->version, why, room) < 0)
                return false;
        w->ask.graph_files = w->files;
        w->ask.n_graph_files = (size_t)plan->n_nodes;
        if (fragment_nccl_ask(&w->ask, w->t, w->a, seen) < 0) {
                snprintf(why, room, "with the file NCCL refuses: %.300s", seen->why_not);
                return false;
        }
        if (seen->nodes != own->nodes) {
                snprintf(why, room, "with the file NCCL counts %d nodes instead of %d", seen->nodes, own->nodes);
                return false;
        }
        return graph_accepted(plan, w->t, w->a, seen, why, room) && !loses(seen, own, why, room) &&
               gain(seen, own) >= GAIN_LEAST;
}

static double costs(const struct graph_plan *g)
{
        return g->n_channels + g->ring.cross;
}

/* What the links promise, less what NCCL's model forgets. */
static double worth(const struct graph_plan *g)
{
        return (g->ring_gbs > g->tree_gbs ? g->ring_gbs : g->tree_gbs) * pow(PER_CHANNEL, -costs(g));
}

static int by_worth(const void *a, const void *b)
{
        double x = worth(a), y = worth(b);

        return (x < y) - (x > y);
}

/*
 * Inside a machine NCCL's model bounds what a channel carries, so more of them may be better than the links say: all
 * candidates are asked about. Between machines the links decide, and questions take long: the first that NCCL takes,
 * from the most worth on, is the one.
 */
static int best_of(struct search *w, struct graph_plan *plans, int n, const struct fragment_nccl *own,
                   struct graph_plan *best, struct fragment_nccl *with, char *why, size_t room)
{
        bool between = plans[0].n_nodes > 1;
        int found = 0, most = plans[n - 1].n_channels;
        char refused[512] = "";

        if (between)
                qsort(plans, (size_t)n, sizeof *plans, by_worth);
        for (int i = 0; i < n && !(between && (found || i == TRIES)); i++) {
                struct fragment_nccl seen;
                char this[512] = "";
                bool good = try(w, &plans[i], own, &seen, this, sizeof this);

                if (!good && !*refused)
                        memcpy(refused, this, sizeof refused);
                if (!good ||
                    (found && gain(&seen, own) < gain(with, own) * pow(PER_CHANNEL, costs(&plans[i]) - costs(best)))) {
                        fragment_nccl_finish(&seen);
                        continue;
                }
                fragment_nccl_finish(with);
                *with = seen;
                *best = plans[i];
                found = 1;
        }
        if (!found && *refused)
                snprintf(why, room, "%s", refused);
        else if (!found)
                snprintf(why, room, "NCCL expects nothing of %d files with up to %d channels that use the links better",
                         n, most);
        return found;
}

int graph_best(const struct fragment_nccl_ask *ask, const struct capo_topology *t, const struct capo_alloc *a,
               const struct graph_sizes *sizes, struct fragment_nccl *own, struct graph_plan *best,
               struct fragment_nccl *with, char *why, size_t room)
{
        _cleanup_free_ struct graph_plan *plans = calloc(GRAPH_CANDIDATES, sizeof *plans);
        _cleanup_free_ struct search *w = calloc(1, sizeof *w);
        char folder[] = "/tmp/capo-graph-XXXXXX", nccl[16];
        struct graph_sizes usual;
        int r, n;

        memset(own, 0, sizeof *own);
        memset(with, 0, sizeof *with);
        snprintf(why, room, "out of memory");
        if (!plans || !w)
                return -ENOMEM;
        if (!sizes) {
                r = graph_sizes_parse(GRAPH_SIZES, &usual, why, room);
                if (r < 0)
                        return r;
                sizes = &usual;
        }
        w->t = t;
        w->a = a;
        w->ask = *ask;
        w->ask.sizes = sizes->bytes;
        w->ask.n_sizes = sizes->n;
        r = fragment_nccl_ask(&w->ask, t, a, own);
        if (r < 0) {
                snprintf(why, room, "%s", own->why_not);
                return r;
        }
        if (own->sizes[own->n_sizes - 1].row[FRAGMENT_ALLREDUCE].gbs <= 0) {
                snprintf(why, room, "NCCL %s does not say what it expects; 2.20 and later do",
                         capo_nccl_text((uint32_t)own->version, nccl, sizeof nccl));
                return 0;
        }
        n = graph_choose(t, a, own, plans, why, room);
        if (n <= 0)
                return n;
        if (!mkdtemp(folder)) {
                snprintf(why, room, "no temporary folder: %s", strerror(errno));
                return -errno;
        }
        snprintf(w->pattern, sizeof w->pattern, "%s/%%n", folder);
        for (int node = 0; node < GRAPH_NODES; node++) {
                graph_path(w->pattern, node, w->paths[node], sizeof w->paths[node]);
                w->files[node] = w->paths[node];
        }
        r = best_of(w, plans, n, own, best, with, why, room);
        for (int node = 0; node < a->n_nodes && node < GRAPH_NODES; node++)
                unlink(w->paths[node]);
        rmdir(folder);
        return r;
}
