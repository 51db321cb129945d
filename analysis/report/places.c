/* SPDX-License-Identifier: Apache-2.0 */
/* Where the calls were made, by their time; and which rules decided them. */
#include "core/base/calls.h"
#include "core/base/order.h"
#include "analysis/job/figures.h"
#include "core/base/xalloc.h"
#include "analysis/log/rules_read.h"
#include "analysis/job/asked.h"
#include "analysis/report/job_judge.h"

/* Short name of a frame: the function without offset and file; without a function, the file and the
 * offset in it; a Python frame as it is. */
static size_t frame_name(const char *frame, size_t length)
{
        size_t word = strcspn(frame, " \n"), plus = strcspn(frame, "+ \n");

        if (memmem(frame, length, ".py:", 4))
                return length;
        return frame[word] == ' ' ? plus : word;
}

static bool begins_with_any(const char *frame, const char *const *begins)
{
        while (*begins && strncmp(frame, *begins, strlen(*begins)))
                begins++;
        return *begins;
}

/* The C library's start of main() and of threads says nothing about the job. */
static const char *const start_up[] = {"libc.so", "__libc_start", "_start+", "libpthread",
                                       "clone",   "start_thread", NULL};

/* Frames between the functions that people know: dispatchers, nested wrappers, the way from Python
 * into C. */
static const char *const plumbing[] = {"c10::",
                                       "at::",
                                       "std::",
                                       "torch::autograd::",
                                       "torch::jit::",
                                       "c10d::ops::",
                                       "pybind11::",
                                       "cfunction_",
                                       "_Py",
                                       "Py",
                                       "method_",
                                       "torch/distributed/c10d_logger.py:",
                                       NULL};

char *capo_page_site_line(const char *site, bool all, char *text, size_t room)
{
        unsigned n = all ? 32 : 4;
        size_t n_asked = 0;
        const char *asked = capo_asked_text(site, strlen(site), &n_asked);
        const char *line = asked ? asked + n_asked + (asked[n_asked] == '\n') : site;

        *text = 0;
        for (unsigned i = 0; i < n && *line;) {
                size_t length = strcspn(line, "\n");

                if (!begins_with_any(line, start_up) && (all || !begins_with_any(line, plumbing))) {
                        capo_append(text, room, "%s%.*s", i++ ? " <- " : "",
                                    (int)frame_name(line, length), line);
                }
                line += length + (line[length] == '\n');
        }
        if (asked)
                capo_append(text, room, " (asks for %.*s)", (int)n_asked, asked);
        return text;
}

CAPO_ORDERED(by_line, struct capo_page_place, strcmp(a->line, b->line));

CAPO_ORDERED(by_time, struct capo_page_place, CAPO_ORDER(b->time, a->time),
             CAPO_ORDER(b->calls, a->calls), strcmp(a->line, b->line));

/* Untimed calls last as long as the mean of the drawn ones (sampled.h); if none was drawn, of all
 * timed ones. */
static double site_time(const struct capo_page *r, const struct capo_job_site *site)
{
        struct capo_log_site_chosen once = site->chosen;

        if (!r->places_by_gpu)
                return (double)site->host_ns;
        if (!site->gpu_count)
                return 0;
        if (site->gpu_count <= once.gpu_count)
                once = (struct capo_log_site_chosen){0};
        return (double)once.gpu_ns + (double)(site->gpu_ns - once.gpu_ns) /
                                             (double)(site->gpu_count - once.gpu_count) *
                                             (double)(site->count - once.gpu_count);
}

static void judge_sites(struct capo_page *r)
{
        const struct capo_job *job = r->job;
        uint32_t n;
        double sum = 0;

        r->places = xcalloc(job->n_sites + 1, sizeof *r->places);
        for (uint32_t i = 0; i < job->n_sites; i++)
                r->places_by_gpu |= job->sites[i].gpu_count > 0;
        for (uint32_t i = 0; i < job->n_sites; i++) {
                const struct capo_job_site *site = &job->sites[i];
                struct capo_page_place *place = &r->places[r->n_places];
                char line[2048];

                if (!site->count) /* no data was moved from there */
                        continue;
                *place = (struct capo_page_place){
                        .line = xstrdup(capo_page_site_line(site->text, r->all, line, sizeof line)),
                        .time = site_time(r, site),
                        .share = site->gpu_count || !r->places_by_gpu ? 0 : -1,
                        .calls = site->count,
                };
                r->n_places++;
                sum += place->time;
        }
        n = r->n_places;
        qsort(r->places, r->n_places, sizeof *r->places, by_line);
        r->n_places = 0;
        for (uint32_t i = 0; i < n; i++) {
                struct capo_page_place *last = r->n_places ? &r->places[r->n_places - 1] : NULL;

                if (last && !strcmp(last->line, r->places[i].line)) {
                        last->time += r->places[i].time;
                        last->calls += r->places[i].calls;
                        last->share = last->share < 0 ? r->places[i].share : last->share;
                        free(r->places[i].line);
                } else {
                        r->places[r->n_places++] = r->places[i];
                }
        }
        qsort(r->places, r->n_places, sizeof *r->places, by_time);
        for (uint32_t i = 0; i < r->n_places; i++) {
                if (r->places[i].share >= 0)
                        r->places[i].share = sum > 0 ? r->places[i].time / sum : 0;
        }
}

static char *rule_text(const char *rules, unsigned rule, char *out, size_t room)
{
        struct capo_rules_row r;
        char channels[16] = "NCCL's", chunk[40] = "";

        *out = 0;
        if (!capo_rules_find(rules, rule, &r))
                return out;
        if (r.channels)
                snprintf(channels, sizeof channels, "%u", r.channels);
        if (r.chunk)
                snprintf(chunk, sizeof chunk, ", chunk %s", TEXT_SIZE(r.chunk));
        if (r.candidate)
                snprintf(out, room, "sweep candidate: %s %s, channels %u%s", r.algo, r.proto,
                         r.channels, chunk);
        else
                snprintf(out, room, "line %u  %s: %s %s to %s  %s %s, channels %s%s%s%s", r.line,
                         r.when, r.coll, TEXT_SIZE(r.from),
                         r.upto == UINT64_MAX ? "max" : TEXT_SIZE(r.upto), r.algo, r.proto,
                         channels, chunk, *r.turned ? "; calls turned: " : "", r.turned);
        return out;
}

static void judge_rules(struct capo_page *r)
{
        const struct capo_job *job = r->job;
        _cleanup_free_ uint64_t *calls = NULL;
        unsigned last = 0;

        for (uint32_t i = 0; i < job->n_rows; i++)
                last = job->rows[i].rule > last ? job->rows[i].rule : last;
        calls = xcalloc(last + 1, sizeof *calls);
        for (uint32_t i = 0; i < job->n_rows; i++) {
                calls[job->rows[i].rule] += job->rows[i].count;
                r->ruled_calls += capo_call_kind(job->rows[i].call) != CAPO_KIND_OTHER
                                          ? job->rows[i].count
                                          : 0;
        }
        for (unsigned rule = 1; rule <= last; rule++) {
                struct capo_page_rule *row;

                if (!calls[rule])
                        continue;
                row = xadd(r->rules, r->n_rules);
                row->rule = rule;
                row->calls = calls[rule];
                rule_text(job->processes[0].rules, rule, row->text, sizeof row->text);
        }
}

void capo_judge_places(struct capo_page *r)
{
        judge_sites(r);
        judge_rules(r);
}
