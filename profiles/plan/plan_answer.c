/* SPDX-License-Identifier: Apache-2.0 */
/* Sources of each part of an answer. Algorithm and protocol: NCCL's profiler event (2.23 and
 * later), or the line that it prints about its choice (2.20 to 2.23). Channels: the thread blocks
 * of the kernel that it launched, in every release. Time: the cell of its choice in the cost table
 * that NCCL passes to a tuner, before any change; without a table (2.19 to 2.21), the time in that
 * printed line; else not known. */
#include <math.h>

#include "core/base/text.h"
#include "core/base/among.h"
#include "capo/msg.h"
#include "core/base/calls.h"
#include "core/base/xalloc.h"
#include "profiles/plan/plan_answer.h"
#include "core/base/file.h"
#include "profiles/machine/xml.h"

/* The output of a node's NCCL; NULL: none. */
static char *read_log(const char *folder, uint32_t node)
{
        char path[PLAN_PATH], *text;
        size_t size;

        snprintf(path, sizeof path, "%s/log.%u", folder, node);
        return capo_file_read(path, SIZE_MAX - 1, &text, &size) < 0 ? NULL : text;
}

/* NCCL's line about its choice, for rows without a profiler event: "<n> Bytes -> Algo 1 proto 0
 * time 12.34" in 2.20 to 2.23, missing where a tuner chose; "Broadcast: <n> Bytes -> Algo RING
 * proto LL ..." later. From 2.29 on, a Broadcast with one root has that line and no profiler event.
 */
static void read_line(const char *line, struct capo_plan_row *r)
{
        char algo[32], proto[32];
        double us = NAN;
        unsigned a, p;

        if (sscanf(line, "Bytes -> Algo %31s proto %31s time %lf", algo, proto, &us) < 2)
                return;
        if (algo[0] >= '0' && algo[0] <= '9') {
                a = (unsigned)atoi(algo) + 1;
                p = (unsigned)atoi(proto) + 1;
        } else {
                a = capo_algo_find(algo);
                p = capo_proto_find(proto);
        }
        if (a > CAPO_NCCL_ALGOS || p > CAPO_NCCL_PROTOS)
                return;
        if (!r->algo) {
                r->algo = (uint8_t)a;
                r->proto = (uint8_t)p;
        }
        if (isnan(r->us) && r->algo == a && r->proto == p && us > 0 && us < 3.6e9)
                r->us = us;
}

static void read_printed(const struct plan_job *job, const char *folder,
                         struct capo_plan_answer *out)
{
        _cleanup_free_ char *text = read_log(folder, job->ranks[0].node);
        uint64_t begin = 0, size = text ? strlen(text) : 0;

        for (size_t i = 0; i < out->n_rows && job->rows[i].log_end <= size; i++) {
                uint64_t end = job->rows[i].log_end;
                char kept = text ? text[end] : 0;
                char *line, name[64];

                if (!text || end < begin)
                        return;
                text[end] = 0;
                line = strstr(text + begin, "Bytes -> Algo ");
                if (line)
                        read_line(line, &out->rows[i]);
                /* "AllReduce [Symmetric]: <n> Bytes -> Kernel AllReduce_AGxLLMC_R nchannels 1 ..." of
                 * 2.28 to 2.32 */
                line = strstr(text + begin, "Bytes -> Kernel ");
                if (line && !out->rows[i].algo && sscanf(line, "Bytes -> Kernel %63s", name) == 1)
                        out->rows[i].kernel = (uint8_t)capo_symk_find(name);
                text[end] = kept;
                begin = end;
        }
}

/* The time of a choice, from the tuner's table. */
static double table_us(const struct capo_plan_row *r)
{
        if (!r->algo || !r->proto || r->algo > r->n_algo || r->proto > r->n_proto ||
            r->cost[r->algo - 1][r->proto - 1] < 0)
                return NAN;
        return r->cost[r->algo - 1][r->proto - 1];
}

static int read_rows(struct plan_job *job, struct capo_plan_answer *out, char *why, size_t room)
{
        const struct plan_agree *first = plan_job_agree(job, 0);

        out->rows = xcalloc(job->n_rows ? job->n_rows : 1, sizeof *out->rows);
        out->n_rows = job->n_rows;
        for (uint32_t i = 0; i < job->n_rows; i++) {
                out->rows[i] = job->rows[i].row;
                out->rows[i].us = table_us(&out->rows[i]);
                out->rows[i].busbw_gbs = NAN;
                out->rows[i].ranks_agree = true;
                for (uint32_t r = 0; r < job->n_heard; r++) {
                        const struct plan_agree *a = plan_job_agree(job, r) + i;

                        if (!a->done)
                                return capo_why(-EPROTO, why, room,
                                                "rank %u did not answer question %u", job->asked[r],
                                                i);
                        if (a->algo != first[i].algo || a->proto != first[i].proto ||
                            a->channels != first[i].channels)
                                out->rows[i].ranks_agree = false;
                }
        }
        return 0;
}

/* Graphs (NCCL_GRAPH_DUMP_FILE): <graphs> of <graph> of <channel> of <net> and <gpu>. From 2.21 on
 * `dev` is hexadecimal, with the number of the host in its top 8 bits. If hosts share an NVLink
 * domain, the host is the tray, printed as "1:2". */

static void read_path(const struct capo_xml *channel, bool trays, char *text, size_t room)
{
        *text = 0;
        for (const struct capo_xml *e = channel->child; e; e = e->next) {
                const char *dev = capo_xml_get(e, "dev");
                unsigned long long id = dev ? strtoull(dev, NULL, 0) : 0;
                char tray[8] = "";

                if (trays)
                        snprintf(tray, sizeof tray, "%llu:", id >> 56);
                capo_append(text, room, "%s%s%s%llu", *text ? " " : "",
                            strcmp(e->name, "net") ? "" : "net", tray, id & ((1ull << 56) - 1));
        }
}

static double real_of(const struct capo_xml *e, const char *attr)
{
        const char *text = capo_xml_get(e, attr);

        return text ? strtod(text, NULL) : 0;
}

/* 0 also for invalid values. */
static int int_of(const struct capo_xml *e, const char *attr)
{
        double v = real_of(e, attr);

        return v > INT_MIN && v < INT_MAX ? (int)v : 0;
}

static void read_graph(const struct capo_xml *g, uint32_t node, bool trays,
                       struct capo_plan_graph *to)
{
        const char *intra = capo_xml_get(g, "typeintra"), *inter = capo_xml_get(g, "typeinter");

        *to = (struct capo_plan_graph){.node = (int)node,
                                       .id = int_of(g, "id"),
                                       .pattern = int_of(g, "pattern"),
                                       .n_channels = int_of(g, "nchannels"),
                                       .speed_intra = real_of(g, "speedintra"),
                                       .speed_inter = real_of(g, "speedinter")};
        snprintf(to->type_intra, sizeof to->type_intra, "%s", intra ? intra : "");
        snprintf(to->type_inter, sizeof to->type_inter, "%s", inter ? inter : "");
        for (const struct capo_xml *c = g->child; c; c = c->next) {
                xarray_room(&to->paths, to->n_paths, sizeof *to->paths);
                read_path(c, trays, to->paths[to->n_paths++], sizeof *to->paths);
        }
}

/* @as: the node that gets them; it may only be like the one that wrote them. */
static void read_graphs(const struct plan_job *job, const char *folder, uint32_t node, uint32_t as,
                        struct capo_plan_answer *out)
{
        struct capo_xml *root;
        char path[PLAN_PATH], why[256];

        snprintf(path, sizeof path, "%s/graph.%u", folder, node);
        if (capo_xml_read(path, &root, why, sizeof why) < 0)
                return; /* a single rank has none */
        for (const struct capo_xml *g = root->child; g; g = g->next) {
                xarray_room(&out->graphs, out->n_graphs, sizeof *out->graphs);
                read_graph(g, as, job->domain_nodes > 1, &out->graphs[out->n_graphs++]);
        }
        capo_xml_free(root);
}

/* The node that was started in place of this one. */
static uint32_t like_node(const struct plan_job *job, uint32_t node)
{
        const struct plan_unit *u = &job->units[job->node_unit[node]];

        for (uint32_t i = 0; !u->real && i < u->n; i++) {
                if (job->ranks[job->by_unit[u->first + i]].node == node)
                        return job->ranks[job->by_unit[job->units[u->like[0]].first + i]].node;
        }
        return node;
}

static void read_all_graphs(const struct plan_job *job, const char *folder,
                            struct capo_plan_answer *out)
{
        uint32_t first = job->ranks[0].node;
        bool others = false; /* of NCCL 2.19 only the first rank of all writes graphs */

        read_graphs(job, folder, first, first, out);
        for (uint32_t n = 0; n < job->n_nodes && !others; n++) {
                _cleanup_free_ char *path = xprintf("%s/graph.%u", folder, n);

                others = n != first && job->units[job->node_unit[n]].real && !access(path, R_OK);
        }
        for (uint32_t n = 0; n < job->n_nodes && others; n++) {
                if (n != first)
                        read_graphs(job, folder, like_node(job, n), n, out);
        }
}

void plan_answer_warning(const char *folder, uint32_t n_nodes, char *out, size_t room)
{
        *out = 0;
        for (uint32_t i = 0; i < n_nodes && !*out; i++) {
                _cleanup_free_ char *text = read_log(folder, i);
                char *at = text ? strstr(text, "NCCL WARN ") : NULL;

                if (at)
                        snprintf(out, room, "%.*s", (int)strcspn(at, "\n"), at);
        }
}

void plan_answer_gap(const struct plan_job *job, char *out, size_t room)
{
        *out = 0;
        if (job->n_gaps)
                snprintf(out, room, " (it called %.40s, which capo's virtual CUDA does not have)",
                         job->gaps[0]);
}

int plan_answer_read(struct plan_job *job, const struct capo_plan_question *q, const char *folder,
                     struct capo_plan_answer *out, char *why, size_t room)
{
        int r = read_rows(job, out, why, room);
        size_t size;

        if (r < 0)
                return r;
        out->version = job->version;
        out->profiler_abi = job->profiler_abi;
        out->reported = job->reported;
        out->windowless = job->windowless;
        out->asked = job->n_asked;
        for (uint32_t n = 0; n < job->n_nodes; n++)
                out->asked_nodes += job->units[job->node_unit[n]].real;
        read_printed(job, folder, out);
        for (size_t i = 0; i < out->n_rows; i++) {
                struct capo_plan_row *row = &out->rows[i];

                if (isnan(row->us))
                        row->us = table_us(row);
                if (!isnan(row->us))
                        row->busbw_gbs = (double)row->bytes / (row->us * 1e3) *
                                         capo_busbw_factor(capo_coll_kind(row->coll), job->n_ranks);
        }
        if (q->graph)
                read_all_graphs(job, folder, out);
        if (q->log) {
                FILE *f = xmemstream(&out->log, &size);

                for (uint32_t n = 0; n < job->n_nodes; n++) {
                        _cleanup_free_ char *text = read_log(folder, n);

                        fputs(text ? text : "", f);
                }
                xmemclose(f);
        }
        return 0;
}

const struct capo_plan_graph *capo_plan_graph_find(const struct capo_plan_answer *a, int node,
                                                   int id)
{
        return FIRST_OF(g, a->graphs, a->n_graphs,
                        (node < 0 || g->node == node) && g->id == id && g->n_channels > 0);
}

void capo_plan_answer_finish(struct capo_plan_answer *a)
{
        for (size_t i = 0; i < a->n_graphs; i++)
                free(a->graphs[i].paths);
        xfree(a->graphs, a->rows, a->log);
        memset(a, 0, sizeof *a);
}
