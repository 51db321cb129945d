/* SPDX-License-Identifier: Apache-2.0 */
/* The conclusions in the JSON report: the sentences of the text page, and the numbers in them. */
#include "cli/report/report_json.h"
#include "core/base/calls.h"

static json_t *comm_json(uint32_t comm)
{
        return comm == CAPO_NO_COMM ? json_null() : json_integer(comm);
}

static json_t *problem_json(const struct capo_problem *p)
{
        json_t *ranks = json_array();

        for (uint32_t i = 0; i < p->n_runs; i++) {
                for (uint32_t k = 0; k < p->runs[i].n; k++)
                        json_array_append_new(ranks,
                                              json_integer(p->runs[i].first + (json_int_t)k));
        }
        return json_pack(
                "{s:o,s:o,s:o,s:o,s:o,s:o,s:s,s:s,s:o,s:o,s:o,s:o}", "at_s",
                p->at_s >= 0 ? cli_json_number(p->at_s) : json_null(), "in_call",
                p->in_call >= 0 ? json_boolean(p->in_call) : json_null(), "rank",
                p->n_runs == 1 && p->runs->n == 1 ? json_integer(p->runs->first) : json_null(),
                "call", p->call ? json_string(capo_call_name(p->call)) : json_null(), "seq",
                p->seq ? json_integer(p->seq) : json_null(), "result",
                p->result ? json_string(p->result) : json_null(), "kind",
                capo_problem_name(p->kind), "severity",
                capo_severity_name(capo_problem_severity(p->kind)), "text", cli_json_text(p->text),
                "comm", comm_json(p->comm), "ranks", ranks, "log", cli_json_text(p->log));
}

static json_t *rank_or_null(int32_t rank)
{
        return rank >= 0 ? json_integer(rank) : json_null();
}

static json_t *wait_json(const struct capo_page *r, const struct capo_page_wait *w)
{
        const struct capo_job_comm *c = &r->job->comms[w->comm];
        const struct capo_skew *k = c->skew;
        const struct capo_skew_rank *rank = &k->ranks[w->last];
        bool named = w->stands_out;

        return json_pack(
                "{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:i,s:i,s:i,s:o,s:f,s:o,s:o,s:o,s:n,s:o,s:o}", "comm",
                comm_json(w->comm), "rank",
                named ? json_integer(c->members[w->last].rank) : json_null(), "job_rank",
                rank_or_null(named ? c->members[w->last].job_rank : -1), "host",
                named ? cli_json_text(r->job->processes[c->members[w->last].process].host)
                      : json_null(),
                "caused_s", named ? cli_json_number(rank->caused_ns / 1e9) : json_null(),
                "caused_pm_s",
                named ? cli_json_number(capo_interval_pm(w->caused, rank->caused_ns) / 1e9)
                      : json_null(),
                "caused_share",
                named && w->caused_share >= 0 ? cli_json_number(w->caused_share) : json_null(),
                "calls_compared", (int)k->n_calls, "calls_by_host", (int)k->n_host, "last",
                (int)rank->last, "behind_max_us",
                named ? cli_json_number(k->worst_max_ns / 1000) : json_null(), "last_share",
                w->last_share, "behind_p50_us",
                named ? cli_json_number(k->worst_p50_ns / 1000) : json_null(), "others_p50_us",
                named ? cli_json_number(k->others_p50_ns / 1000) : json_null(), "wait_share",
                k->wait_share >= 0 ? cli_json_number(k->wait_share) : json_null(), "most_of_it_for",
                "text", cli_json_text(w->text), "cause", cli_json_cause(&w->cause));
}

static json_t *next_json(const struct capo_next *n)
{
        bool sized = n->bytes_max > 0;

        return json_pack("{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "kind", capo_next_name(n->kind),
                         "text", cli_json_text(n->text), "comm", comm_json(n->comm), "rank",
                         rank_or_null(n->rank), "job_rank", rank_or_null(n->job_rank), "call",
                         n->call ? json_string(capo_call_name(n->call)) : json_null(),
                         "bytes_least",
                         sized ? json_integer((json_int_t)n->bytes_least) : json_null(),
                         "bytes_most", sized ? json_integer((json_int_t)n->bytes_max) : json_null(),
                         "share", n->share >= 0 ? cli_json_number(n->share) : json_null());
}

static json_t *allocation_json(const struct capo_page *r)
{
        const struct capo_page_allocation *a = &r->allocation;
        json_t *others = json_array();

        if (!*a->layout) {
                json_decref(others);
                return json_null();
        }
        for (unsigned i = 0; i < a->n_others; i++)
                json_array_append_new(others, json_pack("{s:s, s:f}", "layout", a->others[i].layout,
                                                        "best_busbw_gbs", a->others[i].best));
        return json_pack("{s:s, s:s, s:b, s:b, s:o, s:o}", "layout", a->layout, "class", a->class,
                         "uneven", a->uneven, "reduced", a->reduced, "best_busbw_gbs",
                         cli_json_known(a->best > 0 ? a->best : -1), "instead", others);
}

void report_json_judged(json_t *to, const struct capo_page *r)
{
        json_t *problems = json_array(), *waits = json_array(), *next = json_array(),
               *places = json_array(), *rules = json_array(), *unknown = json_array();

        for (uint32_t i = 0; i < r->n_problems; i++)
                json_array_append_new(problems, problem_json(&r->problems[i]));
        for (uint32_t i = 0; i < r->n_waits; i++)
                json_array_append_new(waits, wait_json(r, &r->waits[i]));
        for (uint32_t i = 0; i < r->n_unknown; i++)
                json_array_append_new(unknown,
                                      json_pack("{s:o,s:s}", "comm", comm_json(r->unknown[i].comm),
                                                "why", r->unknown[i].why));
        for (uint32_t i = 0; i < r->n_next; i++)
                json_array_append_new(next, next_json(&r->next[i]));
        for (uint32_t i = 0; i < r->n_places; i++)
                json_array_append_new(
                        places,
                        json_pack("{s:o,s:I,s:o}", "frames", cli_json_text(r->places[i].line),
                                  "calls", (json_int_t)r->places[i].calls, "share",
                                  r->places[i].share >= 0 ? cli_json_number(r->places[i].share)
                                                          : json_null()));
        for (uint32_t i = 0; i < r->n_rules; i++)
                json_array_append_new(rules,
                                      json_pack("{s:i,s:I,s:o}", "rule", (int)r->rules[i].rule,
                                                "calls", (json_int_t)r->rules[i].calls, "text",
                                                cli_json_text(r->rules[i].text)));
        json_object_set_new(to, "problem_list", problems);
        json_object_set_new(to, "waits", waits);
        json_object_set_new(to, "waits_unknown", unknown);
        json_object_set_new(to, "next", next);
        json_object_set_new(to, "allocation", allocation_json(r));
        json_object_set_new(to, "places", places);
        json_object_set_new(to, "rules", rules);
        json_object_set_new(to, "trials", report_json_trials(r));
}
