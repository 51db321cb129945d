/* SPDX-License-Identifier: Apache-2.0 */
/* The page of capo fit: what profiles/fit decided, printed. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/base/cli_screen.h"
#include "cli/base/cli_table.h"
#include "cli/fit/fit_page.h"
#include "cli/fit/fit_svg.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/text.h"
#include "core/base/util.h"

static const char *format_percent(double fraction, char *text, size_t room)
{
        snprintf(text, room, fabs(fraction) < 0.0995 ? "%.1f %%" : "%.0f %%", 100 * fraction);
        return text;
}

#define WIDE 10 /* an interval up to so many times the value says nothing */

/* Over all sizes of a row, each counting the same. The interval is the mean of theirs: their errors
 * may have one cause. */
static void mean_gain(const struct capo_fit_series *s, int first, int last, char *text, size_t room)
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
        if (n)
                snprintf(text, room, "%s +- %s", format_percent(gain / n, a, sizeof a),
                         format_percent(half / n, b, sizeof b));
        else
                snprintf(text, room, "-");
}

static void add_range_row(struct capo_table *t, const struct capo_fit_series *s, int first,
                          int last)
{
        const struct capo_fit_point *p = &s->points[last];
        int c = p->shown;
        const struct capo_fit_cell *cell = capo_fit_cell_of(s, last, c),
                                   *def = capo_fit_cell_of(s, last, 0);
        char from[16], to[16], range[40], name[56], us[48], chose[48] = "-", gain[48];

        capo_size_print(s->points[first].bytes, from, sizeof from);
        capo_size_print(p->bytes, to, sizeof to);
        snprintf(range, sizeof range, first == last ? "%s" : "%s - %s", from, to);
        if (isnan(cell->us))
                snprintf(us, sizeof us, "%s", p->chosen > 0 ? "between two sizes" : "-");
        else if (!(cell->hi < WIDE * cell->us))
                snprintf(us, sizeof us, cell->us < 99.95 ? "%.1f (any)" : "%.0f (any)", cell->us);
        else
                snprintf(us, sizeof us, cell->us < 99.95 ? "%.1f (%.1f-%.1f)" : "%.0f (%.0f-%.0f)",
                         cell->us, cell->lo, cell->hi);
        if (!isnan(def->us)) {
                if (c == 0 || cell->is_default)
                        snprintf(chose, sizeof chose, "the same");
                else if (p->default_ran)
                        snprintf(chose, sizeof chose, "%s %s  %.4g", capo_ran_algo(p->default_ran),
                                 capo_ran_proto(p->default_ran), def->us);
                else
                        snprintf(chose, sizeof chose, "?  %.4g", def->us);
        }
        mean_gain(s, first, last, gain, sizeof gain);
        if (c == 0 && p->default_ran)
                snprintf(name, sizeof name, "%s %s", capo_ran_algo(p->default_ran),
                         capo_ran_proto(p->default_ran));
        else
                capo_fit_candidate_text(&s->candidates[c], name, sizeof name);
        capo_table_row(t, "%s\t%s\t%s\t%s\t%s\t%s", range, name, us, chose, gain,
                       capo_fit_verdict_text(p->verdict));
}

static void print_regret(const struct capo_fit_series *s)
{
        const struct capo_fit_regret *r = &s->regret;
        char a[16], b[16], d[16];

        if (s->n_candidates == 1) /* there is nothing to regret */
                return;
        if (r->n == 0) {
                puts("  regret: unknown, nothing could be left out");
                return;
        }
        printf("  regret against the best measured (leave one %s out, %u of %u sizes scored): mean %s, worst %s",
               r->by_run ? "run" : "size", r->n_scored, r->n_scored + r->n_unscored,
               format_percent(r->mean, a, sizeof a), format_percent(r->worst, b, sizeof b));
        if (!isnan(r->mean_default))
                printf("; all left to NCCL: %s; worst against NCCL's own choice: %s",
                       format_percent(r->mean_default, d, sizeof d),
                       format_percent(r->worst_default, a, sizeof a));
        if (r->n_worse)
                printf("; slower than that beyond noise: %u", r->n_worse);
        putchar('\n');
}

/* What a careful reader must know of a series that has rules. */
static void warn_unchecked(const struct capo_fit_series *s)
{
        bool writes = false;

        for (int p = 0; p < s->n_points; p++)
                writes |= s->points[p].chosen > 0;
        if (!writes)
                return;
        if (!(s->links.gpu_gbs > 0) && !(s->links.node_gbs > 0))
                puts("  not checked against what links can carry: --platform NAME or --topo FILE says the machine");
        if (s->turns == CAPO_FIT_APART)
                puts("  warning: NCCL's own choice and the candidates were not measured in turn: a slow hour would look like a "
                     "gain; capo sweep takes turns");
        else if (s->turns == CAPO_FIT_TURNS_UNKNOWN && s->has_default)
                puts("  whether NCCL's own choice and the candidates were measured in turn is not recorded; capo sweep takes turns");
}

static const char *short_size(uint64_t bytes, char *text, size_t room)
{
        static const char units[] = "KMG";
        int unit = -1;

        while (unit < 2 && bytes >= 1024 && bytes % 1024 == 0) {
                bytes /= 1024;
                unit++;
        }
        snprintf(text, room, unit < 0 ? "%llu" : "%llu%c", (unsigned long long)bytes,
                 unit < 0 ? 0 : units[unit]);
        return text;
}

/* What to type: a sweep has NCCL's own choice and the candidate in the same run, call by call. */
static void sweep_command(const struct capo_fit_series *s, const struct capo_fit_next *n)
{
        const struct capo_fit_candidate *c = &s->candidates[n->candidate];
        char a[24], b[24];

        printf("     ");
        if (n->times > 1) {
                printf("for i in");
                for (int i = 1; i <= n->times; i++)
                        printf(" %d", i);
                printf("; do ");
        }
        printf("capo sweep --coll %s --sizes %s..%s",
               capo_coll_word((enum capo_coll)capo_coll_of_call(s->call)),
               short_size(s->points[n->first].bytes, a, sizeof a),
               short_size(s->points[n->last].bytes, b, sizeof b));
        if (n->candidate && c->algo)
                printf(" --algos %s", capo_algo_name(c->algo));
        if (n->candidate && c->proto)
                printf(" --protos %s", capo_proto_name(c->proto));
        if (n->candidate && c->channels)
                printf(" --channels %u", c->channels);
        if (n->candidate && c->chunk)
                printf(" --chunks %s", short_size(c->chunk, a, sizeof a));
        puts(n->times > 1 ? " --dir capo-logs/more-$i -- COMMAND; done" : " -- COMMAND");
}

static void print_next_measurement(const struct capo_fit_series *s, int rank,
                                   const struct capo_fit_next *n)
{
        const struct capo_fit_candidate *c = &s->candidates[n->candidate];
        char a[16], b[16], name[56];

        printf(rank ? "  then: " : "  measure next: ");
        switch (n->what) {
        case CAPO_FIT_NEXT_NOTHING: break;
        case CAPO_FIT_NEXT_DEFAULT:
                puts("NCCL's own choice at the same sizes (a run without NCCL_ALGO and NCCL_PROTO)");
                break;
        case CAPO_FIT_NEXT_OTHERS:
                puts("other choices at the same sizes: only NCCL's own was measured");
                break;
        case CAPO_FIT_NEXT_DEFAULT_AGAIN:
        case CAPO_FIT_NEXT_CANDIDATE:
                capo_size_print(s->points[n->first].bytes, a, sizeof a);
                capo_size_print(s->points[n->last].bytes, b, sizeof b);
                printf("%s%s%s, %s of %s%s%s (expected gain if the better one is taken then: %.1f %%)\n",
                       a, n->first == n->last ? "" : " - ", n->first == n->last ? "" : b,
                       capo_text_plural((unsigned)n->times, "more run", NULL),
                       n->what == CAPO_FIT_NEXT_DEFAULT_AGAIN ? "NCCL's own choice and " : "",
                       capo_fit_candidate_text(c, name, sizeof name),
                       capo_fit_writable(c) ? ""
                                            : " with NCCL_DEBUG_SUBSYS=TUNING, to say what ran",
                       100 * n->gain);
        }
        sweep_command(s, n);
}

char *fit_page_runs(const struct capo_fit_series *s, char *text, size_t room)
{
        char name[56];

        snprintf(text, room, "NCCL's own choice in %d run%s", s->candidates[0].n_runs,
                 s->candidates[0].n_runs == 1 ? "" : "s");
        for (int c = 1; c < s->n_candidates && c <= 8; c++)
                capo_append(text, room, ", %s in %d",
                            capo_fit_candidate_text(&s->candidates[c], name, sizeof name),
                            s->candidates[c].n_runs);
        if (s->n_candidates > 9)
                capo_append(text, room, ", %d more", s->n_candidates - 9);
        return text;
}

/* Who is compared with whom: runs of each, and where. */
static void print_compared(const struct capo_fit_series *s)
{
        char runs[600];

        printf("  compared: %s", fit_page_runs(s, runs, sizeof runs));
        printf("%s%s%s%s%s%s\n", *s->like.hosts ? "; hosts " : "", s->like.hosts,
               *s->like.driver ? "; driver " : "", s->like.driver,
               *s->like.settings ? "; settings " : "", s->like.settings);
}

static void series_page(const struct capo_fit_series *s, const struct fit_page *page)
{
        _cleanup_(capo_table_freep) struct capo_table *t =
                capo_table_new(" l20,l16,l24/a,l20/b,l16,.l~");
        unsigned columns = cli_screen_columns(stdout);
        char class[200];

        if (!t)
                return;
        printf("\n%s, %s   (%s; %s %.1f %%)\n", capo_call_name(s->call),
               capo_fit_class_text(&s->like, class, sizeof class), capo_make_name(s->make),
               s->one_run ? "no run repeated; noise taken as" : "noise between runs",
               100 * s->noise);
        capo_table_row(t,
                       "size\tbest\tus at the largest (95 %%)\tNCCL chose, us\tmean gain\twritten");
        for (int p = 0, k; p < s->n_points; p = k) {
                for (k = p + 1;
                     !page->all && k < s->n_points && s->points[k].shown == s->points[p].shown &&
                     s->points[k].chosen == s->points[p].chosen &&
                     s->points[k].default_ran == s->points[p].default_ran &&
                     s->points[k].verdict == s->points[p].verdict;
                     k++)
                        ;
                add_range_row(t, s, p, k - 1);
        }
        capo_table_print(t, stdout, 1, "", "");
        if (s->n_candidates > 1)
                print_compared(s);
        print_regret(s);
        warn_unchecked(s);
        for (int i = 0; i < CAPO_FIT_NEXTS && s->next[i].what != CAPO_FIT_NEXT_NOTHING; i++)
                print_next_measurement(s, i, &s->next[i]);
        if (columns)
                capo_terminal_fit(stdout, s, columns < 100 ? (int)columns : 100, 12);
}

static void print_fit_heading(const struct capo_samples *set, const struct capo_fit *fit)
{
        printf("capo fit  %s, %llu samples", capo_text_plural(set->n_files, "input", NULL),
               (unsigned long long)fit->n_samples);
        if (fit->n_warmup)
                printf(", %.1f %% warm-up dropped",
                       100.0 * (double)fit->n_warmup / (double)fit->n_samples);
        if (fit->n_stalls)
                printf(", %s of up to %.1f ms set aside",
                       capo_text_plural(fit->n_stalls, "stall", NULL), fit->worst_stall_us / 1e3);
        if (set->n_rejected)
                printf(", %s rejected", capo_text_plural(set->n_rejected, "run", NULL));
        if (set->n_empty)
                printf(", %zu rows of size 0", set->n_empty);
        if (fit->n_other_clock)
                printf(", %llu by another clock left out", (unsigned long long)fit->n_other_clock);
        putchar('\n');
        for (int i = 1; i < fit->n_series; i++) {
                const struct capo_trial *a = &fit->series[i - 1].like, *b = &fit->series[i].like;

                if (a->nccl != b->nccl && a->n_ranks == b->n_ranks &&
                    !strcmp(a->layout, b->layout)) {
                        puts("measurements of several NCCL releases: fitted apart, a rule for each (what one release "
                             "does says "
                             "little of another)");
                        break;
                }
        }
}

static void print_beside(const struct capo_fit *fit)
{
        _cleanup_(capo_table_freep) struct capo_table *t =
                fit->n_beside ? capo_table_new(" l24,l22,l28,l18,r~") : NULL;
        char from[16], to[16];

        if (!t)
                return;
        puts("\nbeside NCCL's table: what buffers that are registered have. No rule forces or prevents it: left out above");
        capo_table_row(t, "collective\tsize\tran\tclock\tus at the largest");
        for (size_t i = 0; i < fit->n_beside; i++) {
                const struct capo_fit_beside *b = &fit->beside[i];

                capo_table_row(t, "%s, %d ranks\t%s%s%s\t%s %s\t%s\t%.1f", capo_call_name(b->call),
                               b->like.n_ranks, capo_size_print(b->from, from, sizeof from),
                               b->from == b->upto ? "" : " - ",
                               b->from == b->upto ? "" : capo_size_print(b->upto, to, sizeof to),
                               capo_ran_algo(b->ran), capo_ran_proto(b->ran),
                               capo_make_name(b->make), b->us);
        }
        capo_table_print(t, stdout, 1, "", "");
}

void fit_page(const struct capo_samples *set, const struct capo_fit *fit,
              const struct fit_page *page)
{
        cli_screen_begin(stdout);
        print_fit_heading(set, fit);
        for (int i = 0; i < fit->n_series; i++)
                series_page(&fit->series[i], page);
        print_beside(fit);
}

void fit_page_uncertain(const struct capo_samples *set)
{
        const struct capo_sample *lo = set->v, *hi = set->v;
        char a[24], b[24];

        for (size_t i = 0; i < set->n; i++) {
                const struct capo_sample *s = &set->v[i];

                if (capo_coll_of_call(lo->call) < 0)
                        lo = hi = s;
                lo = s->call == lo->call && s->bytes < lo->bytes ? s : lo;
                hi = s->call == lo->call && s->bytes > hi->bytes ? s : hi;
        }
        puts("measure next: a run that says what was forced in it, and one of NCCL's own choice");
        if (set->n && capo_coll_of_call(lo->call) >= 0)
                printf("capo sweep --coll %s --sizes %s..%s -- COMMAND\n",
                       capo_coll_word((enum capo_coll)capo_coll_of_call(lo->call)),
                       short_size(lo->bytes, a, sizeof a), short_size(hi->bytes, b, sizeof b));
}
