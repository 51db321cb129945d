/* SPDX-License-Identifier: Apache-2.0 */
/* Names and labels of NVIDIA's Inspector (NCCL_INSPECTOR_PROM_DUMP=1), so that its dashboards find
 * their series. Inspector has one file per GPU and the last values; here there is one series for
 * all GPUs of the node (gpu="all"), with values since the start of the job. */
#include "cli/base/cli.h"
#include "cli/watch/metrics.h"
#include "core/base/calls.h"
#include "core/base/util.h"

enum { SMALLEST = 8 << 10, ROWS = 128 };

/* "4-5GB": whole units of 1024. */
static char *size_range(uint64_t bytes, char *text, size_t room)
{
        static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
        unsigned k = 0;

        for (; bytes >= 1024 && k < 4; k++)
                bytes /= 1024;
        snprintf(text, room, "%llu-%llu%s", (unsigned long long)bytes,
                 (unsigned long long)bytes + 1, units[k]);
        return text;
}

/* "Ring_ll" */
static char *ran_as(uint8_t algo_proto, char *text, size_t room)
{
        const char *algo = capo_ran_algo(algo_proto), *proto = capo_ran_proto(algo_proto);
        size_t n = (size_t)snprintf(text, room, "%s_", algo);

        for (; *proto && n + 1 < room; proto++)
                text[n++] = (char)tolower((unsigned char)*proto);
        text[n] = 0;
        return algo_proto ? text : strcpy(text, "unknown");
}

struct inspected {
        const struct capo_page_row *row;
        char size[64], ran[32], comm[CAPO_LIVE_NAME], nodes[16], ranks[16];
};

static void name_row(const struct capo_job *job, const struct capo_page_row *row,
                     struct inspected *out)
{
        const struct capo_job_comm *c = &job->comms[row->row.comm];

        out->row = row;
        size_range(row->bytes_max, out->size, sizeof out->size);
        ran_as(row->row.algo_proto, out->ran, sizeof out->ran);
        snprintf(out->comm, sizeof out->comm, "%.*s", (int)strcspn(c->name, "#"), c->name);
        snprintf(out->nodes, sizeof out->nodes, "%u", c->n_nodes);
        snprintf(out->ranks, sizeof out->ranks, "%d", c->n_ranks);
}

/* Rows that Inspector would have, those with most time first: of several with equal labels,
 * metrics_point() writes the first. */
static unsigned choose_rows(const struct hang_page *page, bool p2p, struct inspected out[ROWS])
{
        unsigned n = 0;

        for (uint32_t i = 0; i < page->late.judged.n && n < ROWS; i++) {
                const struct capo_page_row *row = &page->late.judged.row[i];

                if (!row->has_bandwidth || row->bytes_max < SMALLEST ||
                    row->row.comm == CAPO_NO_COMM ||
                    (capo_call_kind(row->row.call) == CAPO_KIND_P2P) != p2p)
                        continue;
                name_row(page->job, row, &out[n++]);
        }
        return n;
}

static void put_family(struct metrics_put *p, const struct watch_job *only, bool p2p, bool time)
{
        struct inspected rows[ROWS];

        for (uint32_t j = 0; j < p->watch->n_jobs; j++) {
                const struct watch_job *job = &p->watch->job[j];
                unsigned n = job->readable && (!only || only == job)
                                     ? choose_rows(&job->page, p2p, rows)
                                     : 0;

                for (unsigned i = 0; i < n; i++) {
                        const struct inspected *r = &rows[i];
                        struct capo_sampled s = capo_job_row_sampled(&r->row->row);

                        metrics_point(p, "", time ? capo_sampled_mean(&s) / 1e3 : r->row->busbw,
                                      "version", "capo-" CAPO_VERSION, "slurm_job_id", job->id,
                                      "node", p->watch->node, "gpu", "all", "comm_name", r->comm,
                                      "n_nodes", r->nodes, "nranks", r->ranks,
                                      p2p ? "p2p_operation" : "collective",
                                      capo_call_name(r->row->row.call), "message_size", r->size,
                                      p2p ? NULL : "algo_proto", r->ran, NULL);
                }
        }
}

void inspector_write(const struct watch *w, const struct watch_job *only,
                     enum metrics_format format, FILE *out)
{
        struct metrics_put p = {.out = out, .format = format, .watch = w};

        metrics_family(&p, "nccl_bus_bandwidth_gbs", "gauge",
                       "Bus bandwidth of a collective in GB/s, median.");
        put_family(&p, only, false, false);
        metrics_family(&p, "nccl_collective_exec_time_microseconds", "gauge",
                       "GPU time of a collective in microseconds, mean.");
        put_family(&p, only, false, true);
        metrics_family(&p, "nccl_p2p_bus_bandwidth_gbs", "gauge",
                       "Bus bandwidth of a send or receive in GB/s, median.");
        put_family(&p, only, true, false);
        metrics_family(&p, "nccl_p2p_exec_time_microseconds", "gauge",
                       "GPU time of a send or receive in microseconds, mean.");
        put_family(&p, only, true, true);
        metric_series_clear(&p.series);
}
