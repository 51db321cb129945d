/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "cli/base/cli_json.h"
#include "cli/top/top_page.h"
#include "core/base/calls.h"
#include "core/base/util.h"

static json_t *positive_or_null(double value)
{
        return value > 0 ? cli_json_number(value) : json_null();
}

static json_t *pack_rows(const struct top *t, const struct top_job *job)
{
        _cleanup_free_ uint32_t *order = calloc(job->rates.n + 1, sizeof *order);
        uint32_t n = order ? top_rows(t, job, order) : 0;
        json_t *rows = json_array();

        for (uint32_t i = 0; i < n; i++) {
                const struct capo_live_rate *r = &job->rates.rate[order[i]];
                char size[32];

                json_array_append_new(
                        rows,
                        json_pack("{s:o, s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "comm",
                                  cli_json_text(r->row->comm), "call", capo_call_name(r->row->call),
                                  "size", capo_live_size_text(r->row->size, size), "calls",
                                  (json_int_t)r->row->calls, "calls_per_s",
                                  cli_json_number(r->calls_s), "bytes_per_s",
                                  cli_json_number(r->bytes_s), "gpu_share",
                                  cli_json_known(r->share), "p50_us",
                                  positive_or_null(r->p50_ns / 1e3), "busbw_gbs",
                                  positive_or_null(r->row->busbw), "reached",
                                  cli_json_known(r->row->reached)));
        }
        return rows;
}

static json_t *pack_culprits(const struct watch_job *w)
{
        const struct capo_hang_verdict *v = &w->page.verdict;
        json_t *list = json_array();

        for (uint32_t i = 0; i < v->n_culprits && capo_hang_kind_exit(v->kind); i++) {
                uint32_t process = v->culprits[i].process;

                json_array_append_new(list,
                                      json_pack("{s:i, s:o, s:s}", "rank",
                                                (int)w->page.hang.processes[process].rank, "host",
                                                cli_json_text(w->page.job->processes[process].host),
                                                "why", capo_hang_why_name(v->culprits[i].why)));
        }
        return list;
}

static json_t *pack_late(const struct watch_job *w)
{
        const struct capo_page_wait *late;
        json_t *list = json_array();

        for (uint32_t i = 0; (late = hang_late(&w->page, i)); i++) {
                const struct capo_job_comm *c = &w->page.job->comms[late->comm];

                json_array_append_new(list, json_pack("{s:o, s:i, s:o, s:o}", "communicator",
                                                      cli_json_text(c->name), "rank",
                                                      (int)c->members[late->last].rank, "share",
                                                      cli_json_known(late->caused_share), "text",
                                                      cli_json_text(late->text)));
        }
        return list;
}

static json_t *pack_nics(const struct top_job *job)
{
        json_t *list = json_array();

        for (size_t i = 0; i < job->n_nics; i++)
                json_array_append_new(
                        list,
                        json_pack("{s:o, s:o, s:o}", "nic", cli_json_text(job->nic[i].name),
                                  "sent_bytes_per_s", cli_json_number(job->nic[i].sent_s),
                                  "received_bytes_per_s", cli_json_number(job->nic[i].received_s)));
        return list;
}

static json_t *pack_steps(const struct watch_job *w)
{
        const struct capo_job_steps *s = &w->page.late.steps;

        if (!s->steps.n_plain)
                return json_null();
        return json_pack("{s:o, s:o, s:o, s:b}", "total",
                         s->total ? json_integer((json_int_t)s->total) : json_null(), "p50_s",
                         cli_json_number(s->steps.p50_ns / 1e9), "p95_s",
                         cli_json_number(s->steps.p95_ns / 1e9), "certain",
                         s->steps.known == CAPO_STEPS_FOUND);
}

int top_json(const struct top *t, FILE *out)
{
        json_t *jobs = json_array();

        for (uint32_t i = 0; i < t->n_jobs; i++) {
                const struct top_job *job = &t->job[i];
                const struct watch_job *w = top_job_of(t, job);

                if (w)
                        json_array_append_new(
                                jobs,
                                json_pack("{s:o, s:o, s:i, s:f, s:s, s:o, s:o, s:o, s:o, s:o}",
                                          "job", cli_json_text(w->id), "user",
                                          cli_json_text(w->user), "ranks",
                                          (int)w->page.hang.n_processes, "age_s",
                                          (double)(job->sampled_ns - w->page.job->t_begin_ns) / 1e9,
                                          "verdict", capo_hang_kind_name(watch_kind(w)), "steps",
                                          pack_steps(w), "culprits", pack_culprits(w), "late",
                                          pack_late(w), "nics", pack_nics(job), "rows",
                                          pack_rows(t, job)));
        }
        return cli_json_print(out, json_pack("{s:i, s:o}", "capo_top", 1, "jobs", jobs),
                              JSON_INDENT(2));
}
