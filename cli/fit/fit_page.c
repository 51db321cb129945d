/* SPDX-License-Identifier: Apache-2.0 */
/* The page of capo fit: prints the decisions of profiles/fit. */
#include <time.h>

#include "cli/base/cli_screen.h"
#include "cli/base/cli_table.h"
#include "cli/fit/fit_page.h"
#include "core/base/calls.h"
#include "core/base/nccl_release.h"
#include "core/base/xalloc.h"
#include "profiles/fit/fit_model.h"

static const char *format_percent(double fraction, char text[16])
{
        snprintf(text, 16, fabs(fraction) < 0.0995 ? "%.1f %%" : "%.0f %%", 100 * fraction);
        return text;
}

#define WIDE 10 /* an interval wider than this many times the value says nothing */

const char *fit_page_range(uint64_t first, uint64_t last, char text[40])
{
        char from[16], to[16];

        snprintf(text, 40, first == last ? "%s" : "%s - %s",
                 capo_size_print(first, from, sizeof from), capo_size_print(last, to, sizeof to));
        return text;
}

/* "4.1 % +- 1.0 %": mean over all sizes of a row. The interval is the mean of theirs, because their errors
 * may have one cause. */
static const char *print_gain(const struct capo_fit_series *s, int first, int last, char text[48])
{
        double gain = 0, half = 0;
        char a[16], b[16];
        int n = 0;

        for (int p = first; p <= last; p++) {
                const struct capo_fit_point *q = &s->points[p];

                if (q->shown == 0 || isnan(q->gain))
                        continue;
                gain += q->gain;
                half += (q->gain_hi - q->gain_lo) / 2;
                n++;
        }
        snprintf(text, 48, n ? "%s +- %s" : "-", format_percent(gain / n, a),
                 format_percent(fmax(half / n, 0.001), b));
        return text;
}

/* "894\t887-902": a time and its interval. */
static void format_time(const struct capo_fit_cell *cell, bool between, char *text, size_t room)
{
        if (isnan(cell->us))
                snprintf(text, room, between ? "between two sizes\t" : "-\t");
        else if (!(cell->hi < WIDE * cell->us))
                snprintf(text, room, cell->us < 99.95 ? "%.1f\tany" : "%.0f\tany", cell->us);
        else
                snprintf(text, room, cell->us < 99.95 ? "%.1f\t%.1f-%.1f" : "%.0f\t%.0f-%.0f",
                         cell->us, cell->lo, cell->hi);
}

static void add_range_row(struct cli_section *t, const struct capo_fit_series *s, int first,
                          int last)
{
        const struct capo_fit_point *p = &s->points[last];
        int c = p->shown;
        const struct capo_fit_cell *cell = capo_fit_cell_of(s, last, c),
                                   *def = capo_fit_cell_of(s, last, 0);
        char range[40], name[56], us[48], own[48] = "", chose[80] = "-\t", gain[48];

        if (p->default_ran)
                snprintf(own, sizeof own, "%s %s", capo_ran_algo(p->default_ran),
                         capo_ran_proto(p->default_ran));
        format_time(cell, p->chosen > 0, us, sizeof us);
        if (!isnan(def->us) && (c == 0 || cell->is_default))
                strcpy(chose, "the same\t");
        else if (!isnan(def->us))
                snprintf(chose, sizeof chose, def->us < 99.95 ? "%s\t%.1f" : "%s\t%.0f",
                         *own ? own : "?", def->us);
        cli_section_row(
                t, "%s\t%s\t%s\t%s\t%s\t%s",
                fit_page_range(s->points[first].bytes, p->bytes, range),
                c == 0 && *own ? own
                               : capo_fit_candidate_text(&s->candidates[c], name, sizeof name),
                us, chose, print_gain(s, first, last, gain), capo_fit_verdict_text(p->verdict));
}

static void add_regret(struct cli_section *t, const struct capo_fit_series *s)
{
        const struct capo_fit_regret *r = &s->regret;
        char a[16], b[16], text[400];

        if (s->n_candidates == 1) /* there was no alternative */
                return;
        if (r->n == 0) {
                cli_section_line(
                        t, "losses against the best measured: unknown, nothing could be left out");
                return;
        }
        snprintf(text, sizeof text,
                 "losses against the best measured (leave one %s out, %u of %u sizes scored): mean "
                 "%s, worst %s",
                 r->by_run ? "run" : "size", r->n_scored, r->n_scored + r->n_unscored,
                 format_percent(r->mean, a), format_percent(r->worst, b));
        if (!isnan(r->mean_default))
                capo_append(text, sizeof text,
                            "; all left to NCCL: mean %s; %s NCCL's own choice: %s",
                            format_percent(r->mean_default, a),
                            r->worst_default < 0 ? "least gain over" : "worst against",
                            format_percent(fabs(r->worst_default), b));
        if (r->n_worse)
                capo_append(text, sizeof text, "; slower than that beyond noise: %u", r->n_worse);
        cli_section_line(t, "%s", text);
}

/* Notes about series with rules, each printed once. */
static void note_unchecked(struct cli_page *page, const struct capo_fit *fit)
{
        bool apart = false, unknown = false, unchecked = false;

        for (int i = 0; i < fit->n_series; i++) {
                const struct capo_fit_series *s = &fit->series[i];

                if (s->n_rows < 2)
                        continue;
                unchecked |= !(s->links.gpu_gbs > 0) && !(s->links.node_gbs > 0);
                apart |= s->turns == CAPO_FIT_APART;
                unknown |= s->turns == CAPO_FIT_TURNS_UNKNOWN && s->has_default;
        }
        if (apart)
                cli_page_problem(
                        page,
                        "NCCL's own choice and the candidates were not measured alternately: a "
                        "slow hour would look like a gain; capo sweep alternates");
        if (unknown)
                cli_section_note(page, NULL,
                                 "whether NCCL's own choice and the candidates were measured "
                                 "alternately is not recorded; capo sweep alternates");
        if (unchecked)
                cli_section_note(page, NULL,
                                 "not checked against what links can carry: --platform NAME or "
                                 "--topo FILE names the machine");
}

/* The command to run: a sweep alternates NCCL's own choice and the candidate call by call in one
 * run. */
static void add_sweep_command(struct cli_section *t, const struct capo_fit_series *s,
                              const struct capo_fit_next *n)
{
        const struct capo_fit_candidate *c = &s->candidates[n->candidate];
        char a[24], b[24], text[600] = "";

        if (n->times > 1) {
                capo_append(text, sizeof text, "for i in");
                for (int i = 1; i <= n->times; i++)
                        capo_append(text, sizeof text, " %d", i);
                capo_append(text, sizeof text, "; do ");
        }
        capo_append(text, sizeof text, "capo sweep --coll %s --sizes %s..%s",
                    capo_coll_word(capo_coll_of_call(s->call)),
                    capo_fit_size_word(s->points[n->first].bytes, a),
                    capo_fit_size_word(s->points[n->last].bytes, b));
        if (n->candidate && c->algo)
                capo_append(text, sizeof text, " --algos %s", capo_algo_name(c->algo));
        if (n->candidate && c->proto)
                capo_append(text, sizeof text, " --protos %s", capo_proto_name(c->proto));
        if (n->candidate && c->channels)
                capo_append(text, sizeof text, " --channels %u", c->channels);
        if (n->candidate && c->chunk)
                capo_append(text, sizeof text, " --chunks %s", capo_fit_size_word(c->chunk, a));
        cli_section_line(t, "   %s%s", text,
                         n->times > 1 ? " --dir capo-logs/more-$i -- COMMAND; done"
                                      : " -- COMMAND");
}

static void add_next_measurement(struct cli_section *t, const struct capo_fit_series *s, int rank,
                                 const struct capo_fit_next *n)
{
        static const char *const runs[] = {
                [CAPO_FIT_NEXT_DEFAULT] = "NCCL's own choice at the same sizes (a run without "
                                          "NCCL_ALGO and NCCL_PROTO)",
                [CAPO_FIT_NEXT_OTHERS] =
                        "other choices at the same sizes: only NCCL's own was measured"};
        const struct capo_fit_candidate *c = &s->candidates[n->candidate];
        const char *when = rank ? "then" : "measure next";
        char range[40], name[56];

        if (n->what == CAPO_FIT_NEXT_DEFAULT || n->what == CAPO_FIT_NEXT_OTHERS)
                cli_section_line(t, "%s: %s", when, runs[n->what]);
        else
                cli_section_line(
                        t,
                        "%s: %s, %s of %s%s%s (expected gain if the better one is taken then: "
                        "%.1f %%)",
                        when,
                        fit_page_range(s->points[n->first].bytes, s->points[n->last].bytes, range),
                        capo_text_plural((unsigned)n->times, "more run", NULL),
                        n->what == CAPO_FIT_NEXT_DEFAULT_AGAIN ? "NCCL's own choice and " : "",
                        capo_fit_candidate_text(c, name, sizeof name),
                        capo_fit_writable(c) ? ""
                                             : " with NCCL_DEBUG_SUBSYS=TUNING, to say what ran",
                        100 * n->gain);
        add_sweep_command(t, s, n);
}

/* What is compared: the runs of each, and where. */
static void add_compared(struct cli_section *t, const struct capo_fit_series *s)
{
        char runs[600], name[56];

        snprintf(runs, sizeof runs, "NCCL's own choice in %s",
                 capo_text_plural((unsigned)s->candidates[0].n_runs, "run", NULL));
        for (int c = 1; c < s->n_candidates && c <= 8; c++)
                capo_append(runs, sizeof runs, ", %s in %d",
                            capo_fit_candidate_text(&s->candidates[c], name, sizeof name),
                            s->candidates[c].n_runs);
        if (s->n_candidates > 9)
                capo_append(runs, sizeof runs, ", %d more", s->n_candidates - 9);
        cli_section_line(t, "compared: %s%s%s%s%s%s%s", runs, *s->like.hosts ? "; hosts " : "",
                         s->like.hosts, *s->like.driver ? "; driver " : "", s->like.driver,
                         *s->like.settings ? "; settings " : "", s->like.settings);
}

static void add_series(struct cli_page *page, const struct capo_fit_series *s, bool all)
{
        static const struct cli_column columns[] = {
                {"size", "l"},         {"best", "l"}, {"us", "r"},   {"95 %", "l/a"},
                {"NCCL chose", "l/c"}, {"us", "r/b"}, {"gain", "r"}, {"written", "l~"}};
        struct cli_section *t =
                cli_page_section(page, capo_call_name(s->call), columns, N_ELEMENTS(columns));
        char class[200];
        double step = 0;
        bool mean = false;

        cli_section_of(t, "%s", capo_fit_class_text(&s->like, class, sizeof class));
        for (int p = 0, k; p < s->n_points; p = k) {
                for (k = p + 1;
                     !all && k < s->n_points && s->points[k].shown == s->points[p].shown &&
                     s->points[k].chosen == s->points[p].chosen &&
                     s->points[k].default_ran == s->points[p].default_ran &&
                     s->points[k].verdict == s->points[p].verdict;
                     k++)
                        ;
                add_range_row(t, s, p, k - 1);
                mean |= k - 1 > p && s->points[p].shown > 0;
        }
        if (mean)
                cli_section_line(t, "us: at the largest size of a row; gain: mean over its sizes");
        for (int i = 0; i < s->n_rows; i++) {
                const struct capo_fit_row *r = &s->rows[i];

                for (int p = r->first; r->chosen > 0 && p < r->last; p++)
                        step = fmax(step,
                                    (double)s->points[p + 1].bytes / (double)s->points[p].bytes);
        }
        if (step > 2)
                cli_section_line(t,
                                 "a rule holds between its sizes, too, which are a factor of %.3g "
                                 "apart: nobody measured there",
                                 step);
        cli_section_line(t, "times: %s; %s %.1f %%", capo_make_name(s->make),
                         s->one_run ? "no run repeated, noise taken as" : "noise between runs",
                         100 * s->noise);
        if (s->n_candidates > 1)
                add_compared(t, s);
        add_regret(t, s);
        for (int i = 0; i < CAPO_FIT_NEXTS && s->next[i].what != CAPO_FIT_NEXT_NOTHING; i++)
                add_next_measurement(t, s, i, &s->next[i]);
}

/* "2026-11-20 to 2026-11-22": dates of the runs used, in UTC if their files have them; "": none has. */
static const char *print_days(const struct capo_samples *set, char text[32])
{
        time_t at[2] = {INT64_MAX, 0}; /* the first, the last */
        char day[2][12] = {"", ""};
        struct tm tm;

        for (size_t i = 0; i < set->n_runs; i++) {
                int64_t t = set->runs[i].left_out ? 0 : set->runs[i].began.at;

                at[0] = t && t < at[0] ? t : at[0];
                at[1] = t > at[1] ? t : at[1];
        }
        for (int i = 0; i < 2 && at[1]; i++) {
                if (gmtime_r(&at[i], &tm))
                        strftime(day[i], sizeof day[i], "%F", &tm);
        }
        snprintf(text, 32, strcmp(day[0], day[1]) ? "%s to %s" : "%s", day[0], day[1]);
        return text;
}

/* What was read, and what was left out. */
static void add_heading(struct cli_page *page, const struct capo_samples *set,
                        const struct capo_fit *fit)
{
        char text[400] = "", days[32];

        cli_page_title(page, "capo fit   %s   %llu samples%s%s",
                       capo_text_plural(set->n_files, "input", NULL),
                       (unsigned long long)fit->n_samples,
                       *print_days(set, days) ? "   measured " : "", days);
        if (fit->n_warmup)
                capo_append(text, sizeof text, ", %.1f %% warm-up dropped",
                            100.0 * (double)fit->n_warmup / (double)fit->n_samples);
        if (fit->n_stalls)
                capo_append(text, sizeof text, ", %s of up to %.1f ms set aside",
                            capo_text_plural(fit->n_stalls, "stall", NULL),
                            fit->worst_stall_us / 1e3);
        if (set->n_rejected)
                capo_append(text, sizeof text, ", %s rejected",
                            capo_text_plural(set->n_rejected, "run", NULL));
        if (set->n_empty)
                capo_append(text, sizeof text, ", %zu rows of size 0", set->n_empty);
        if (fit->n_other_clock)
                capo_append(text, sizeof text, ", %llu by another clock left out",
                            (unsigned long long)fit->n_other_clock);
        if (fit->n_beside)
                capo_append(text, sizeof text,
                            ", %llu by symmetric kernels or copy engines, which no rule controls",
                            (unsigned long long)fit->n_beside);
        if (*text)
                cli_page_under(page, "%s", text + 2);
}

struct cli_page *fit_page(const struct capo_samples *set, const struct capo_fit *fit, bool all)
{
        struct cli_page *page = cli_page_new();

        add_heading(page, set, fit);
        for (int i = 0; i < fit->n_series; i++)
                add_series(page, &fit->series[i], all);
        note_unchecked(page, fit);
        return page;
}

struct cli_page *fit_page_uncertain(const struct capo_samples *set)
{
        static const struct cli_column columns[] = {{NULL, "l~"}};
        const struct capo_sample *lo = set->v, *hi = set->v;
        struct cli_page *page = cli_page_new();
        struct cli_section *t;
        char a[24], b[24];

        cli_page_title(page, "capo fit   %s   nothing certain",
                       capo_text_plural(set->n_files, "input", NULL));
        for (size_t i = 0; i < set->n; i++) {
                const struct capo_sample *s = &set->v[i];

                if (capo_coll_of_call(lo->call) < 0)
                        lo = hi = s;
                lo = s->call == lo->call && s->bytes < lo->bytes ? s : lo;
                hi = s->call == lo->call && s->bytes > hi->bytes ? s : hi;
        }
        t = cli_page_section(page, "NEXT", columns, 1);
        cli_section_row(t, "a run that says what was forced in it, and one of NCCL's own choice");
        if (set->n && capo_coll_of_call(lo->call) >= 0)
                cli_section_row(t, "capo sweep --coll %s --sizes %s..%s -- COMMAND",
                                capo_coll_word(capo_coll_of_call(lo->call)),
                                capo_fit_size_word(lo->bytes, a), capo_fit_size_word(hi->bytes, b));
        return page;
}

/* capo fit --runs: how each run was classified, for a quick check. */

/* The labels of a run's samples. */
struct labels {
        uint64_t first; /* algo_proto << 40 | channels << 32 | chunk */
        bool any, several, own;
        size_t n;
};

void fit_runs(const struct capo_samples *set)
{
        _cleanup_(capo_table_freep) struct capo_table *t = capo_table_new("l44,.r8/a,l18,.l~");
        _cleanup_free_ struct labels *labels = xcalloc(set->n_runs + 1, sizeof *labels);

        for (size_t i = 0; i < set->n; i++) {
                struct labels *l = &labels[set->v[i].run];
                uint64_t label = (uint64_t)set->v[i].want << 40 |
                                 (uint64_t)set->v[i].want_channels << 32 | set->v[i].want_chunk;

                l->several |= l->any && label != l->first;
                l->own |= label == 0;
                l->first = label;
                l->any = true;
                l->n++;
        }
        capo_table_row(t, "run\tsamples\tlabel\twhy");
        for (size_t i = 0; i < set->n_runs; i++) {
                const struct capo_trial *run = &set->runs[i];
                const struct labels *l = &labels[i];
                char where[64], label[56];
                size_t n = strlen(run->source);

                snprintf(where, sizeof where, "%s%.36s:%u", n > 36 ? "..." : "",
                         run->source + (n > 36 ? n - 36 : 0), run->line);
                capo_fit_candidate_text(
                        &(struct capo_fit_candidate){.algo = (uint8_t)(l->first >> 44),
                                                     .proto = l->first >> 40 & 15,
                                                     .channels = (uint8_t)(l->first >> 32),
                                                     .chunk = (uint32_t)l->first},
                        label, sizeof label);
                capo_table_row(t, "%s\t%zu\t%s\t%s%s%s", where, l->n,
                               run->left_out ? "takes no part"
                               : !l->several ? label
                               : l->own      ? "NCCL's and others"
                                             : "candidates",
                               run->why[0] ? run->why : "the input says it",
                               run->settings[0] && !run->left_out ? "; with " : "",
                               run->left_out ? "" : run->settings);
        }
        capo_table_print(t, cli_screen_begin(stdout), 1);
        for (size_t i = 0; i < set->n_notes; i++)
                printf("%s\n", set->notes[i]);
}

/* The provenance of a profile: tool, date, inputs, certainty. */

static void note_of(struct capo_profile *profile, enum capo_section section, const char *key,
                    const char *text)
{
        capo_fit_memory(capo_profile_note(profile, section, key, text) == 0);
}

void fit_provenance_when(struct capo_profile *profile)
{
        const char *epoch =
                getenv("SOURCE_DATE_EPOCH"); /* reproducible files: reproducible-builds.org */
        time_t now = epoch ? (time_t)strtoll(epoch, NULL, 10) : time(NULL);
        char date[16] = "";
        struct tm tm;

        if (gmtime_r(&now, &tm))
                strftime(date, sizeof date, "%Y-%m-%d", &tm);
        note_of(profile, CAPO_PROVENANCE, "tool", "capo fit " CAPO_VERSION);
        note_of(profile, CAPO_PROVENANCE, "date", date);
}

/* The hosts of all series, each once. */
static void list_hosts(const struct capo_fit *fit, char *all, size_t room)
{
        char seen[1024] = ",", hosts[sizeof fit->series->like.hosts], probe[sizeof hosts + 2];

        for (int i = 0; i < fit->n_series; i++) {
                char *next = hosts, *host;

                strcpy(hosts, fit->series[i].like.hosts);
                while ((host = strsep(&next, ","))) {
                        snprintf(probe, sizeof probe, ",%s,", host);
                        if (!*host || strstr(seen, probe))
                                continue;
                        capo_append(seen, sizeof seen, "%s,", host);
                        capo_append(all, room, "%s%s", *all ? "," : "", host);
                }
        }
        if (strlen(all) == room - 1) /* it was cut */
                strcpy(all + room - 4, "...");
}

void fit_provenance(const struct capo_samples *set, const struct capo_fit *fit,
                    struct capo_profile *profile)
{
        const struct capo_trial *like =
                fit->n_series ? &fit->series[0].like : &(struct capo_trial){0};
        char nccl[16], days[32], sources[256] = "", hosts[512] = "";
        const struct {
                const char *key, *text;
        } notes[] = {
                {"nccl", like->nccl      ? capo_nccl_text(like->nccl, nccl, sizeof nccl)
                         : fit->n_series ? "not recorded"
                                         : ""},
                {"clock", fit->n_series ? capo_make_name(fit->series[0].make) : ""},
                {"source", sources},
                {"samples", NULL},
                {"measured", print_days(set, days)},
                {"hosts", hosts},
                {"driver", like->driver},
                {"settings", like->settings},
        };

        for (size_t i = 0; i < set->n_runs; i++) {
                const char *slash = strrchr(set->runs[i].source, '/'),
                           *name = slash && slash[1] ? slash + 1 : set->runs[i].source;

                if (!strstr(sources, name) && strlen(sources) + strlen(name) + 8 <= sizeof sources)
                        capo_append(sources, sizeof sources, "%s%s", *sources ? ", " : "", name);
        }
        list_hosts(fit, hosts, sizeof hosts);
        for (size_t i = 0; i < N_ELEMENTS(notes); i++) {
                if (!notes[i].text)
                        capo_fit_memory(capo_profile_note_number(profile, CAPO_PROVENANCE,
                                                                 notes[i].key,
                                                                 (double)fit->n_samples) == 0);
                else if (*notes[i].text || notes[i].text == sources)
                        note_of(profile, CAPO_PROVENANCE, notes[i].key, notes[i].text);
        }
        if (like->gpu[0])
                note_of(profile, CAPO_PLATFORM, "gpu", like->gpu);
}
