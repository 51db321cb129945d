/* SPDX-License-Identifier: Apache-2.0 */
/* capo fit: makes a profile from measurements, and explains it. */
#include "capo/msg.h"
#include "cli/fit/cmd_fit.h"
#include "cli/base/cli_inputs.h"
#include "cli/base/cli_json.h"
#include "cli/base/cli_recorded.h"
#include "cli/base/cli_machine.h"
#include "cli/base/cli_output.h"
#include "cli/base/cli_progress.h"
#include "cli/fit/fit_page.h"
#include "core/base/calls.h"
#include "core/base/xalloc.h"
#include "core/profile/profile_check.h"

struct job {
        struct capo_fit_options options;
        struct cli_inputs inputs;
        struct capo_samples set;
        const char *out, *name;
        enum cli_form form;
        bool all, runs;
        struct fit_models models;
        struct capo_profile *profile;
};

#define FIT_JSON (JSON_INDENT(1) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9))

static void show_fit_progress(const char *what, double done)
{
        cli_progress(what, (uint64_t)(100 * done), 100);
}

/* Write the profile, if it has a place. Return: false: an error, printed. */
static bool write_profile(const struct job *j)
{
        struct cli_output out;

        return !j->out || (cli_output_open(&out, j->out) == 0 &&
                           cli_output_close(&out, capo_profile_write(j->profile, out.file)) == 0);
}

/* Problems of the rules themselves, for example one that can never match. */
static void add_finding(void *arg, enum capo_finding_level level, uint32_t line, const char *text)
{
        struct cli_page *page = arg;

        if (level != CAPO_FINDING_NOTE)
                cli_page_problem(page, "%s", text);
}

/* Write the profile; add a line to @page that names it. */
static int write_outputs(struct job *j, const struct capo_fit *fit, struct cli_page *page)
{
        const struct capo_profile *profile = j->profile;
        const char *why =
                profile->n_rules ? "" : " (nothing measured is faster than NCCL's own choice)";

        for (int i = 0; i < fit->n_series && *why; i++) {
                const struct capo_fit_series *s = &fit->series[i];

                for (int p = 0; p < s->n_points; p++) {
                        if (s->points[p].verdict != CAPO_FIT_LEFT || s->n_candidates == 1)
                                why = " (the last column says why)";
                }
        }
        if (!write_profile(j))
                return CAPO_EXIT_FAIL;
        cli_page_under(page, "%s%s%s%s, %s%s", j->out ? "wrote " : "", j->out ? j->out : "",
                       j->out ? ": " : "", capo_text_plural(profile->n_rules, "rule", NULL),
                       capo_text_plural(profile->n_rows, "row", NULL),
                       j->out || !profile->n_rules ? why : "; -o FILE writes them");
        for (uint32_t i = 0; i < profile->n_rows; i++) {
                const struct capo_row *row = &profile->rows[i];
                char from[16], upto[16];

                if (row->measured)
                        cli_page_under(page,
                                       "also for the numbers of nodes between (measured on %s, "
                                       "with as many ranks on each): %s of %s to %s, %s %s",
                                       row->measured, capo_coll_word(row->coll),
                                       capo_size_print(row->from, from, sizeof from),
                                       capo_size_print(row->upto, upto, sizeof upto),
                                       capo_algo_name(row->algo), capo_proto_name(row->proto));
        }
        return CAPO_EXIT_OK;
}

/* Rules name ranks, nodes, layout and release, and cannot distinguish two kinds of GPU. */
static bool two_kinds(const struct capo_fit *fit)
{
        const char *first = "";

        for (int i = 0; i < fit->n_series; i++) {
                const char *gpu = fit->series[i].like.gpu;

                if (*gpu && *first && strcmp(gpu, first)) {
                        capo_error(
                                "fit: two kinds of GPU, \"%s\" and \"%s\": one profile cannot tell them "
                                "apart; fit each by itself",
                                gpu, first);
                        return true;
                }
                first = *gpu ? gpu : first;
        }
        return false;
}

/* Write an empty profile: nothing is certain, so NCCL's choice is unchanged. Return: an exit
 * status. */
static int nothing_certain(struct job *j, const char *why)
{
        capo_warn("fit: %s", why);
        if (!write_profile(j))
                return CAPO_EXIT_FAIL;
        if (j->form == CLI_FORM_JSON) {
                puts("{\"rules\": 0, \"series\": []}");
        } else if (j->form != CLI_FORM_CSV) {
                struct cli_page *page = fit_page_uncertain(&j->set);

                cli_page_under(page, "0 rules, 0 rows%s%s", j->out ? ": wrote " : "",
                               j->out ? j->out : "");
                cli_page_print(page, j->form, stdout);
        }
        return CAPO_EXIT_OK;
}

/* --model without measurements. Return: an exit status. */
static int model_alone(struct job *j)
{
        struct cli_page *page = cli_page_new();
        json_auto_t *list = json_array();
        const uint32_t *n = &j->profile->n_rules;
        int r = fit_models_alone(&j->models, &j->options, j->profile, page, list);
        const char *rules;

        if (r < 0 || (*n && !write_profile(j)))
                return r == -ENODEV ? CAPO_EXIT_USAGE : CAPO_EXIT_FAIL;
        if (j->form == CLI_FORM_CSV)
                return cli_json_csv(stdout, json_pack("{s:O}", "pages", list), "pages.rows");
        if (j->form == CLI_FORM_JSON)
                return cli_json_print(stdout, json_incref(list), FIT_JSON);
        rules = capo_text_plural(*n, "rule", NULL);
        if (j->out && *n)
                cli_page_under(
                        page,
                        "wrote %s: %s, marked modelled; capo run --allow-modelled and capo plan "
                        "--allow-modelled use %s",
                        j->out, rules, *n == 1 ? "it" : "them");
        else if (j->out)
                cli_page_under(page, "%s: %s not written", rules, j->out);
        else
                cli_page_under(page, "%s%s", rules, *n ? "; -o FILE writes them" : "");
        cli_page_print(page, j->form, stdout);
        return CAPO_EXIT_OK;
}

/* Compute the links of the machine that --topo or --platform names; else of the one that capo run recorded
 * beside the logs. Return: 0; negative errno, printed. */
static int load_links(struct job *j)
{
        static char path[4096];
        _cleanup_free_ const char **sources = xcalloc(j->set.n_runs + 1, sizeof *sources);
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        _cleanup_free_ struct cli_machine_source *source = xmalloc(sizeof *source);
        bool recorded = false;
        int e = 0;

        for (size_t i = 0; i < j->set.n_runs; i++)
                sources[i] = j->set.runs[i].source;
        if (!j->models.topo && !j->models.platform &&
            cli_recorded_beside(sources, j->set.n_runs, NULL, path, sizeof path) == 0) {
                j->models.topo = path;
                recorded = true;
        }
        if (j->models.topo || j->models.platform)
                e = cli_machine_load("fit",
                                     &(struct cli_machine_words){.topo = j->models.topo,
                                                                 .platform = j->models.platform,
                                                                 .partial = true},
                                     &t, source);
        if (e == 0 && t)
                j->options.links = capo_fit_links_of_machine(t);
        if (recorded) /* the kernel does not report the speed of every NIC */
                j->options.links.node_gbs = 0;
        return e;
}

static int add_fit_input(void *options, char *word)
{
        return cli_inputs_add(&((struct job *)options)->inputs, word);
}

static int run_fit(void *options, int n, char **words)
{
        struct job *j = options;
        struct capo_fit *fit = NULL;
        struct cli_page *page = NULL;
        struct capo_fault fault;
        bool unknown = false;
        int status, r;

        if (!n && !j->models.n)
                return capo_fail(CAPO_EXIT_USAGE, "fit: no input; capo fit --help");
        j->profile = capo_profile_new(j->name ? j->name : "");
        capo_fit_memory(j->profile);
        fit_provenance_when(j->profile);
        if (!n)
                return model_alone(j);
        if (cli_inputs_unused(&j->inputs))
                return capo_fail(CAPO_EXIT_USAGE, "fit: a label after the last input applies to "
                                                  "nothing; put it before the inputs");
        if (cli_inputs_read(&j->inputs, &j->set) < 0 && !j->set.n) /* use what can be read */
                return CAPO_EXIT_FAIL;
        r = load_links(j);
        if (r < 0)
                return r == -ENODEV ? CAPO_EXIT_USAGE : CAPO_EXIT_FAIL;
        j->options.progress = show_fit_progress;
        cli_inputs_notes(&j->set);
        capo_fit_guard(&j->set, j->options.force);
        if (j->runs) {
                fit_runs(&j->set);
                return CAPO_EXIT_OK;
        }
        cli_inputs_left_out(&j->set);
        r = capo_fit_make(&j->set, &j->options, &fit, &fault);
        cli_progress_end();
        for (size_t i = 0; i < j->set.n; i++)
                unknown |= j->set.runs[j->set.v[i].run].left_out;
        if ((r == -ENODATA && unknown) || (r == -EINVAL && fault.text[0]))
                return nothing_certain(j, fault.text);
        if (r < 0)
                return capo_fail(CAPO_EXIT_FAIL, "fit: %s",
                                 fault.text[0] ? fault.text : strerror(-r));
        for (size_t i = 0; i < fit->n_faults; i++)
                capo_warn("left out: %s", fit->faults[i]);
        if (j->out && two_kinds(fit))
                return CAPO_EXIT_FAIL;
        capo_fit_profile(fit, j->profile);
        fit_provenance(&j->set, fit, j->profile);
        page = fit_page(&j->set, fit, j->all);
        r = fit_models_measured(&j->models, fit, &j->options, j->profile, page);
        if (r < 0)
                return r == -ENODEV ? CAPO_EXIT_USAGE : CAPO_EXIT_FAIL;
        if (j->profile->n_rules)
                capo_fit_memory(capo_profile_check(j->profile, add_finding, page) >= 0);
        status = write_outputs(j, fit, page);
        CLI_FORM_PRINT(j->form, page, fit_json(&j->set, fit, j->profile), FIT_JSON,
                       "series.points");
        return status;
}

static const struct job defaults = {.options = {.min_gain = 0.01}};

static const struct cli_option options[] = {
        {"output", CLI_FILE(struct job, out, "FILE"),
         "write the profile there (JSON; docs/profile-format.md)", .letter = 'o'},
        CLI_FORM_JSON_OPTION(struct job, form),
        CLI_FORM_CSV_OPTION(struct job, form),
        CLI_FORM_MARKDOWN_OPTION(struct job, form),
        {"min-gain", CLI_PERCENT(struct job, options.min_gain, "P", 0, 99.999),
         "percent of time a rule must save to be written (default 1)", .example = "2%"},
        {"without-default", CLI_FLAG(struct job, options.without_default),
         "accept sweeps without NCCL's own choice: the next best candidate stands in for it",
         .rare = true},
        {"name", CLI_TEXT(struct job, name, "NAME"), "name of the profile, for pages",
         .rare = true},
        {"model", CLI_WORDS(struct job, models.alloc, models.n, "ALLOC"),
         "also a rule for an allocation that was not measured: 3+5 or {1,2,3}+{0-4}; by NCCL's model, corrected. Only gains above 20 %, "
         "used by capo run --allow-modelled"},
        {"sizes", CLI_TEXT(struct job, models.sizes, "LIST"),
         "for --model without INPUT; default 1K..8G*2", .rare = true},
        {"topo", CLI_FILE(struct job, models.topo, "FILE"),
         "the machine, as in capo plan; default: the recorded one"},
        {"platform", CLI_TEXT(struct job, models.platform, "NAME"), "the same by its name"},
        {"domain", CLI_COUNT(struct job, models.domain, "N", 1, 4096),
         "N machines at a time share an NVLink domain, as in capo plan; default: as the platform has it",
         .rare = true},
        {"libnccl", CLI_FILE(struct job, models.libnccl, "FILE"),
         "the libnccl.so.2 that --model asks", .rare = true},
        {"runs", CLI_FLAG(struct job, runs),
         "only say what was made of each run: file, line, label, and why", .rare = true},
        {"force", CLI_FLAG(struct job, options.force),
         "believe gains that look like a fault of the measurement, and compare runs of other settings, hosts and drivers",
         .rare = true},
        {"all", CLI_FLAG(struct job, all), "all sizes, not only groups of sizes with one answer",
         .rare = true},
        CLI_WIDE,
        {CLI_TABLE(struct job, inputs.label, cli_label_options), CLI_LABELS_HELP},
        {0}};

const struct cli_command fit_command = {
        .usage = "[OPTIONS] [LABELS] INPUT... [-o PROFILE]",
        .about =
                "Turns measurements into a profile: per allocation, collective and size the "
                "candidate that beats NCCL's own choice by more than the noise. Everything else "
                "is left to NCCL. The page shows how sure each decision is, and what to measure "
                "next.\n"
                "\n"
                "Inputs, files or folders of them: "
#define IMPORTER(name, whole, what) what ", "
#include "profiles/import/importers.def"
                "or store:FILE. NCCL's own choice must be measured too, and a file must say what it "
                "is (docs/fit.md).",
        .options = options,
        .after =
                "  capo fit capo-logs/ -o mycluster.json\n"
                "  capo fit --default own-*.txt --algo ring --proto simple ring-*.txt --algo tree --proto ll128 tree-*.txt -o mycluster.json\n"
                "  capo fit --model '{1,2,3}+{0-4}' --platform dgx1v -o fragment.json",
        .status =
                "0, also when nothing is certain and the profile is empty; 1 there is nothing to fit, or something failed; 2 wrong command line.",
        .most = UINT_MAX,
        .size = sizeof(struct job),
        .defaults = &defaults,
        .take = add_fit_input,
        .run = run_fit,
};
