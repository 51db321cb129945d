/* SPDX-License-Identifier: Apache-2.0 */
/* capo expect: is a measured bandwidth normal for this machine? */

#include "capo/call_ids.h"
#include "capo/msg.h"
#include "cli/base/cli_json.h"
#include "cli/base/cli_machine.h"
#include "cli/base/cli_recorded.h"
#include "cli/expect/cmd_expect.h"
#include "core/base/calls.h"
#include "core/base/file.h"
#include "core/base/xalloc.h"
#include "profiles/fragment/bound.h"
#include "profiles/machine/platform.h"

/* Ceilings for more ranks take minutes; NCCL on virtual GPUs also has this limit. */
enum { CEILING_RANKS = 32, ASKS_MOST = 64, EVIDENCE_BYTES = 1 << 26 };

struct options {
        struct cli_inputs inputs;
        struct cli_machine_words machine;
        const char *gpus, *alloc, *libnccl;
        uint8_t call;
        uint64_t bytes;
        double busbw;
        enum cli_form form;
        bool no_nccl;
};

/* A number on the command line is one row. */
static int take_number(const struct options *o, struct expect_page *page)
{
        page->what = "the number given";
        page->rows = xcalloc(1, sizeof *page->rows);
        page->rows[page->n_rows++] =
                (struct capo_expected_row){.call = o->call ? o->call : (uint8_t)CAPO_CALL_ALLREDUCE,
                                           .bytes = o->bytes ? o->bytes : UINT64_C(1) << 30,
                                           .measured = o->busbw};
        return 0;
}

/* Options supply what a file lacks, or what lost lines would have said. */
static void label_inputs(struct options *o)
{
        struct capo_layout layout;
        bool has_layout = o->alloc && capo_layout_parse(o->alloc, &layout, NULL) == 0;

        for (size_t i = 0; i < o->inputs.n; i++) {
                struct capo_label *label = &o->inputs.v[i].label;

                label->call = o->call;
                if (!has_layout)
                        continue;
                label->n_ranks = (int)layout.n_ranks;
                label->n_nodes = (int)layout.n_nodes;
                capo_layout_print(&layout, label->layout, sizeof label->layout);
        }
}

static void drop_other_calls(struct expect_page *page, unsigned call)
{
        size_t n = 0;

        for (size_t i = 0; i < page->n_rows; i++) {
                if (!call || page->rows[i].call == call)
                        page->rows[n++] = page->rows[i];
        }
        page->n_rows = n;
}

/* The machine of the options, else the one that capo run recorded. Return: 0; 1: not known;
 * -EINVAL, printed. */
static int find_machine(const struct options *o, struct expect_page *page, char *recorded,
                        size_t room, struct capo_topology **t, struct cli_machine_source *source)
{
        struct cli_machine_words words = o->machine;
        const char *misfit;

        if (words.topo && !strcmp(words.topo, "this")) {
                words.topo = NULL;
        } else if (!words.topo && !words.platform) {
                if (!page->job || cli_recorded_topology(page->job, recorded, room) < 0) {
                        expect_missing(page, "which machine it is: --platform NAME or --topo FILE");
                        return 1;
                }
                words.topo = recorded;
        }
        if (cli_machine_load("expect", &words, t, source) < 0)
                return -EINVAL;
        misfit = capo_expected_misfit(page->gpu, (*t)->n_gpus ? (*t)->gpus[0].sm : 0,
                                      o->machine.platform);
        if (misfit)
                return capo_fail(-EINVAL, "expect: %s was measured on %s, which %s: %s", page->what,
                                 page->gpu, misfit,
                                 o->machine.platform ? o->machine.platform : (*t)->name);
        page->machine = (*t)->name;
        page->shape.named = o->machine.platform != NULL;
        page->shape.platform = o->machine.platform ? o->machine.platform : (*t)->platform;
        page->shape.n_nics = (*t)->n_nics;
        return 0;
}

/* The GPUs of the options, else the first ones in the measured layout. */
static int find_allocation(const struct options *o, struct expect_page *page,
                           const struct capo_topology *t, struct capo_alloc *a)
{
        const char *text = o->gpus ? o->gpus : o->alloc ? o->alloc : page->layout;
        struct capo_layout layout = {0};
        char why[512];

        if (!*text) {
                expect_missing(page, "how many ranks each node has: --alloc 8 or --alloc 2x8");
                return 1;
        }
        if (capo_alloc_parse(t, text, !o->gpus, a, why, sizeof why) < 0)
                return capo_fail(-EINVAL, "expect: %s", why);
        capo_alloc_layout(a, &layout);
        if (*page->layout && !capo_layout_equal(&layout, &page->shape.layout)) {
                capo_alloc_free(a);
                return capo_fail(-EINVAL, "expect: %s was measured on %s ranks per node, not on %s",
                                 page->what, page->layout, text);
        }
        page->shape.layout = layout;
        capo_layout_print(&layout, page->layout, sizeof page->layout);
        capo_alloc_print(t, a, page->allocation, sizeof page->allocation);
        return 0;
}

static void set_ceilings(struct expect_page *page, const struct capo_topology *t,
                         const struct capo_plan_gpu *gpus, size_t n)
{
        const struct capo_platform *rack = capo_platform_find(page->shape.platform);
        struct capo_expected_shape one = {.platform = ""}; /* all NVLinks go to its switches */
        struct fragment_bound bound;

        if (n > CEILING_RANKS && rack && rack->tray) {
                capo_layout_add(&one.layout, (uint32_t)n, 1);
                for (size_t i = 0; i < page->n_rows; i++)
                        capo_expected_by_gpu("GB200", &one, &page->rows[i]);
                return;
        }
        if (n > CEILING_RANKS) {
                expect_missing(page, "the ceiling of the links: computed for up to %d ranks",
                               CEILING_RANKS);
                return;
        }
        if (fragment_bound(t, gpus, n, &bound) < 0) {
                expect_missing(page, "the ceiling of the links: it cannot be computed");
                return;
        }
        for (size_t i = 0; i < page->n_rows; i++) {
                int coll = capo_coll_of_call(page->rows[i].call);

                page->rows[i].ceiling = coll < 0 ? 0 : bound.busbw_gbs[coll];
        }
}

/* Is NVLink the only connection between the GPUs of a node, and can its switches add? */
static void set_links(struct expect_page *page, const struct capo_topology *t)
{
        for (size_t i = 0; i < t->n_gpus; i++)
                page->shape.sharp |= t->gpus[i].sm >= 90 && t->n_switches > 0;
        page->shape.nvlink = t->n_links > 0;
}

static void take_answers(struct expect_page *page, const struct capo_plan_answer *answer)
{
        for (size_t i = 0; i < page->n_rows; i++) {
                for (size_t k = 0; k < answer->n_rows; k++) {
                        const struct capo_plan_row *r = &answer->rows[k];

                        if (capo_coll_of_call(page->rows[i].call) != (int)r->coll ||
                            page->rows[i].bytes != r->bytes || !isfinite(r->busbw_gbs))
                                continue;
                        page->rows[i].predicted = r->busbw_gbs;
                        snprintf(page->ran[i], sizeof page->ran[i], "%s %s",
                                 capo_algo_name(r->algo), capo_proto_name(r->proto));
                }
        }
        page->asked = (uint32_t)answer->version;
}

static void ask_nccl(const struct options *o, struct expect_page *page,
                     const struct cli_machine_source *source, const struct capo_topology *t,
                     const struct capo_plan_gpu *gpus, size_t n)
{
        _cleanup_free_ struct cli_machine_asker *asker = xcalloc(1, sizeof *asker);
        struct capo_plan_ask asks[ASKS_MOST];
        struct capo_plan_answer answer;
        char why[1024] = "no memory";
        size_t n_asks = 0;
        int r;

        for (size_t i = page->n_rows; i-- > 0 && n_asks < N_ELEMENTS(asks);) {
                int coll = capo_coll_of_call(page->rows[i].call);

                if (coll >= 0)
                        asks[n_asks++] = (struct capo_plan_ask){coll, page->rows[i].bytes};
        }
        if (o->no_nccl || !n_asks)
                return;
        r = cli_machine_asker(source, t, o->libnccl, asker, why, sizeof why);
        if (r == 0)
                r = fragment_ask(&asker->machine, gpus, (int)n, asks, n_asks, &answer, why,
                                 sizeof why);
        if (r != 0) {
                expect_missing(page, "NCCL's own prediction: %s", why);
                return;
        }
        take_answers(page, &answer);
}

static int find_normal(const struct options *o, struct expect_page *page)
{
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        _cleanup_free_ struct capo_plan_gpu *gpus = NULL;
        struct cli_machine_source source;
        struct capo_alloc a = {0};
        char recorded[4096];
        int r = find_machine(o, page, recorded, sizeof recorded, &t, &source);

        if (r == 0)
                r = find_allocation(o, page, t, &a);
        if (r == 0) {
                gpus = capo_alloc_ranks(t, &a);
                set_links(page, t);
                set_ceilings(page, t, gpus, (size_t)a.n_ranks);
                ask_nccl(o, page, &source, t, gpus, (size_t)a.n_ranks);
                capo_alloc_free(&a);
        }
        for (size_t i = 0; i < page->n_rows && r >= 0; i++) {
                struct capo_expected_shape like =
                        page->shape; /* of such GPUs, on a machine not known */

                if (r == 0 || !capo_expected_by_gpu(page->gpu, &like, &page->rows[i])) {
                        capo_expected_judge(&page->shape, &page->rows[i]);
                } else {
                        page->shape.nvlink = like.nvlink;
                        page->shape.sharp = like.sharp;
                }
        }
        if (r < 0)
                return r;
        return CLI_FORM_PRINT(o->form, expect_sheet(page), expect_json(page),
                              JSON_INDENT(2) | JSON_REAL_PRECISION(6), "rows");
}

enum input_kind { INPUT_OTHER, INPUT_TEST, INPUT_EVIDENCE };

/* A test says alone what was measured; NCCL's log or nvidia-smi topo -m without numbers is evidence. */
static enum input_kind input_kind(const char *path)
{
        _cleanup_free_ char *text = NULL;
        size_t size;

        if (capo_file_read(path, EVIDENCE_BYTES, &text, &size) < 0)
                return INPUT_OTHER;
        if (strstr(text, "busbw"))
                return INPUT_TEST;
        return strstr(text, " NCCL INFO ") || strstr(text, " NCCL WARN ") ||
                               strstr(text, "CPU Affinity")
                       ? INPUT_EVIDENCE
                       : INPUT_OTHER;
}

/* The page of @inputs, or of the number of the options. Return: the exit status. */
static int expect_one(const struct options *o, const struct cli_inputs *inputs,
                      const struct cli_inputs *beside)
{
        struct expect_page page = {.shape.platform = ""};
        const struct capo_expected_row *row;
        int r, status = CAPO_EXIT_UNKNOWN;

        if (inputs->n)
                page.what = inputs->v[0].path;
        r = inputs->n ? expect_measured(&page, inputs) : take_number(o, &page);
        for (size_t i = 0; i < beside->n && r == 0; i++)
                expect_evidence(&page, beside->v[i].path);
        if (r == 0) {
                drop_other_calls(&page, inputs->n ? o->call : 0);
                capo_layout_print(&page.shape.layout, page.layout, sizeof page.layout);
                page.ran = xcalloc(page.n_rows + 1, sizeof *page.ran);
                r = find_normal(o, &page);
        }
        row = r == 0 ? expect_main(&page) : NULL;
        if (row && row->verdict != CAPO_EXPECTED_UNKNOWN)
                status = row->verdict == CAPO_EXPECTED_NORMAL ? CAPO_EXIT_OK : CAPO_EXIT_FAIL;
        return r == -EINVAL ? CAPO_EXIT_USAGE : r < 0 ? CAPO_EXIT_UNKNOWN : status;
}

/* Several tests never become one number: each has its page. Texts without numbers are evidence of
 * all. */
static int run_expect(void *options, int n, char **words)
{
        struct options *o = options;
        struct cli_inputs beside = {0}, rest = {0}, one = {.n = 1};
        size_t tests = 0;
        int status = -1, s;

        if (!o->inputs.n && o->busbw <= 0)
                return capo_fail(CAPO_EXIT_USAGE,
                                 "expect: what was measured? A file, logs, or --busbw GBS");
        if (o->inputs.n && (o->busbw > 0 || o->bytes))
                return capo_fail(CAPO_EXIT_USAGE,
                                 "expect: %s: --busbw and --size are for a number without a file",
                                 o->inputs.v[0].path);
        label_inputs(o);
        beside.v = xcalloc(o->inputs.n + 1, sizeof *beside.v);
        rest.v = xcalloc(o->inputs.n + 1, sizeof *rest.v);
        for (size_t i = 0; i < o->inputs.n; i++) {
                enum input_kind kind = o->inputs.n > 1 ? input_kind(o->inputs.v[i].path) : 0;
                struct cli_inputs *to = kind == INPUT_EVIDENCE ? &beside : &rest;

                to->v[to->n++] = o->inputs.v[i];
                tests += kind == INPUT_TEST;
        }
        if (tests > 1 && (o->form == CLI_FORM_JSON || o->form == CLI_FORM_CSV))
                status = capo_fail(CAPO_EXIT_USAGE,
                                   "expect: %zu tests: as JSON or CSV one at a time", tests);
        else if (tests < 2)
                status = expect_one(o, &rest, &beside);
        for (size_t i = 0; i < rest.n && status != CAPO_EXIT_USAGE && tests > 1; i++) {
                one.v = &rest.v[i];
                s = expect_one(o, &one, &beside);
                status = s == CAPO_EXIT_FAIL || status < 0 ? s : status;
                if (i + 1 < rest.n)
                        putchar('\n');
        }
        free(beside.v);
        free(rest.v);
        if (fflush(stdout) != 0 || ferror(stdout)) /* main() prints why */
                return CAPO_EXIT_FAIL;
        return status;
}

static int add_expect_input(void *options, char *word)
{
        return cli_inputs_add(&((struct options *)options)->inputs, word);
}

static const char *take_call(void *call, const char *value)
{
        *(uint8_t *)call = (uint8_t)capo_call_find(value);
        return *(uint8_t *)call ? NULL : "a collective such as all_reduce";
}

static const char *take_size(void *bytes, const char *value)
{
        uint64_t most;

        return capo_size_range(value, bytes, &most) == 0 && *(uint64_t *)bytes == most && most
                       ? NULL
                       : "a size above 0 such as 64K or 1G";
}

static const struct cli_option options[] = {
        {"platform", CLI_TEXT(struct options, machine.platform, "NAME"),
         "the machine: dgx1v, dgxa100, p5, hgxh100, ... (capo plan --help=all lists them)"},
        {"topo", CLI_FILE(struct options, machine.topo, "FILE"),
         "the machine as in capo topo; --topo this: the one you are on. Default: what capo run "
         "recorded beside the logs"},
        {"alloc", CLI_TEXT(struct options, alloc, "SIZES"),
         "ranks per node, where the input does not say: 8, 2x8, 3+5", .example = "2x8"},
        {"gpus", CLI_TEXT(struct options, gpus, "LIST"),
         "exactly these GPUs, as in capo topo: 0:1,2,3;1:0-4"},
        {"coll", CLI_TAKE(struct options, call, "C", take_call), "only this collective",
         .example = "all_reduce"},
        {"busbw", CLI_NUMBER(struct options, busbw, "GBS", 1e-6, 1e6),
         "a number in place of a file: bus bandwidth of --coll (AllReduce) at --size (1G)"},
        {"size", CLI_TAKE(struct options, bytes, "SIZE", take_size), "the size of --busbw",
         .example = "1G"},
        {"libnccl", CLI_FILE(struct options, libnccl, "FILE"),
         "the libnccl.so.2 to ask for its prediction"},
        {"no-nccl", CLI_FLAG(struct options, no_nccl), "do not ask NCCL, which takes seconds"},
        CLI_FORM_JSON_OPTION(struct options, form),
        CLI_FORM_CSV_OPTION(struct options, form),
        CLI_FORM_MARKDOWN_OPTION(struct options, form),
        CLI_WIDE,
        {0}};

const struct cli_command expect_command = {
        .usage = "INPUT... [--platform NAME | --topo FILE] [--alloc 2x8] [OPTIONS]\n"
                 "--busbw GBS --platform NAME --alloc 2x8 [--coll C] [--size SIZE]",
        .about = "Says whether a measured bus bandwidth is normal. It is compared with public "
                 "measurements of such a machine, with what real NCCL predicts for it on virtual "
                 "GPUs, and with the most that the links carry. If it is low, the page lists "
                 "what to check, in order; what a log line or a recorded setting shows comes "
                 "first.\n"
                 "\n"
                 "INPUT is output of nccl-tests (best with its NCCL_DEBUG lines), a folder of "
                 "capo logs, also of a running job, or another file that capo fit reads.",
        .options = options,
        .after =
                "  all_reduce_perf -b 8 -e 8G -f 2 -g 8 | tee tests.log; capo expect tests.log --platform p5\n"
                "  capo expect capo-logs/ --topo this\n"
                "  capo expect --busbw 9 --platform p5 --alloc 2x8",
        .status =
                "0 normal; 1 low, not normal or not possible, 2 wrong command line, 3 nothing to compare with.",
        .most = UINT_MAX,
        .size = sizeof(struct options),
        .take = add_expect_input,
        .run = run_expect,
};
