/* SPDX-License-Identifier: Apache-2.0 */
/* What to do next: each step is justified by a number on the page, most important first. */

#include "capo/collectives.h"
#include "core/base/among.h"
#include "core/base/calls.h"
#include "core/base/xalloc.h"
#include "analysis/log/rules_read.h"
#include "analysis/job/figures.h"
#include "analysis/report/page_kinds.h"
#include "analysis/report/job_judge.h"
#include "analysis/report/waits_causes.h"
#include "core/log/info.h"

#define CAUSE_SHARE 0.05 /* of the job */
#define SWEEP_BULK \
        (1 << 20) /* bytes per rank: LL, which sends a flag with each word, is no choice */
#define SWEEP_SHARE      0.2  /* of the calls' GPU time ... */
#define SWEEP_GPU        0.05 /* ... if that is this share of the job */
#define SLOWEST_NS       1e6  /* per rank ... */
#define SLOWEST_PER_BYTE 100  /* ns: 10 MB/s */

#define CAPO_NEXT(id, words) static const char words_##id[] = words;
#include "analysis/report/next_kinds.def"

/* Append a step; the caller sets what it refers to. */
static __attribute__((format(printf, 3, 4))) struct capo_next *add_next(struct capo_page *r,
                                                                        enum capo_next_kind kind,
                                                                        const char *words, ...)
{
        va_list args;
        char *text;

        va_start(args, words);
        text = xvprintf(words, args);
        va_end(args);
        xarray_room(&r->next, r->n_next, sizeof *r->next);
        r->next[r->n_next] = (struct capo_next){.kind = kind,
                                                .text = text,
                                                .comm = CAPO_NO_COMM,
                                                .rank = -1,
                                                .job_rank = -1,
                                                .share = -1};
        return &r->next[r->n_next++];
}
#define ADD(r, id, ...) add_next(r, CAPO_NEXT_##id, words_##id, ##__VA_ARGS__)

/* Where the cause is known, what helps against that. */
static const char *advise_late(const struct capo_page *r, const struct capo_page_wait *w)
{
        const struct capo_causes *c = capo_late_causes(r, r->job->comms[w->comm].name);

        return c && c->comm == w->comm && c->member == w->last && c->found->why != CAPO_WHY_program
                       ? capo_whys[c->found->why].advice
                       : "look at what it does before the call (input, host work, its GPU)";
}

/* Only the waiting for this rank counts as caused by it. */
static void suggest_late_rank(struct capo_page *r)
{
        for (uint32_t i = 0; i < r->n_waits; i++) {
                const struct capo_page_wait *w = &r->waits[i];
                const struct capo_job_comm *c = &r->job->comms[w->comm];
                const struct capo_skew *k = c->skew;
                struct capo_next *next;
                char few[96], until[128] = "", who[300];

                if (!capo_wait_is_sure(r->job, w))
                        continue;
                if (k->worst_over && k->worst_to_seq)
                        snprintf(until, sizeof until, ", most of it up to call #%s",
                                 TEXT_COUNT(k->worst_to_seq));
                else if (k->worst_over)
                        snprintf(until, sizeof until, ", most of it in %s", capo_few_text(k, few));
                next = ADD(r, late_rank, capo_job_member_text(c, &c->members[w->last], who),
                           k->worst_over ? "held" : "holds", c->name, TEXT_PERCENT(w->caused_share),
                           until, advise_late(r, w));
                next->comm = w->comm;
                next->rank = c->members[w->last].rank;
                next->job_rank = c->members[w->last].job_rank;
                next->share = w->caused_share;
        }
}

/* What the machine said of the slow calls of all ranks; NULL: nothing that explains them. */
static const struct capo_causes *slow_calls(const struct capo_page *r)
{
        return FIRST_OF(c, r->causes, r->n_causes,
                        c->comm == CAPO_NO_COMM && !c->since_ns && c->lost_ns > 0 && c->n &&
                                c->found[0].is_cause && c->found[0].explained_ns > 0);
}

static void suggest_slow_calls(struct capo_page *r)
{
        const struct capo_causes *c = slow_calls(r);

        if (!c || c->found[0].explained_ns < CAUSE_SHARE * (double)capo_job_duration_ns(r->job))
                return;
        ADD(r, slow_calls, r->job->processes[c->found[0].process].rank, c->found[0].text,
            TEXT_PERCENT(c->found[0].explained_ns / c->lost_ns), capo_whys[c->found[0].why].advice);
}

/* May another choice of NCCL's shorten the calls of @row? Not where they mostly wait for a late rank,
 * or take longer than any algorithm on a slow network, as without a CPU, or where the job is stuck. */
static bool is_own_time(const struct capo_page *r, const struct capo_page_row *row)
{
        struct capo_sampled s = capo_job_row_sampled(&row->row);
        double n = row->row.comm < r->job->n_comms ? r->job->comms[row->row.comm].n_ranks : 1,
               slowest_ns = n * SLOWEST_NS + (double)row->bytes_max * SLOWEST_PER_BYTE, waits;

        if (ANY_OF(p, r->problems, r->n_problems, p->kind == CAPO_PROBLEM_HANGS))
                return false;
        /* a late rank is late in each call alike: the row's part of the waiting; where it is late in
         * this row alone, its own calls, which wait for nobody, are shorter than the others' */
        waits = r->collectives ? r->wait_share * (double)row->row.count / (double)r->collectives
                               : 0;
        return 2 * waits <= row->share * r->gpu_share &&
               2 * capo_sampled_quantile(&s, 0.5 / n) >= capo_sampled_mean(&s) &&
               capo_sampled_quantile(&s, 0.5) <= slowest_ns;
}

/* The most expensive row, if NCCL chose for it and it has alternatives; NULL: none. */
static const struct capo_page_row *worth_a_sweep(const struct capo_page *r)
{
        const char *rules = r->job->n_processes ? r->job->processes[0].rules : NULL;
        const struct capo_page_row *most = NULL;
        const struct capo_causes *slow = slow_calls(r);
        char text[8];

        for (uint32_t i = 0; i < r->judged.n; i++) {
                const struct capo_page_row *row = &r->judged.row[i];

                if (capo_coll_of_call(row->row.call) >= 0 && (!most || row->share > most->share))
                        most = row;
        }
        if (!most || most->share < SWEEP_SHARE || r->gpu_share < SWEEP_GPU ||
            !most->has_bandwidth || /* most of its time may be that cause's */
            (slow && 2 * slow->found[0].explained_ns >
                             most->share * r->gpu_share * (double)capo_job_duration_ns(r->job)) ||
            !is_own_time(r, most) || capo_rules_value(rules, CAPO_RULES_SWEEP, text, sizeof text) ||
            capo_rules_value(rules, CAPO_RULES_NAME, text, sizeof text))
                return NULL;
        return most;
}

/* "AllReduce" as option value: all_reduce. */
static char *to_snake_case(const char *name, char *text)
{
        char *to = text;

        for (; *name; name++) {
                if (isupper((unsigned char)*name) && to != text)
                        *to++ = '_';
                *to++ = (char)tolower((unsigned char)*name);
        }
        *to = 0;
        return text;
}

/* A power of two as option value: 16M. */
static char *short_size(uint64_t bytes, char *text, size_t room)
{
        size_t n;

        capo_size_print(bytes, text, room);
        n = strcspn(text, " ");
        text[n] = text[n + 1] == 'B' ? 0 : text[n + 1];
        text[n + (text[n] != 0)] = 0;
        return text;
}

static void suggest_sweep(struct capo_page *r)
{
        const struct capo_page_row *row = worth_a_sweep(r);
        char call[64], size[64], coll[64], low[32], high[32];
        struct capo_next *next;
        _cleanup_free_ char *command = NULL;
        uint64_t from, upto;
        bool bulk;

        if (!row)
                return;
        /* NCCL's model knows this allocation: its experiment, or there is none */
        if (r->allocation.asked && row->row.comm == 0 &&
            capo_coll_of_call(row->row.call) == CAPO_COLL_ALLREDUCE) {
                if (!r->allocation.experiment)
                        return;
                command = xstrdup(r->allocation.experiment);
        } else {
                for (from = upto = 1ull << (63 - __builtin_clzll(row->row.bytes));
                     upto < row->bytes_max && upto < 1ull << 62;)
                        upto *= 2;
                bulk = row->row.comm < r->job->n_comms &&
                       row->row.bytes >=
                               SWEEP_BULK * (uint64_t)r->job->comms[row->row.comm].n_ranks;
                command = xprintf("capo sweep --coll %s%s --sizes %s..%s -- COMMAND",
                                  to_snake_case(capo_call_name(row->row.call), coll),
                                  bulk ? " --protos ll128,simple" : "",
                                  short_size(from, low, sizeof low),
                                  short_size(upto, high, sizeof high));
        }
        next = ADD(r, sweep, capo_page_call(&row->row, call, sizeof call),
                   capo_page_size(row, size, sizeof size), TEXT_PERCENT(row->share), command);
        next->comm = row->row.comm;
        next->call = row->row.call;
        next->bytes_least = row->row.bytes;
        next->bytes_max = row->bytes_max;
        next->share = row->share;
}

static void suggest_no_gpu_times(struct capo_page *r)
{
        if (!r->gpu && r->collectives &&
            !strstr(capo_page_info(r, CAPO_INFO_NCCL_PATH) ?: "", "librccl")) /* never timed */
                ADD(r, no_gpu_times);
}

static void suggest_events_short(struct capo_page *r)
{
        if (r->job->gpu_dropped > r->job->calls / 100)
                ADD(r, events_short, TEXT_COUNT(r->job->gpu_dropped));
}

static void suggest_no_calls_kept(struct capo_page *r)
{
        const char *trace = capo_page_info(r, CAPO_INFO_TRACE);

        if (!r->job->n_records && r->collectives && r->job->n_ranks > 1 &&
            !(trace && !strcmp(trace, "all")))
                ADD(r, no_calls_kept);
}

void capo_judge_next(struct capo_page *r)
{
        static void (*const finders[])(struct capo_page *) = {
#define CAPO_NEXT(id, words) suggest_##id,
#include "analysis/report/next_kinds.def"
        };

        for (size_t i = 0; i < N_ELEMENTS(finders); i++)
                finders[i](r);
}
