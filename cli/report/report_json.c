/* SPDX-License-Identifier: Apache-2.0 */
/* The report as JSON (versioned by "capo_report", docs/internals/json.md). Exact sizes, all rows.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include <jansson.h>

#include "cli/report/report_json.h"
#include "core/base/calls.h"
#include "core/base/util.h"

#define REPORT_VERSION 1

static json_t *number_or_null(bool known, double v)
{
        return known ? cli_json_number(v) : json_null();
}

static json_t *skew_json(const struct capo_page *r, const struct capo_job_comm *c)
{
        double most = (double)capo_job_duration_ns(r->job) * (c->n_members - 1.0);
        static const char *const from[] = {"gpu_duration", "host_start"};
        const struct capo_skew *k = c->skew;
        json_t *j, *ranks;
        uint32_t often = 0;

        if (!k)
                return json_null();
        for (uint32_t i = 1; i < c->n_members; i++)
                often = k->ranks[i].last > k->ranks[often].last ? i : often;
        j = json_object();
        ranks = json_array();
        json_object_set_new(j, "calls_compared", json_integer(k->n_calls));
        json_object_set_new(j, "from", json_string(from[k->from]));
        if (k->n_kernel)
                json_object_set_new(j, "calls_by_kernel_wait", json_integer(k->n_kernel));
        json_object_set_new(j, "uncertain_us", number_or_null(k->aligned, 0));
        json_object_set_new(j, "p50_us", number_or_null(k->n_calls, k->p50_ns / 1000));
        json_object_set_new(j, "p95_us", number_or_null(k->n_calls, k->p95_ns / 1000));
        json_object_set_new(j, "max_us", number_or_null(k->n_calls, k->max_ns / 1000));
        json_object_set_new(j, "last_most_often",
                            k->n_calls ? json_integer(c->members[often].rank) : json_null());
        json_object_set_new(j, "wait_share",
                            number_or_null(k->wait_share >= 0 && k->n_calls, k->wait_share));
        json_object_set_new(j, "wait_share_pm",
                            number_or_null(k->wait_share >= 0 && k->n_calls, k->wait_pm));
        json_object_set_new(j, "mismatched", json_integer(k->mismatched));
        for (uint32_t i = 0; i < c->n_members && k->n_calls; i++)
                json_array_append_new(
                        ranks,
                        json_pack("{s:i,s:i,s:i,s:o,s:o,s:o,s:o}", "rank", c->members[i].rank,
                                  "job_rank", c->members[i].job_rank, "last", (int)k->ranks[i].last,
                                  "late_p50_us", cli_json_number(k->ranks[i].late_p50_ns / 1000),
                                  "wait_us", cli_json_number(k->ranks[i].wait_ns / 1000),
                                  "caused_s", cli_json_number(k->ranks[i].caused_ns / 1e9),
                                  "caused_pm_s",
                                  cli_json_number(fmin(k->ranks[i].caused_pm_ns, most) / 1e9)));
        json_object_set_new(j, "per_rank", ranks);
        return j;
}

static json_t *creation_json(const struct capo_page *r)
{
        const struct capo_page_init *init = &r->creation.slowest;
        json_t *parts = json_object();

        for (unsigned i = 0; i < init->n_parts; i++)
                json_object_set_new(parts, init->part[i].name,
                                    cli_json_number(init->part[i].seconds));
        return json_pack("{s:i, s:o, s:o, s:o, s:o}", "communicators", (int)r->creation.n,
                         "seconds", number_or_null(r->creation.n, r->creation.ns / 1e9),
                         "nccl_total_s", number_or_null(r->creation.n_inits, init->total_s),
                         "nccl_rank", r->creation.n_inits ? json_integer(init->rank) : json_null(),
                         "nccl_parts_s", parts);
}

static json_t *comm_json(const struct capo_page *r, uint32_t id)
{
        const struct capo_job_comm *c = &r->job->comms[id];
        json_t *j = json_object(), *logs = json_array();
        char uid[20];

        snprintf(uid, sizeof uid, "%016llx", (unsigned long long)c->uid);
        json_object_set_new(j, "id", json_integer(id));
        json_object_set_new(j, "name", cli_json_text(c->name));
        json_object_set_new(j, "ranks",
                            json_integer(c->n_ranks > 0 ? c->n_ranks : (int)c->n_members));
        json_object_set_new(j, "nodes", json_integer(c->n_nodes));
        json_object_set_new(j, "layout", json_string(c->layout));
        if (r->ceiling)
                json_object_set_new(j, "class", json_string(r->ceiling[id].class));
        json_object_set_new(j, "uid", json_string(uid));
        json_object_set_new(j, "parent",
                            c->parent == CAPO_NO_COMM ? json_null() : json_integer(c->parent));
        json_object_set_new(j, "color", c->color >= 0 ? json_integer(c->color) : json_null());
        json_object_set_new(j, "calls", json_integer((json_int_t)c->n_calls));
        for (uint32_t i = 0; i < c->n_members; i++)
                json_array_append_new(logs, json_integer(c->members[i].rank));
        json_object_set_new(j, "created_s",
                            number_or_null(r->created[id].ns > 0, r->created[id].ns / 1e9));
        json_object_set_new(j, "created_least_s",
                            number_or_null(r->created[id].ns > 0, r->created[id].least_ns / 1e9));
        json_object_set_new(j, "ranks_logged", logs);
        json_object_set_new(j, "skew", skew_json(r, c));
        return j;
}

static json_t *process_json(const struct capo_job_process *p)
{
        json_t *j = json_object();

        json_object_set_new(j, "rank", p->rank >= 0 ? json_integer(p->rank) : json_null());
        json_object_set_new(j, "host", cli_json_text(p->host));
        json_object_set_new(j, "pid", json_integer(p->header.pid));
        json_object_set_new(j, "node", json_integer(p->node));
        json_object_set_new(j, "log", cli_json_text(p->path));
        json_object_set_new(j, "ended",
                            json_string(!p->has_end || !p->end.clean ? "killed"
                                        : p->end.clean == 2          ? "recovered"
                                                                     : "clean"));
        json_object_set_new(j, "calls", json_integer((json_int_t)p->end.calls));
        json_object_set_new(j, "dropped", json_integer((json_int_t)p->end.dropped));
        json_object_set_new(j, "records", json_integer((json_int_t)p->n_records));
        return j;
}

static json_t *site_json(const struct capo_job_site *s)
{
        json_t *j = json_object(), *frames = json_array();

        for (const char *line = s->text; *line;) {
                size_t n = strcspn(line, "\n");
                char frame[1024];

                snprintf(frame, sizeof frame, "%.*s", (int)n, line);
                json_array_append_new(frames, cli_json_text(frame));
                line += n + (line[n] == '\n');
        }
        json_object_set_new(j, "frames", frames);
        json_object_set_new(j, "calls", json_integer((json_int_t)s->count));
        json_object_set_new(j, "host_us", cli_json_number((double)s->host_ns / 1000));
        json_object_set_new(j, "gpu_us", cli_json_number((double)s->gpu_ns / 1000));
        json_object_set_new(j, "gpu_timed", json_integer((json_int_t)s->gpu_count));
        return j;
}

int report_json(const struct report_view *view, FILE *out)
{
        const struct capo_page *r = view->page;
        const struct capo_job *job = r->job;
        json_t *j = json_object(), *comms = json_array(), *processes = json_array();
        json_t *sites = json_array(), *problems = json_array(), *others = json_array();
        int e;

        for (uint32_t i = 0; i < job->n_comms; i++)
                json_array_append_new(comms, comm_json(r, i));
        for (uint32_t i = 0; i < r->others.n; i++)
                json_array_append_new(
                        others,
                        json_pack(
                                "{s:o,s:s,s:I,s:I,s:o}", "comm",
                                r->others.row[i].row.comm == CAPO_NO_COMM
                                        ? json_null()
                                        : json_integer(r->others.row[i].row.comm),
                                "call", capo_call_name(r->others.row[i].row.call), "calls",
                                (json_int_t)r->others.row[i].row.calls, "failed",
                                (json_int_t)r->others.row[i].row.failed, "p50_us",
                                cli_json_number(
                                        capo_hist_quantile(
                                                &r->others.row[i].row.time[CAPO_CLOCK_HOST], 0.5) /
                                        1000)));
        for (uint32_t i = 0; i < job->n_processes; i++)
                json_array_append_new(processes, process_json(&job->processes[i]));
        for (uint32_t i = 0; i < job->n_sites; i++)
                json_array_append_new(sites, site_json(&job->sites[i]));
        for (uint32_t i = 0; i < r->n_problems; i++)
                json_array_append_new(problems, cli_json_text(r->problems[i].text));
        json_object_set_new(j, "capo_report", json_integer(REPORT_VERSION));
        json_object_set_new(j, "ranks", json_integer(job->n_ranks));
        json_object_set_new(j, "nodes", json_integer(job->n_nodes));
        json_object_set_new(j, "begin_unix_s",
                            json_integer((json_int_t)(job->t_begin_ns / 1000000000)));
        json_object_set_new(j, "duration_s",
                            cli_json_number((double)capo_job_duration_ns(job) / 1e9));
        if (capo_page_is_filtered(r))
                json_object_set_new(j, "only",
                                    json_pack("{s:s?, s:s?}", "comm", r->only_comm, "call",
                                              r->only_call ? capo_call_name(r->only_call) : NULL));
        json_object_set_new(j, "collectives", json_integer((json_int_t)r->collectives));
        json_object_set_new(j, "bytes", json_integer((json_int_t)r->moved_bytes));
        json_object_set_new(j, "gpu_share", number_or_null(r->gpu_share >= 0, r->gpu_share));
        json_object_set_new(j, "exposed_most",
                            number_or_null(r->exposed_most >= 0, r->exposed_most));
        json_object_set_new(
                j, "gpu_share_pm",
                number_or_null(r->gpu_share >= 0, capo_interval_pm(r->gpu_range, r->gpu_share)));
        json_object_set_new(j, "gpu_share_low",
                            number_or_null(r->gpu_share >= 0, r->gpu_range.low));
        json_object_set_new(j, "gpu_share_high",
                            number_or_null(r->gpu_share >= 0, r->gpu_range.high));
        json_object_set_new(j, "wait_share", number_or_null(r->wait_share >= 0, r->wait_share));
        json_object_set_new(j, "wait_share_low",
                            number_or_null(r->wait_share >= 0, r->wait_range.low));
        json_object_set_new(j, "wait_share_high",
                            number_or_null(r->wait_share >= 0, r->wait_range.high));
        json_object_set_new(j, "creation", creation_json(r));
        json_object_set_new(j, "steps", report_json_steps(r));
        json_object_set_new(j, "comms", comms);
        json_object_set_new(j, "rows", report_json_rows(view));
        json_object_set_new(j, "other_calls", others);
        json_object_set_new(j, "sites", sites);
        json_object_set_new(j, "processes", processes);
        json_object_set_new(j, "fabric", report_json_fabric(r));
        json_object_set_new(j, "fabric_calls", report_json_fabric_calls(r));
        json_object_set_new(j, "problems", problems);
        report_json_judged(j, r);
        json_object_set_new(j, "records", json_integer((json_int_t)job->n_records));
        json_object_set_new(j, "dropped", json_integer((json_int_t)job->dropped));
        json_object_set_new(j, "capo_cost_ns", number_or_null(job->cost_ns > 0, job->cost_ns));
        e = json_dumpf(j, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
        json_decref(j);
        fputc('\n', out);
        return e < 0 ? -EIO : 0;
}
