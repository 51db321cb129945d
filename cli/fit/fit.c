/* SPDX-License-Identifier: Apache-2.0 */
/* capo fit: measurements in, a profile and the reasons for it out. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/fit/fit.h"
#include "cli/base/inputs.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/util.h"
#include "profiles/fit/fit.h"
#include "cli/fit/svg.h"

static void help(void)
{
        puts("usage: capo fit [OPTIONS] [LABELS] INPUT... [-o PROFILE]\n\n"
             "Turns measurements into a profile: per allocation, collective and size the candidate that beats NCCL's "
             "own\n"
             "choice by more than the noise; everything else is left to NCCL. Prints what it decided, how sure it is, "
             "the\n"
             "regret of its decisions on measurements they were not made from, and what to measure next.\n\n"
             "Inputs: folders of capo logs (capo sweep, capo run), nccl-tests output or its JSON (-J), sweep CSV of "
             "NVIDIA's\n"
             "example tuner, NCCL Inspector JSON, vidur CSV; store:FILE takes a store. NCCL's own choice must be among "
             "what\n"
             "was measured: a run without NCCL_ALGO and NCCL_PROTO.\n\n"
             "  -o FILE          write the profile there (JSON; docs/profile-format.md)\n"
             "  --svg FILE       the picture; default next to the profile, as .svg\n"
             "  --json           the page as JSON\n"
             "  --min-gain P     percent of time a rule must save to be written (default 1)\n"
             "  --without-default  accept sweeps without NCCL's own choice: the next best candidate stands in for it\n"
             "  --name NAME      name of the profile; default the file's\n"
             "  --model ALLOC    also a rule for this allocation that was not measured (may be repeated): 3+5, or "
             "exact GPUs\n"
             "                   ({1,2,3}+{0-4}; 0,2,3 of one machine). NCCL's own model (capo plan), corrected by "
             "measured over\n"
             "                   modelled; without any INPUT by what the links under NCCL's channels carry and the "
             "hops of the\n"
             "                   largest node. Only gains above 15 %, marked modelled: capo run --allow-modelled uses "
             "them\n"
             "  --every          with --model 3+5 and no INPUT: a rule for every class of such allocations\n"
             "  --sizes LIST     for --model without INPUT; default 1K..8G*2\n"
             "  --topo FILE, --platform NAME, --libnccl FILE   the machine for --model, as capo plan takes them\n"
             "  --all            all sizes, not only groups of sizes with one answer");
        fputs(capo_inputs_help(), stdout);
        puts("\nexamples:\n"
             "  capo fit capo-logs/ -o mycluster.json\n"
             "  capo fit default-*.txt --algo ring ring-*.txt --algo tree --proto ll128 tree-*.txt -o mycluster.json\n"
             "  capo fit --model '{1,2,3}+{0-4}' --platform dgx1v -o fragment.json\n\n"
             "Exit status: 0; 1 there is nothing to fit, or something failed; 2 wrong command line.");
}

struct job {
        struct capo_fit_options options;
        struct capo_samples set;
        struct capo_label label;
        const char *out, *svg, *name;
        char svg_beside[4096]; /* default of svg */
        bool json, all;
        int inputs;
        struct fit_models models;
};

static bool terminal;

static void progress(const char *what, double done, void *user)
{
        fprintf(stderr, "\r\033[K%s ... %3.0f %%", what, 100 * done);
}

static const char *value_of(int argc, char **argv, int *i)
{
        if (*i + 1 < argc)
                return argv[++*i];
        capo_error("fit: %s needs a value", argv[*i]);
        return NULL;
}

/* Return: an exit status, or -1 to go on. */
static int arguments(struct job *j, int argc, char **argv)
{
        for (int i = 1; i < argc; i++) {
                const char *a = argv[i], *v;
                int r;

                if (!strcmp(a, "--help")) {
                        help();
                        return CAPO_EXIT_OK;
                }
                if (!strcmp(a, "--every")) {
                        j->models.every = true;
                        continue;
                }
                if (fit_models_option(&j->models, a)) {
                        v = value_of(argc, argv, &i);
                        if (!v || fit_models_take(&j->models, a, v) < 0)
                                return CAPO_EXIT_USAGE;
                        continue;
                }
                if (!strcmp(a, "-o") || !strcmp(a, "--svg") || !strcmp(a, "--name") || !strcmp(a, "--min-gain")) {
                        v = value_of(argc, argv, &i);
                        if (!v)
                                return CAPO_EXIT_USAGE;
                        if (!strcmp(a, "-o"))
                                j->out = v;
                        else if (!strcmp(a, "--svg"))
                                j->svg = v;
                        else if (!strcmp(a, "--name"))
                                j->name = v;
                        else {
                                char *end;
                                double p = strtod(v, &end);

                                if (end == v || (*end && strcmp(end, "%")) || !(p >= 0 && p < 100)) {
                                        capo_error("--min-gain: expected percent, 0 to 99, found \"%s\"", v);
                                        return CAPO_EXIT_USAGE;
                                }
                                j->options.min_gain = p / 100;
                        }
                        continue;
                }
                if (!strcmp(a, "--json") || !strcmp(a, "--all") || !strcmp(a, "--without-default")) {
                        *(a[2] == 'j' ? &j->json : a[2] == 'a' ? &j->all : &j->options.without_default) = true;
                        continue;
                }
                r = capo_inputs_option(&j->label, argc, argv, &i);
                if (r < 0)
                        return CAPO_EXIT_USAGE;
                if (r > 0)
                        continue;
                if (a[0] == '-') {
                        capo_error("fit: unknown option \"%s\"; capo fit --help", a);
                        return CAPO_EXIT_USAGE;
                }
                j->inputs++;
                if (capo_inputs_read(a, &j->label, &j->set) < 0)
                        return CAPO_EXIT_FAIL;
        }
        if (j->models.every && (j->inputs || !j->models.n)) {
                capo_error("fit: --every goes with --model and without inputs");
                return CAPO_EXIT_USAGE;
        }
        if (j->inputs == 0 && j->models.n == 0) {
                capo_error("fit: no input; capo fit --help");
                return CAPO_EXIT_USAGE;
        }
        return -1;
}

/* ---- the page ---- */

static const char *percent(double fraction, char *text, size_t room)
{
        snprintf(text, room, fabs(fraction) < 0.0995 ? "%.1f %%" : "%.0f %%", 100 * fraction);
        return text;
}

/* What the line of a point says: the candidate written, or the best one and why it is not. */
static int shown(const struct capo_fit_series *s, int p)
{
        const struct capo_fit_point *q = &s->points[p];

        if (q->chosen > 0)
                return q->chosen;
        if (q->best > 0 && capo_fit_cell_of(s, p, q->best)->is_default)
                return 0;
        return q->best < 0 ? 0 : q->best;
}

static const char *verdict(const struct capo_fit_series *s, const struct capo_fit_options *o, int p)
{
        const struct capo_fit_point *q = &s->points[p];
        int c = shown(s, p);

        if (q->chosen > 0)
                return s->has_default ? "yes"
                       : s->covered   ? "yes (NCCL's is one of these)"
                                      : "yes (NCCL's not measured)";
        if (c == 0)
                return "left to NCCL";
        if (!capo_fit_writable(&s->candidates[c]))
                return "no: what ran is not fully recorded";
        if (!capo_fit_cell_of(s, p, 0)->n_blocks)
                return "no: NCCL's own choice was not measured";
        if (q->gain < o->min_gain)
                return "left to NCCL (gain too small)";
        return "left to NCCL (within noise)";
}

static void line(const struct capo_fit_series *s, const struct capo_fit_options *o, int first, int last)
{
        const struct capo_fit_point *p = &s->points[last];
        int c = shown(s, last);
        const struct capo_fit_cell *cell = capo_fit_cell_of(s, last, c), *def = capo_fit_cell_of(s, last, 0);
        char from[16], to[16], range[40], name[48], us[48], chose[48] = "-", gain[48] = "-", a[16], b[16];

        capo_size_print(s->points[first].bytes, from, sizeof from);
        capo_size_print(p->bytes, to, sizeof to);
        snprintf(range, sizeof range, first == last ? "%s" : "%s - %s", from, to);
        if (isnan(cell->us))
                snprintf(us, sizeof us, "-");
        else if (!cell->n_blocks)
                snprintf(us, sizeof us, cell->us < 99.95 ? "~%.1f (from neighbours)" : "~%.0f (from neighbours)",
                         cell->us);
        else
                snprintf(us, sizeof us, cell->us < 99.95 ? "%.1f (%.1f-%.1f)" : "%.0f (%.0f-%.0f)", cell->us, cell->lo,
                         cell->hi);
        if (!isnan(def->us)) {
                if (c == 0 || cell->is_default)
                        snprintf(chose, sizeof chose, "the same");
                else if (p->default_ran)
                        snprintf(chose, sizeof chose, "%s %s  %.4g", capo_algo_name(CAPO_ALGO_OF(p->default_ran)),
                                 capo_proto_name(CAPO_PROTO_OF(p->default_ran)), def->us);
                else
                        snprintf(chose, sizeof chose, "?  %.4g", def->us);
                if (c > 0 && !cell->is_default && !isnan(p->gain))
                        snprintf(gain, sizeof gain, "%s +- %s", percent(p->gain, a, sizeof a),
                                 percent((p->gain_hi - p->gain_lo) / 2, b, sizeof b));
        }
        if (c == 0 && p->default_ran)
                snprintf(name, sizeof name, "%s %s", capo_algo_name(CAPO_ALGO_OF(p->default_ran)),
                         capo_proto_name(CAPO_PROTO_OF(p->default_ran)));
        else
                capo_fit_candidate_text(&s->candidates[c], name, sizeof name);
        printf("  %-20s  %-16s  %-24s  %-20s  %-16s %s\n", range, name, us, chose, gain, verdict(s, o, last));
}

static void regret(const struct capo_fit_series *s)
{
        const struct capo_fit_regret *r = &s->regret;
        char a[16], b[16], d[16];

        if (r->n == 0) {
                puts("  regret: not to be told, nothing could be left out");
                return;
        }
        printf("  regret against the best measured (leave one %s out, %u decisions): mean %s, worst %s",
               r->by_run ? "run" : "size", r->n, percent(r->mean, a, sizeof a), percent(r->worst, b, sizeof b));
        if (!isnan(r->mean_default))
                printf("; all left to NCCL: %s", percent(r->mean_default, d, sizeof d));
        if (r->n_worse)
                printf("; slower than NCCL's own choice beyond noise: %u", r->n_worse);
        else if (!isnan(r->mean_default))
                printf("; never slower than NCCL's own choice beyond noise");
        putchar('\n');
}

/* What would help most: where the best candidate may be better than what is written, but is not sure to be. */
static void next(const struct capo_fit_series *s, const struct capo_fit_options *o)
{
        int first = -1, last = -1, candidate = 0;
        double most = o->min_gain;
        char a[16], b[16], name[48];

        if (!s->has_default && !s->covered) {
                printf("  would help most: NCCL's own choice at the same sizes (a run without NCCL_ALGO and "
                       "NCCL_PROTO)\n");
                return;
        }
        for (int p = 0; p < s->n_points; p++) {
                const struct capo_fit_point *q = &s->points[p];

                if (q->chosen == 0 && q->best > 0 && !capo_fit_cell_of(s, p, q->best)->is_default &&
                    q->gain_hi > most && q->gain >= o->min_gain) {
                        most = q->gain_hi;
                        first = last = p;
                        candidate = q->best;
                }
        }
        if (first < 0) {
                if (s->one_run)
                        puts("  would help most: the same again, in another run: how much runs differ is not known");
                return;
        }
        while (first > 0 && s->points[first - 1].chosen == 0 && s->points[first - 1].best == candidate)
                first--;
        while (last + 1 < s->n_points && s->points[last + 1].chosen == 0 && s->points[last + 1].best == candidate)
                last++;
        capo_size_print(s->points[first].bytes, a, sizeof a);
        capo_size_print(s->points[last].bytes, b, sizeof b);
        printf("  would help most: %s%s%s with %s, %s (up to %.0f %% to gain)\n", a, first == last ? "" : " - ",
               first == last ? "" : b, capo_fit_candidate_text(&s->candidates[candidate], name, sizeof name),
               capo_fit_writable(&s->candidates[candidate]) ? "3 more repeats"
                                                            : "with NCCL_DEBUG_SUBSYS=TUNING to say what ran",
               100 * most);
}

static void series_page(const struct job *j, const struct capo_fit_series *s)
{
        char class[200];

        printf("\n%s, %s   (%s; %s %.1f %%)\n", capo_call_name(s->call),
               capo_fit_class_text(&s->like, class, sizeof class), capo_make_name(s->make),
               s->one_run ? "no run repeated, noise taken as" : "noise between runs", 100 * s->noise);
        printf("  %-20s  %-16s  %-24s  %-20s  %-16s %s\n", "size", "best", "us at the largest (95 %)", "NCCL chose, us",
               "gain", "written");
        for (int p = 0, k; p < s->n_points; p = k) {
                for (k = p + 1; !j->all && k < s->n_points && shown(s, k) == shown(s, p) &&
                                s->points[k].chosen == s->points[p].chosen &&
                                s->points[k].default_ran == s->points[p].default_ran &&
                                !strcmp(verdict(s, &j->options, k), verdict(s, &j->options, p));
                     k++)
                        ;
                line(s, &j->options, p, k - 1);
        }
        regret(s);
        next(s, &j->options);
        if (terminal)
                capo_terminal_fit(stdout, s, 100, 12);
}

static void heading(const struct job *j, const struct capo_fit *fit)
{
        printf("capo fit  %zu input%s, %llu samples", j->set.n_files, j->set.n_files == 1 ? "" : "s",
               (unsigned long long)fit->n_samples);
        if (fit->n_warmup)
                printf(", %.1f %% warm-up dropped", 100.0 * (double)fit->n_warmup / (double)fit->n_samples);
        if (fit->n_stalls)
                printf(", %llu stall%s of up to %.1f ms set aside", (unsigned long long)fit->n_stalls,
                       fit->n_stalls == 1 ? "" : "s", fit->worst_stall_us / 1e3);
        if (j->set.n_rejected)
                printf(", %zu run%s rejected", j->set.n_rejected, j->set.n_rejected == 1 ? "" : "s");
        if (j->set.n_empty)
                printf(", %zu rows of size 0", j->set.n_empty);
        if (fit->n_other_clock)
                printf(", %llu by another clock left out", (unsigned long long)fit->n_other_clock);
        putchar('\n');
        for (int i = 1; i < fit->n_series; i++) {
                const struct capo_trial *a = &fit->series[i - 1].like, *b = &fit->series[i].like;

                if (a->nccl != b->nccl && a->n_ranks == b->n_ranks && !strcmp(a->layout, b->layout)) {
                        puts("measurements of several NCCL releases: fitted apart, a rule for each (what one release "
                             "does says "
                             "little of another)");
                        break;
                }
        }
}

static json_t *real_or_null(double v)
{
        return isnan(v) ? json_null() : json_real(v);
}

static int json_page(const struct job *j, const struct capo_fit *fit, const struct capo_profile *profile)
{
        json_t *list = json_array(), *page;
        int r;

        for (int i = 0; i < fit->n_series; i++) {
                const struct capo_fit_series *s = &fit->series[i];
                json_t *points = json_array();
                char nccl[16], name[48];

                for (int p = 0; p < s->n_points; p++) {
                        const struct capo_fit_point *q = &s->points[p];
                        json_t *times = json_array();

                        for (int c = 0; c < s->n_candidates; c++) {
                                const struct capo_fit_cell *cell = capo_fit_cell_of(s, p, c);

                                if (!isnan(cell->us))
                                        json_array_append_new(
                                                times,
                                                json_pack("{s:s, s:f, s:f, s:f, s:i, s:b}", "candidate",
                                                          capo_fit_candidate_text(&s->candidates[c], name, sizeof name),
                                                          "us", cell->us, "lo", cell->lo, "hi", cell->hi, "samples",
                                                          (int)cell->n_samples, "same_as_nccl", cell->is_default));
                        }
                        json_array_append_new(
                                points, json_pack("{s:I, s:s, s:s, s:o, s:o, s:o, s:s, s:o}", "bytes",
                                                  (json_int_t)q->bytes, "chosen",
                                                  q->chosen > 0 ? capo_fit_candidate_text(&s->candidates[q->chosen],
                                                                                          name, sizeof name)
                                                                : "leave",
                                                  "nccl_ran",
                                                  q->default_ran ? capo_algo_name(CAPO_ALGO_OF(q->default_ran)) : "",
                                                  "gain", real_or_null(q->gain), "gain_lo", real_or_null(q->gain_lo),
                                                  "gain_hi", real_or_null(q->gain_hi), "written",
                                                  verdict(s, &j->options, p), "times", times));
                }
                json_array_append_new(
                        list,
                        json_pack(
                                "{s:s, s:i, s:i, s:s, s:s, s:s, s:s, s:f, s:{s:s, s:i, s:o, s:o, s:o, s:i, s:i}, s:o}",
                                "collective", capo_call_name(s->call), "ranks", s->like.n_ranks, "nodes",
                                s->like.n_nodes, "layout", s->like.layout, "gpu", s->like.gpu, "nccl",
                                s->like.nccl ? capo_nccl_text(s->like.nccl, nccl, sizeof nccl) : "", "clock",
                                capo_make_name(s->make), "noise", s->noise, "regret", "left_out",
                                s->regret.by_run ? "run" : "size", "decisions", (int)s->regret.n, "mean",
                                real_or_null(s->regret.mean), "worst",
                                s->regret.n ? json_real(s->regret.worst) : json_null(), "mean_of_nccl",
                                real_or_null(s->regret.mean_default), "worse_than_nccl", (int)s->regret.n_worse,
                                "not_measured", (int)s->regret.n_unmeasured, "points", points));
        }
        page = json_pack("{s:I, s:I, s:I, s:i, s:i, s:o}", "samples", (json_int_t)fit->n_samples, "warmup",
                         (json_int_t)fit->n_warmup, "stalls", (json_int_t)fit->n_stalls, "rejected_runs",
                         (int)j->set.n_rejected, "rules", (int)profile->n_rules, "series", list);
        if (!page)
                return -ENOMEM;
        r = json_dumpf(page, stdout, JSON_INDENT(1) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));
        json_decref(page);
        putchar('\n');
        return r;
}

/* ---- what is written ---- */

static int who_and_when(struct capo_profile *profile)
{
        const char *epoch = getenv("SOURCE_DATE_EPOCH"); /* reproducible files: reproducible-builds.org */
        time_t now = epoch ? (time_t)strtoll(epoch, NULL, 10) : time(NULL);
        char date[16] = "";
        struct tm tm;

        if (gmtime_r(&now, &tm))
                strftime(date, sizeof date, "%Y-%m-%d", &tm);
        return capo_profile_note(profile, CAPO_PROVENANCE, "tool", "capo fit " CAPO_VERSION) |
               capo_profile_note(profile, CAPO_PROVENANCE, "date", date);
}

static int provenance(const struct job *j, const struct capo_fit *fit, struct capo_profile *profile)
{
        const char *gpu = fit->series[0].like.gpu;
        char nccl[16], sources[256] = "";
        size_t used = 0;
        int e = who_and_when(profile);

        for (size_t i = 0; i < j->set.n_runs; i++) {
                const char *slash = strrchr(j->set.runs[i].source, '/'),
                           *name = slash && slash[1] ? slash + 1 : j->set.runs[i].source;

                if (strstr(sources, name) || used + strlen(name) + 8 > sizeof sources)
                        continue;
                used += (size_t)snprintf(sources + used, sizeof sources - used, "%s%s", used ? ", " : "", name);
        }
        e |= capo_profile_note(profile, CAPO_PROVENANCE, "nccl",
                               fit->series[0].like.nccl ? capo_nccl_text(fit->series[0].like.nccl, nccl, sizeof nccl)
                                                        : "not recorded");
        e |= capo_profile_note(profile, CAPO_PROVENANCE, "clock", capo_make_name(fit->series[0].make));
        e |= capo_profile_note(profile, CAPO_PROVENANCE, "source", sources);
        e |= capo_profile_note_number(profile, CAPO_PROVENANCE, "samples", (double)fit->n_samples);
        if (gpu[0])
                e |= capo_profile_note(profile, CAPO_PLATFORM, "gpu", gpu);
        return e;
}

/* Written beside and renamed, so that a job that starts meanwhile reads the old one or the new one. */
static int write_file(const char *path, int (*write)(FILE *, const void *), const void *what)
{
        _cleanup_free_ char *beside = NULL;
        FILE *f;
        int e;

        if (asprintf(&beside, "%s.%d", path, (int)getpid()) < 0)
                return -ENOMEM;
        f = fopen(beside, "wxe");
        if (!f)
                return -errno;
        e = write(f, what);
        if (fclose(f) && e == 0)
                e = -errno;
        if (e == 0 && rename(beside, path) < 0)
                e = -errno;
        if (e < 0)
                unlink(beside);
        return e;
}

static int write_profile(FILE *f, const void *profile)
{
        return capo_profile_write(profile, f);
}

static int write_svg(FILE *f, const void *fit)
{
        return capo_svg_fit(f, fit, "capo fit");
}

static int outputs(struct job *j, const struct capo_fit *fit, struct capo_profile *profile, int n_rules, int n_rows)
{
        size_t n = j->out ? strlen(j->out) : 0;
        int e;

        if (j->out) {
                e = write_file(j->out, write_profile, profile);
                if (e < 0) {
                        capo_error("%s: %s", j->out, strerror(-e));
                        return CAPO_EXIT_FAIL;
                }
                if (!j->svg) {
                        snprintf(j->svg_beside, sizeof j->svg_beside, "%.*s.svg",
                                 n > 5 && !strcmp(j->out + n - 5, ".json") ? (int)n - 5 : (int)n, j->out);
                        j->svg = j->svg_beside;
                }
        }
        if (j->svg) {
                e = write_file(j->svg, write_svg, fit);
                if (e < 0) {
                        capo_error("%s: %s", j->svg, strerror(-e));
                        return CAPO_EXIT_FAIL;
                }
        }
        if (j->json)
                return CAPO_EXIT_OK;
        if (j->out)
                printf("\nwrote %s: %d rule%s, %d row%s%s", j->out, n_rules, n_rules == 1 ? "" : "s", n_rows,
                       n_rows == 1 ? "" : "s", n_rules ? "" : " (NCCL's own choices are as good as anything measured)");
        else
                printf("\n%d rule%s, %d row%s; -o FILE writes them", n_rules, n_rules == 1 ? "" : "s", n_rows,
                       n_rows == 1 ? "" : "s");
        printf(j->svg ? "      picture: %s\n" : "\n", j->svg);
        return CAPO_EXIT_OK;
}

/* Rules name ranks, nodes, layout and release; nothing in them could tell two kinds of GPU apart. */
static bool two_kinds(const struct capo_fit *fit)
{
        for (int i = 0; i < fit->n_series; i++) {
                for (int k = 0; k < i; k++) {
                        const struct capo_trial *a = &fit->series[i].like, *b = &fit->series[k].like;

                        if (a->gpu[0] && b->gpu[0] && strcmp(a->gpu, b->gpu)) {
                                capo_error("fit: two kinds of GPU, \"%s\" and \"%s\": one profile cannot tell them "
                                           "apart; fit each by "
                                           "itself",
                                           a->gpu, b->gpu);
                                return true;
                        }
                }
        }
        return false;
}

/* --model without anything measured. An exit status. */
static int model_alone(struct job *j)
{
        struct capo_profile *profile = capo_profile_new(j->name ? j->name : "");
        int n_rules = 0, status = CAPO_EXIT_FAIL, e;

        if (!profile || who_and_when(profile) < 0)
                capo_error("fit: no memory");
        else if (fit_models_alone(&j->models, &j->options, profile, j->json, &n_rules) == 0)
                status = CAPO_EXIT_OK;
        if (status == CAPO_EXIT_OK && j->svg)
                capo_warn("fit: --svg draws measurements, and there are none");
        if (status == CAPO_EXIT_OK && j->out && n_rules) {
                e = write_file(j->out, write_profile, profile);
                if (e < 0) {
                        capo_error("%s: %s", j->out, strerror(-e));
                        status = CAPO_EXIT_FAIL;
                } else if (!j->json) {
                        printf("\nwrote %s: %d rule%s, marked modelled; capo run --allow-modelled and capo plan "
                               "--allow-modelled use %s\n",
                               j->out, n_rules, n_rules == 1 ? "" : "s", n_rules == 1 ? "it" : "them");
                }
        } else if (status == CAPO_EXIT_OK && !j->json) {
                printf(n_rules  ? "\n%d rule%s; -o FILE writes them\n"
                       : j->out ? "\n%d rules: %s not written\n"
                                : "\n%d rules%.0s\n",
                       n_rules,
                       n_rules  ? n_rules == 1 ? "" : "s"
                       : j->out ? j->out
                                : "");
        }
        capo_profile_free(profile);
        return status;
}

int capo_verb_fit(int argc, char **argv)
{
        struct job j = {.options = {.min_gain = 0.01}};
        struct capo_fit *fit = NULL;
        struct capo_profile *profile = NULL;
        struct capo_fault fault;
        int status = arguments(&j, argc, argv), n_rules, n_rows, r;

        if (status >= 0)
                goto end;
        if (j.inputs == 0) {
                status = model_alone(&j);
                goto end;
        }
        status = CAPO_EXIT_FAIL;
        terminal = isatty(STDOUT_FILENO);
        if (isatty(STDERR_FILENO) && j.set.n > 100000)
                j.options.progress = progress;
        capo_inputs_notes(&j.set);
        r = capo_fit_make(&j.set, &j.options, &fit, &fault);
        if (j.options.progress)
                fputs("\r\033[K", stderr);
        if (r < 0) {
                capo_error("fit: %s", fault.text[0] ? fault.text : strerror(-r));
                goto end;
        }
        if (j.out && two_kinds(fit))
                goto end;
        profile = capo_profile_new(j.name ? j.name : "");
        if (!profile || capo_fit_profile(fit, profile, &n_rules, &n_rows) < 0 || provenance(&j, fit, profile) < 0) {
                capo_error("fit: no memory");
                goto end;
        }
        if (j.json) {
                json_page(&j, fit, profile);
        } else {
                heading(&j, fit);
                for (int i = 0; i < fit->n_series; i++)
                        series_page(&j, &fit->series[i]);
        }
        if (fit_models_measured(&j.models, fit, &j.options, profile, !j.json, &n_rules, &n_rows) < 0)
                goto end;
        status = outputs(&j, fit, profile, n_rules, n_rows);
end:
        capo_profile_free(profile);
        capo_fit_free(fit);
        capo_samples_free(&j.set);
        return status;
}
