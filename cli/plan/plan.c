/* SPDX-License-Identifier: Apache-2.0 */
/* capo plan: the command line, made into a question, asked once without and once with the profile. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/plan/plan.h"
#include "cli/base/plan_tools.h"
#include "cli/topo/topo.h"
#include "core/base/layout.h"
#include "core/base/nccl.h"
#include "core/base/util.h"
#include "profiles/fragment/atlas.h"
#include "profiles/machine/platform.h"

static void usage(FILE *out)
{
        const struct capo_platform *p;

        fputs("usage: capo plan --topo FILE[,FILE...] [--alloc 3+5 | --gpus 0:1,2,3;1:0-4] [OPTIONS]\n"
              "       capo plan --platform NAME ...\n\n"
              "Asks the real, unmodified libnccl what it will do on a machine that is not here: it is loaded on "
              "virtual GPUs,\n"
              "reads the topology, searches its graphs, computes its costs and decides. No GPU is needed and none is "
              "used.\n"
              "Decisions are NCCL's own. Times are NCCL's model; nothing is measured.\n\n"
              "The machine\n"
              "  --topo FILE,...     NCCL topology XML (NCCL_TOPO_DUMP_FILE of a job, a provider's file, capo topo "
              "capture);\n"
              "                      with several, one per node, the last for all further nodes\n"
              "  --platform NAME     completes a file that leaves NVLinks to the driver; alone it supplies the "
              "machine\n"
              "The allocation; default: every GPU of one machine\n"
              "  --alloc 3+5         the first 3 GPUs of one node and the first 5 of another; 4x8 is four nodes of 8\n"
              "  --gpus 0:1,2,3;1:0-4  these GPUs of these nodes; 1,4,6 for one node\n"
              "The questions\n"
              "  --coll allreduce,...  broadcast, reduce, allgather, reducescatter, allreduce, or all; default "
              "allreduce\n"
              "  --sizes 1K..1G*2    from..to times step (or +step), or a list; default 1K..1G*4\n"
              "  --nccl FILE         the libnccl.so.2 to ask; default CAPO_NCCL or the one found on this machine\n"
              "With a tuner\n"
              "  --profile P         ask again with capo's tuner plugin and this profile, and show where they differ\n"
              "  --allow-modelled    with its modelled rules too, which no clock has seen\n"
              "  --layout L          what a launcher tells capo's tuner of the ranks per node (CAPO_LAYOUT); default: "
              "the\n"
              "                      truth; none: nothing\n"
              "  --tuner FILE.so     ask again with another tuner plugin\n"
              "  --spy               print what a tuner is told: init arguments, model constants, cost tables\n"
              "Output\n"
              "  --graph-file F,...  NCCL_GRAPH_FILE of each node, - for none (capo graph writes them)\n"
              "  --graph             also the rings and trees, link types and bandwidths that NCCL found\n"
              "  --log               also NCCL's own lines of INIT, GRAPH and TUNING, as NCCL_DEBUG=INFO prints them\n"
              "  --all               with --every i+j: ask every split, also those that symmetry makes equal\n"
              "  --json, --csv       for programs\n"
              "  --every 3           all 3-GPU subsets of the machine, grouped by what NCCL makes of them; 3+5: all "
              "splits\n"
              "  --jobs N            questions asked at a time with --every; default: one per processor\n"
              "  --timeout S         kill NCCL after S seconds; default 60, and 1 per rank\n\n"
              "NCCL_* settings of the environment hold for the NCCL that is asked (NCCL_ALGO, NCCL_MAX_NCHANNELS, "
              "...).\n\n"
              "platforms:\n",
              out);
        for (size_t i = 0; (p = capo_platform_at(i)); i++) {
                if (p->from == CAPO_PLATFORM_FILE)
                        fprintf(out, "  %-10s %s\n", p->name, p->what);
        }
        fputs("\nexamples:\n"
              "  capo plan --platform dgx1v --gpus '0:1,2,3;1:0-4' --coll allreduce --sizes 64K..1G*4\n"
              "  capo plan --topo node.xml --alloc 3+5 --profile mycluster.json\n"
              "  capo plan --platform dgx1v --every 3\n\n"
              "exit status: 0 answered, 1 it could not be asked or ranks disagree, 2 the command line is wrong\n",
              out);
}

const char *plan_version_text(int version, char text[16])
{
        return capo_nccl_text((uint32_t)version, text, 16);
}

const char *plan_layout(const struct plan_options *o, char *text, size_t room)
{
        struct capo_layout layout = {0};

        for (unsigned node = 0, left = (unsigned)o->n_ranks; left && !o->layout; node++) {
                uint32_t ranks = 0;

                for (size_t r = 0; r < o->n_ranks; r++)
                        ranks += o->ranks[r].node == node;
                if (ranks)
                        (void)capo_layout_add(&layout, ranks, 1);
                left -= ranks;
        }
        return o->layout ? o->layout : capo_layout_print(&layout, text, room);
}

int plan_layout_option(struct plan_options *o, const char *text)
{
        struct capo_layout layout;
        const char *at;

        if (!strcmp(text, "none"))
                text = "";
        else if (capo_layout_parse(text, &layout, &at) < 0) {
                capo_error("--layout %s: expected ranks per node, such as 3+5, or none; found \"%.20s\"", text, at);
                return CAPO_EXIT_USAGE;
        }
        o->layout = text;
        return CAPO_EXIT_OK;
}

struct capo_plan_question plan_question(const struct plan_options *o, bool tuned)
{
        struct capo_plan_question q = {
                .tools = o->tools,
                .libnccl = o->libnccl,
                .topo = o->topo,
                .n_topo = o->n_topo,
                .platform = o->platform,
                .gpus = o->ranks,
                .n_ranks = o->n_ranks,
                .asks = o->asks,
                .n_asks = o->n_asks,
                .graph = true,
                .log = o->log,
                .graph_files = o->n_graph_files ? o->graph_files : NULL,
                .n_graph_files = o->n_graph_files,
                .timeout_ms = o->timeout_ms,
        };

        if (tuned) {
                q.tuner = o->tuner ? o->tuner : o->plugin;
                q.profile = o->profile ? o->profile_path : NULL;
                q.allow_modelled = o->allow_modelled;
                q.layout = o->layout;
                q.fragment = *o->class ? o->class : NULL;
                q.wrap = o->spy;
        }
        return q;
}

static int parse_colls(struct plan_options *o, enum capo_coll *colls, size_t *n)
{
        static const enum capo_coll order[] = {CAPO_COLL_ALLREDUCE, CAPO_COLL_ALLGATHER, CAPO_COLL_REDUCESCATTER,
                                               CAPO_COLL_BROADCAST, CAPO_COLL_REDUCE};
        _cleanup_free_ char *copy = strdup(o->colls);
        char *save = NULL;

        *n = 0;
        for (char *word = copy ? strtok_r(copy, ",", &save) : NULL; word; word = strtok_r(NULL, ",", &save)) {
                int coll = capo_coll_find(word);

                if (!strcasecmp(word, "all")) {
                        memcpy(colls, order, sizeof order);
                        *n = N_ELEMENTS(order);
                        return 0;
                }
                if (coll < 0 || *n == CAPO_COLLS) {
                        capo_error("--coll %s: expected broadcast, reduce, allgather, reducescatter, allreduce or all",
                                   word);
                        return -EINVAL;
                }
                colls[(*n)++] = (enum capo_coll)coll;
        }
        if (!*n)
                capo_error("--coll: no collective named");
        return *n ? 0 : -EINVAL;
}

static int make_asks(struct plan_options *o)
{
        enum { SIZES = 1000 };
        _cleanup_free_ uint64_t *sizes = calloc(SIZES, sizeof *sizes);
        enum capo_coll colls[CAPO_COLLS];
        char why[256];
        size_t n_colls;
        long n;

        if (!sizes || parse_colls(o, colls, &n_colls) < 0)
                return -EINVAL;
        n = capo_plan_sizes_parse(o->sizes, sizes, SIZES, why, sizeof why);
        if (n < 0) {
                capo_error("--sizes: %s", why);
                return -EINVAL;
        }
        o->asks = calloc(n_colls * (size_t)n, sizeof *o->asks);
        for (size_t c = 0; o->asks && c < n_colls; c++) {
                for (long i = 0; i < n; i++)
                        o->asks[o->n_asks++] = (struct capo_plan_ask){colls[c], sizes[i]};
        }
        return o->asks ? 0 : -ENOMEM;
}

static int find_parts(struct plan_options *o)
{
        if (capo_plan_tools_find(o->tools, sizeof o->tools) < 0) {
                capo_error("plan: capo-plan-worker is missing from this installation");
                return -ENOENT;
        }
        if (o->nccl) {
                if (!realpath(o->nccl, o->libnccl)) {
                        capo_error("--nccl %s: %s", o->nccl, strerror(errno));
                        return -ENOENT;
                }
        } else if (capo_plan_find_libnccl(o->libnccl, sizeof o->libnccl) < 0) {
                capo_error("plan: no libnccl.so.2 found on this machine; --nccl FILE names one (pip install "
                           "nvidia-nccl-cu13 has one)");
                return -ENOENT;
        }
        if (o->profile && !o->tuner && capo_plan_tuner_find(o->plugin, sizeof o->plugin) < 0) {
                capo_error("plan: capo's tuner plugin is missing from this installation");
                return -ENOENT;
        }
        if (o->profile && !realpath(o->profile, o->profile_path)) /* a stored profile's name */
                snprintf(o->profile_path, sizeof o->profile_path, "%s", o->profile);
        return 0;
}

static int find_machine(struct plan_options *o)
{
        char why[512];
        int n;

        if (!o->n_topo && o->platform) {
                if (capo_plan_stored_topology(o->platform, o->stored, sizeof o->stored) < 0) {
                        capo_error("--platform %s: not one of those that capo plan --help lists", o->platform);
                        return -EINVAL;
                }
                o->topo[o->n_topo++] = o->stored;
        }
        if (!o->n_topo) {
                capo_error("plan: name a machine with --topo or --platform; capo plan --help");
                return -EINVAL;
        }
        n = capo_plan_machine_gpus(o->topo[0], o->platform, o->devs, why, sizeof why);
        if (n < 0) {
                capo_error("%s", why);
                return n;
        }
        o->n_devs = (size_t)n;
        return 0;
}

static int find_ranks(struct plan_options *o)
{
        char why[512];
        int r;

        if (o->gpus) {
                r = capo_plan_gpus_parse(o->gpus, o->ranks, CAPO_PLAN_RANKS_MAX, &o->n_ranks, why, sizeof why);
        } else {
                char all[16];

                snprintf(all, sizeof all, "%zu", o->n_devs);
                r = capo_plan_alloc_parse(o->alloc ? o->alloc : all, o->devs, o->n_devs, o->ranks, CAPO_PLAN_RANKS_MAX,
                                          &o->n_ranks, why, sizeof why);
        }
        if (r < 0)
                capo_error("%s: %s", o->gpus ? "--gpus" : "--alloc", why);
        return r;
}

/* What capo run would export when told the same GPUs; rules may name it. Machines of several makes have no class. */
static void find_class(struct plan_options *o)
{
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        struct topo_options machine = {.topo = o->topo[0], .platform = o->platform, .partial = true};
        struct topo_source source;

        if (o->n_topo != 1 || topo_load("plan", &machine, &t, &source) < 0 || !t->n_links ||
            fragment_class(t, o->ranks, o->n_ranks, o->class, sizeof o->class) < 0)
                *o->class = 0;
}

enum {
        O_TOPO = 256,
        O_PLATFORM,
        O_ALLOC,
        O_LAYOUT,
        O_GPUS,
        O_COLL,
        O_SIZES,
        O_NCCL,
        O_PROFILE,
        O_MODELLED,
        O_TUNER,
        O_SPY,
        O_GRAPH,
        O_ALL,
        O_LOG,
        O_GRAPH_FILE,
        O_JSON,
        O_CSV,
        O_EVERY,
        O_JOBS,
        O_TIMEOUT,
        O_HELP
};

static int take_topo(struct plan_options *o, char *list)
{
        char *save = NULL;

        for (char *t = strtok_r(list, ",", &save); t; t = strtok_r(NULL, ",", &save)) {
                if (o->n_topo == N_ELEMENTS(o->topo)) {
                        capo_error("--topo: more than %zu files", N_ELEMENTS(o->topo));
                        return -EINVAL;
                }
                o->topo[o->n_topo++] = t;
        }
        return 0;
}

static int take_graph_files(struct plan_options *o, char *list)
{
        char *save = NULL;

        for (char *f = strtok_r(list, ",", &save); f; f = strtok_r(NULL, ",", &save)) {
                if (o->n_graph_files == N_ELEMENTS(o->graph_files)) {
                        capo_error("--graph-file: more than %zu files", N_ELEMENTS(o->graph_files));
                        return -EINVAL;
                }
                if (strcmp(f, "-") != 0 && access(f, R_OK) < 0) {
                        capo_error("--graph-file %s: %s", f, strerror(errno));
                        return -EINVAL;
                }
                o->graph_files[o->n_graph_files++] = strcmp(f, "-") ? f : NULL;
        }
        return 0;
}

static int take_number(const char *option, const char *text, double least, double most, double *out)
{
        char *end;

        *out = strtod(text, &end);
        if (*end || end == text || !(*out >= least && *out <= most)) {
                capo_error("%s %s: expected a number from %g to %g", option, text, least, most);
                return -EINVAL;
        }
        return 0;
}

static int take_every(struct plan_options *o, const char *text)
{
        char rest;

        if (sscanf(text, "%d+%d%c", &o->every, &o->every_2, &rest) != 2) {
                o->every_2 = 0;
                if (sscanf(text, "%d%c", &o->every, &rest) != 1)
                        o->every = 0;
        }
        if (o->every < 1 || o->every > CAPO_PLAN_GPUS_MAX || o->every_2 < 0 || o->every_2 > CAPO_PLAN_GPUS_MAX) {
                capo_error("--every %s: expected a number of GPUs, or two for all splits over two nodes, such as 3+5",
                           text);
                return -EINVAL;
        }
        return 0;
}

static int parse(struct plan_options *o, int argc, char **argv)
{
        static const struct option options[] = {
                {"topo", 1, NULL, O_TOPO},
                {"platform", 1, NULL, O_PLATFORM},
                {"alloc", 1, NULL, O_ALLOC},
                {"layout", 1, NULL, O_LAYOUT},
                {"gpus", 1, NULL, O_GPUS},
                {"coll", 1, NULL, O_COLL},
                {"sizes", 1, NULL, O_SIZES},
                {"nccl", 1, NULL, O_NCCL},
                {"profile", 1, NULL, O_PROFILE},
                {"tuner", 1, NULL, O_TUNER},
                {"spy", 0, NULL, O_SPY},
                {"graph", 0, NULL, O_GRAPH},
                {"all", 0, NULL, O_ALL},
                {"log", 0, NULL, O_LOG},
                {"json", 0, NULL, O_JSON},
                {"csv", 0, NULL, O_CSV},
                {"every", 1, NULL, O_EVERY},
                {"jobs", 1, NULL, O_JOBS},
                {"timeout", 1, NULL, O_TIMEOUT},
                {"help", 0, NULL, O_HELP},
                {"allow-modelled", 0, NULL, O_MODELLED},
                {"graph-file", 1, NULL, O_GRAPH_FILE},
                {NULL, 0, NULL, 0},
        };
        double v;
        int c;

        optind = 0;
        opterr = 0;
        while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
                switch (c) {
                case O_TOPO:
                        if (take_topo(o, optarg) < 0)
                                return CAPO_EXIT_USAGE;
                        break;
                case O_PLATFORM: o->platform = optarg; break;
                case O_ALLOC: o->alloc = optarg; break;
                case O_LAYOUT:
                        if (plan_layout_option(o, optarg))
                                return CAPO_EXIT_USAGE;
                        break;
                case O_GPUS: o->gpus = optarg; break;
                case O_COLL: o->colls = optarg; break;
                case O_SIZES: o->sizes = optarg; break;
                case O_NCCL: o->nccl = optarg; break;
                case O_PROFILE: o->profile = optarg; break;
                case O_TUNER: o->tuner = optarg; break;
                case O_MODELLED: o->allow_modelled = true; break;
                case O_SPY: o->spy = true; break;
                case O_GRAPH: o->graph = true; break;
                case O_GRAPH_FILE:
                        if (take_graph_files(o, optarg) < 0)
                                return CAPO_EXIT_USAGE;
                        break;
                case O_ALL: o->all = true; break;
                case O_LOG: o->log = true; break;
                case O_JSON: o->format = PLAN_JSON; break;
                case O_CSV: o->format = PLAN_CSV; break;
                case O_EVERY:
                        if (take_every(o, optarg) < 0)
                                return CAPO_EXIT_USAGE;
                        break;
                case O_JOBS:
                        if (take_number("--jobs", optarg, 1, 64, &v) < 0)
                                return CAPO_EXIT_USAGE;
                        o->jobs = (unsigned)v;
                        break;
                case O_TIMEOUT:
                        if (take_number("--timeout", optarg, 0.1, 3600, &v) < 0)
                                return CAPO_EXIT_USAGE;
                        o->timeout_ms = (unsigned)(v * 1000);
                        break;
                case O_HELP: usage(stdout); return -1;
                case ':': capo_error("plan: %s needs a value", argv[optind - 1]); return CAPO_EXIT_USAGE;
                default:
                        capo_error("plan: unknown option \"%s\"; capo plan --help", argv[optind - 1]);
                        return CAPO_EXIT_USAGE;
                }
        }
        if (optind < argc) {
                capo_error("plan: unexpected \"%s\"; capo plan --help", argv[optind]);
                return CAPO_EXIT_USAGE;
        }
        if (o->every && (o->profile || o->tuner)) {
                capo_error(
                        "plan: --every shows what NCCL does by itself; ask one allocation with --profile or --tuner");
                return CAPO_EXIT_USAGE;
        }
        if (o->alloc && o->gpus) {
                capo_error("plan: --alloc and --gpus say the same thing; give one");
                return CAPO_EXIT_USAGE;
        }
        return CAPO_EXIT_OK;
}

/* Both questions at once: they are separate processes. */
struct pair {
        struct capo_plan_answer *answers;
        int rc[2];
        char why[2][1024];
};

static int keep(size_t i, int rc, struct capo_plan_answer *answer, const char *why, void *arg)
{
        struct pair *pair = arg;

        pair->rc[i] = rc;
        snprintf(pair->why[i], sizeof pair->why[i], "%s", why);
        pair->answers[i] = *answer;
        memset(answer, 0, sizeof *answer);
        return 0;
}

int plan_ask(const struct plan_options *o, const char *verb, bool graph, struct capo_plan_answer answers[2])
{
        bool compare = o->profile || o->tuner;
        struct capo_plan_question q[2] = {plan_question(o, false), plan_question(o, true)};
        struct pair pair = {.answers = answers, .rc = {-ENOMEM, compare ? -ENOMEM : 0}};
        int r;

        q[0].graph = q[1].graph = graph;
        r = capo_plan_ask_all(q, compare ? 2 : 1, o->jobs, keep, &pair);
        for (int i = 0; i < 2; i++) {
                if (r == 0 && pair.rc[i] < 0) {
                        capo_error("%s%s: %s", verb, i ? " with the tuner" : "",
                                   pair.why[i][0] ? pair.why[i] : strerror(-pair.rc[i]));
                        r = pair.rc[i];
                }
        }
        return r == 0 ? CAPO_EXIT_OK : CAPO_EXIT_FAIL;
}

static int ask(struct plan_options *o)
{
        struct capo_plan_answer answers[2] = {0};
        int status = plan_ask(o, "plan", true, answers);

        if (status == CAPO_EXIT_OK)
                status = plan_print(o, &answers[0], o->profile || o->tuner ? &answers[1] : NULL);
        capo_plan_answer_finish(&answers[0]);
        capo_plan_answer_finish(&answers[1]);
        return status;
}

int plan_prepare(struct plan_options *o)
{
        if (make_asks(o) < 0)
                return CAPO_EXIT_USAGE;
        if (find_parts(o) < 0 || find_machine(o) < 0)
                return CAPO_EXIT_FAIL;
        if (o->every)
                return CAPO_EXIT_OK;
        if (find_ranks(o) < 0)
                return CAPO_EXIT_USAGE;
        if (o->profile)
                find_class(o);
        return CAPO_EXIT_OK;
}

int capo_verb_plan(int argc, char **argv)
{
        struct plan_options *o = calloc(1, sizeof *o);
        int status = CAPO_EXIT_FAIL;

        if (!o)
                return CAPO_EXIT_FAIL;
        for (size_t i = 0; i < 3; i++) {
                static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

                if (signal(signals[i], capo_plan_interrupt) == SIG_IGN) /* nohup */
                        signal(signals[i], SIG_IGN);
        }
        o->colls = "allreduce";
        o->sizes = "1K..1G*4";
        status = parse(o, argc, argv);
        if (status < 0)
                status = CAPO_EXIT_OK;
        else if (status == CAPO_EXIT_OK) {
                if (o->every && !strcmp(o->sizes, "1K..1G*4"))
                        o->sizes = "1M,256M";
                status = plan_prepare(o);
                if (status == CAPO_EXIT_OK)
                        status = o->every ? plan_every(o) : ask(o);
        }
        free(o->asks);
        free(o);
        return status;
}
