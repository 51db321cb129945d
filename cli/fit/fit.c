/* SPDX-License-Identifier: Apache-2.0 */
/* capo fit: measurements in, a profile and the reasons for it out. */
#include <errno.h>
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
#include "cli/base/progress.h"
#include "cli/fit/page.h"
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

static void progress(const char *what, double done, void *user)
{
        capo_progress_percent(what, (uint64_t)(1e6 * done), 1000000);
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
        j.options.progress = progress;
        capo_inputs_notes(&j.set);
        r = capo_fit_make(&j.set, &j.options, &fit, &fault);
        capo_progress_end();
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
        if (j.json)
                fit_json(&j.set, fit, profile);
        else
                fit_page(&j.set, fit, &(struct fit_page){j.all, isatty(STDOUT_FILENO)});
        if (fit_models_measured(&j.models, fit, &j.options, profile, !j.json, &n_rules, &n_rows) < 0)
                goto end;
        status = outputs(&j, fit, profile, n_rules, n_rows);
end:
        capo_profile_free(profile);
        capo_fit_free(fit);
        capo_samples_free(&j.set);
        return status;
}
