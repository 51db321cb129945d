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
#include "core/base/util.h"
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
                if (o->q.n_topo == N_ELEMENTS(o->q.topo)) {
                        capo_error("--topo: more than %zu files", N_ELEMENTS(o->q.topo));
                        return -EINVAL;
                }
                o->q.topo[o->q.n_topo++] = t;
        }
        return 0;
}

static int take_graph_files(struct plan_options *o, char *list)
{
        char *save = NULL;

        for (char *f = strtok_r(list, ",", &save); f; f = strtok_r(NULL, ",", &save)) {
                if (o->q.n_graph_files == N_ELEMENTS(o->q.graph_files)) {
                        capo_error("--graph-file: more than %zu files", N_ELEMENTS(o->q.graph_files));
                        return -EINVAL;
                }
                if (strcmp(f, "-") != 0 && access(f, R_OK) < 0) {
                        capo_error("--graph-file %s: %s", f, strerror(errno));
                        return -EINVAL;
                }
                o->q.graph_files[o->q.n_graph_files++] = strcmp(f, "-") ? f : NULL;
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
                case O_PLATFORM: o->q.platform = optarg; break;
                case O_ALLOC: o->q.alloc = optarg; break;
                case O_LAYOUT:
                        if (question_layout_option(&o->q, optarg))
                                return CAPO_EXIT_USAGE;
                        break;
                case O_GPUS: o->q.gpus = optarg; break;
                case O_COLL: o->q.colls = optarg; break;
                case O_SIZES: o->q.sizes = optarg; break;
                case O_NCCL: o->q.nccl = optarg; break;
                case O_PROFILE: o->q.profile = optarg; break;
                case O_TUNER: o->q.tuner = optarg; break;
                case O_MODELLED: o->q.allow_modelled = true; break;
                case O_SPY: o->q.spy = true; break;
                case O_GRAPH: o->graph = true; break;
                case O_GRAPH_FILE:
                        if (take_graph_files(o, optarg) < 0)
                                return CAPO_EXIT_USAGE;
                        break;
                case O_ALL: o->all = true; break;
                case O_LOG: o->q.log = true; break;
                case O_JSON: o->format = PLAN_JSON; break;
                case O_CSV: o->format = PLAN_CSV; break;
                case O_EVERY:
                        if (take_every(o, optarg) < 0)
                                return CAPO_EXIT_USAGE;
                        break;
                case O_JOBS:
                        if (take_number("--jobs", optarg, 1, 64, &v) < 0)
                                return CAPO_EXIT_USAGE;
                        o->q.jobs = (unsigned)v;
                        break;
                case O_TIMEOUT:
                        if (take_number("--timeout", optarg, 0.1, 3600, &v) < 0)
                                return CAPO_EXIT_USAGE;
                        o->q.timeout_ms = (unsigned)(v * 1000);
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
        if (o->every && (o->q.profile || o->q.tuner)) {
                capo_error(
                        "plan: --every shows what NCCL does by itself; ask one allocation with --profile or --tuner");
                return CAPO_EXIT_USAGE;
        }
        if (o->q.alloc && o->q.gpus) {
                capo_error("plan: --alloc and --gpus say the same thing; give one");
                return CAPO_EXIT_USAGE;
        }
        return CAPO_EXIT_OK;
}

static int print(struct plan_options *o, const struct capo_plan_answer *own, const struct capo_plan_answer *with)
{
        _cleanup_(capo_profile_freep) struct capo_profile *profile = NULL;
        char layout[CAPO_LAYOUT_TEXT];
        struct capo_plan_by by = {.layout = question_layout(&o->q, layout, sizeof layout),
                                  .class = o->q.class,
                                  .allow_modelled = o->q.allow_modelled,
                                  .n_ranks = (unsigned)o->q.n_ranks};
        struct capo_plan_comparison c;
        bool agree;

        o->by_rules = with && o->q.profile && !o->q.tuner && capo_profile_load(o->q.profile_path, &profile, NULL) == 0;
        by.profile = profile;
        if (capo_plan_compare(own, with, &by, &c) < 0)
                return CAPO_EXIT_FAIL;
        if (c.modelled_left)
                capo_info("modelled rules of the profile that are not used: %u; --allow-modelled uses them",
                          c.modelled_left);
        switch (o->format) {
        case PLAN_TEXT: plan_text(o, own, with, &c); break;
        case PLAN_JSON: plan_json(o, own, with, &c); break;
        case PLAN_CSV: plan_csv(own, &c); break;
        }
        agree = c.agree;
        capo_plan_comparison_finish(&c);
        if (agree)
                return CAPO_EXIT_OK;
        capo_error("plan: ranks decided differently: such a job hangs or computes nonsense");
        return CAPO_EXIT_FAIL;
}

static int ask(struct plan_options *o)
{
        struct capo_plan_answer answers[2] = {0};
        int status = question_ask(&o->q, "plan", true, answers);

        if (status == CAPO_EXIT_OK)
                status = print(o, &answers[0], o->q.profile || o->q.tuner ? &answers[1] : NULL);
        capo_plan_answer_finish(&answers[0]);
        capo_plan_answer_finish(&answers[1]);
        return status;
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
        o->q.colls = "allreduce";
        o->q.sizes = "1K..1G*4";
        status = parse(o, argc, argv);
        if (status < 0)
                status = CAPO_EXIT_OK;
        else if (status == CAPO_EXIT_OK) {
                if (o->every && !strcmp(o->q.sizes, "1K..1G*4"))
                        o->q.sizes = "1M,256M";
                status = question_prepare(&o->q, "plan");
                if (status == CAPO_EXIT_OK && !o->every)
                        status = question_ranks(&o->q, "plan");
                if (status == CAPO_EXIT_OK)
                        status = o->every ? plan_every(o) : ask(o);
        }
        question_finish(&o->q);
        free(o);
        return status;
}
