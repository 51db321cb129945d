/* SPDX-License-Identifier: Apache-2.0 */
/* The report as JSON (versioned by "capo_report", docs/internals/json.md). Exact sizes, all rows.
 */

#include "cli/report/report_experts.h"
#include "cli/report/report_causes.h"
#include "cli/report/report_json.h"
#include "core/base/xalloc.h"
#include "core/log/info.h"

#define REPORT_VERSION 1

#define CREATION_FIELDS(F)               \
        F("communicators", COUNT, of->n) \
        F("seconds", REAL, of->n ? of->ns / 1e9 : NAN)
CLI_ENTITY(creation, struct capo_page_creation, void, CREATION_FIELDS);

#define PROCESS_FIELDS(F)                              \
        F("rank", RANK, of->rank)                      \
        F("host", TEXT, of->host)                      \
        F("pid", RANK, of->header.pid)                 \
        F("node", RANK, of->node)                      \
        F("log", TEXT, of->path)                       \
        F("ended", WORD,                               \
          !of->has_end || !of->end.clean ? "killed"    \
          : of->end.clean == 2           ? "recovered" \
                                         : "clean")              \
        F("calls", COUNT, of->end.calls)               \
        F("dropped", COUNT, of->end.dropped)           \
        F("records", COUNT, of->n_records)
CLI_ENTITY(process, struct capo_job_process, void, PROCESS_FIELDS);

static json_t *frames_json(const char *text)
{
        _cleanup_free_ char *copy = xstrdup(text);
        json_t *frames = json_array();
        char *rest = copy, *line;

        while ((line = strsep(&rest, "\n"))) {
                if (*line || rest)
                        json_array_append_new(frames, cli_json_text(line));
        }
        return frames;
}

#define SITE_FIELDS(F)                              \
        F("frames", JSON, frames_json(of->text))    \
        F("calls", COUNT, of->count)                \
        F("host_us", DURATION, (double)of->host_ns) \
        F("gpu_us", DURATION, (double)of->gpu_ns)   \
        F("gpu_timed", COUNT, of->gpu_count)
CLI_ENTITY(site, struct capo_job_site, void, SITE_FIELDS);

static json_t *ranks_json(const struct capo_problem *p)
{
        json_t *ranks = json_array();

        for (uint32_t i = 0; i < p->n_runs; i++) {
                for (json_int_t k = 0; k < p->runs[i].n; k++)
                        json_array_append_new(ranks, json_integer(p->runs[i].first + k));
        }
        return ranks;
}

#define PROBLEM_FIELDS(F)                                                           \
        F("at_s", DURATION, of->at_s * 1e9)                                         \
        F("in_call", FLAG, of->in_call)                                             \
        F("rank", RANK, of->n_runs == 1 && of->runs->n == 1 ? of->runs->first : -1) \
        F("call", WORD, report_call_name(of->call))                                 \
        F("seq", RANK, of->seq ? (int64_t)of->seq : -1)                             \
        F("result", TEXT, of->result)                                               \
        F("kind", WORD, capo_problem_is[of->kind].name)                             \
        F("severity", WORD, capo_problem_is[of->kind].severity)                     \
        F("text", TEXT, of->text)                                                   \
        F("comm", RANK, report_comm_number(of->comm))                               \
        F("ranks", JSON, ranks_json(of))                                            \
        F("log", TEXT, of->log)
CLI_ENTITY(problem, struct capo_problem, void, PROBLEM_FIELDS);

#define GPU_SHARE(value)  (of->gpu_share >= 0 ? (value) : -1)
#define WAIT_SHARE(value) (of->wait_share >= 0 ? (value) : -1)

#define PAGE_FIELDS(F)                                                                            \
        F("capo_report", COUNT, REPORT_VERSION)                                                   \
        F("ranks", COUNT, of->job->n_ranks)                                                       \
        F("nodes", COUNT, of->job->n_nodes)                                                       \
        F("begin_unix_s", COUNT, of->job->t_begin_ns / 1000000000)                                \
        F("duration_s", DURATION, (double)capo_job_duration_ns(of->job))                          \
        F("only", JSON,                                                                           \
          !capo_page_is_filtered(of) ? NULL                                                       \
                                     : json_pack("{s:s?, s:s?}", "comm", of->only_comm, "call",   \
                                                 report_call_name((uint8_t)of->only_call)))       \
        F("beside", TEXT, capo_page_info(of, CAPO_INFO_BESIDE))                                   \
        F("collectives", COUNT, of->collectives)                                                  \
        F("bytes", BYTES, of->moved_bytes)                                                        \
        F("gpu_share", SHARE, of->gpu_share)                                                      \
        F("exposed_most", SHARE, of->exposed_most)                                                \
        F("gpu_share_pm", SHARE, GPU_SHARE(capo_interval_pm(of->gpu_range, of->gpu_share)))       \
        F("gpu_share_low", SHARE, GPU_SHARE(of->gpu_range.low))                                   \
        F("gpu_share_high", SHARE, GPU_SHARE(of->gpu_range.high))                                 \
        F("wait_share", SHARE, of->wait_share)                                                    \
        F("wait_share_low", SHARE, WAIT_SHARE(of->wait_range.low))                                \
        F("wait_share_high", SHARE, WAIT_SHARE(of->wait_range.high))                              \
        F("creation", JSON, cli_entity_json(&creation, NULL, &of->creation))                      \
        F("steps", JSON, cli_entity_json(&report_step_times, of, &of->steps))                     \
        F("comms", JSON, CLI_ENTITIES(report_comm, of, of->job->comms, of->job->n_comms))         \
        F("rows", JSON, CLI_ENTITIES(report_row, of, of->rows.row, of->rows.n))                   \
        F("tokens", JSON, report_json_tokens(of))                                                 \
        F("other_calls", JSON, CLI_ENTITIES(report_other, of, of->others.row, of->others.n))      \
        F("sites", JSON, CLI_ENTITIES(site, NULL, of->job->sites, of->job->n_sites))              \
        F("processes", JSON,                                                                      \
          CLI_ENTITIES(process, NULL, of->job->processes, of->job->n_processes))                  \
        F("fabric", JSON,                                                                         \
          !of->fabric ? json_array()                                                              \
                      : CLI_ENTITIES(report_nic, of, of->fabric->links, of->fabric->n_links))     \
        F("fabric_calls", JSON, report_json_fabric_calls(of))                                     \
        F("problems", JSON,                                                                       \
          CLI_EACH(uint32_t k = 0; k < of->n_problems; k++, cli_json_text(of->problems[k].text))) \
        F("problem_list", JSON, CLI_ENTITIES(problem, NULL, of->problems, of->n_problems))        \
        F("waits", JSON, CLI_ENTITIES(report_wait, of, of->waits, of->n_waits))                   \
        F("causes", JSON, CLI_ENTITIES(report_cause, of, of->causes, of->n_causes))               \
        F("also_seen", JSON, CLI_ENTITIES(report_seen, of, of->causes, of->n_causes))             \
        F("waits_unknown", JSON, CLI_ENTITIES(report_unknown, NULL, of->unknown, of->n_unknown))  \
        F("next", JSON, CLI_ENTITIES(report_next, of, of->next, of->n_next))                      \
        F("allocation", JSON,                                                                     \
          cli_entity_json(&report_allocated, NULL,                                                \
                          *of->allocation.layout ? &of->allocation : NULL))                       \
        F("places", JSON, CLI_ENTITIES(report_place, NULL, of->places, of->n_places))             \
        F("rules", JSON, CLI_ENTITIES(report_rule, NULL, of->rules, of->n_rules))                 \
        F("trials", JSON, report_json_trials(of))                                                 \
        F("records", COUNT, of->job->n_records)                                                   \
        F("dropped", COUNT, of->job->dropped)                                                     \
        F("capo_cost_ns", REAL, of->job->cost_ns > 0 ? of->job->cost_ns : NAN)
CLI_ENTITY(report, struct capo_page, void, PAGE_FIELDS);

void report_json(const struct capo_page *r, FILE *out)
{
        cli_json_print(out, cli_entity_json(&report, NULL, r),
                       JSON_INDENT(1) | JSON_REAL_PRECISION(9));
}
