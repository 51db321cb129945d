/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capo explain: why one call runs as it does. Three sources, each shown only as far as it was asked: the profile's
 * rules for the job's shape; real NCCL's predicted costs on virtual GPUs, before and after the tuner; what a recorded
 * job really ran.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/explain/explain.h"
#include "core/base/calls.h"
#include "core/base/nccl.h"
#include "core/profile/find.h"
#include "core/base/size.h"
#include "core/base/util.h"

static void help(void)
{
        puts("usage: capo explain CALL SIZE --platform NAME|--topo FILE [--alloc 3+5|--gpus ...] [--profile P] [--nccl "
             "FILE]\n"
             "       capo explain CALL SIZE --ranks N --nodes M [--layout 3+5] [--nccl-version 2.28.9] --profile P\n"
             "       capo explain CALL SIZE --log DIR [--comm NAME]\n\n"
             "Says for one call why it runs as it does: every candidate with NCCL's predicted cost, the rule of the "
             "profile\n"
             "that decides (file and line) and why the others do not, what runs, and what blocked what the profile "
             "wanted.\n\n"
             "  first form   asks the real libnccl on virtual GPUs, as capo plan does: costs are NCCL's model, nothing "
             "is measured\n"
             "  second form  only the profile's rules, for a job of that shape\n"
             "  third form   what a recorded job ran at that size, and by which rule\n\n"
             "CALL is allreduce, broadcast, reduce, allgather or reducescatter (in the third form any recorded call); "
             "SIZE is\n"
             "as in nccl-tests: 64K, 25M; for all-gather and reduce-scatter the total over ranks.\n\n"
             "  --layout 3+5  what a launcher says of the ranks per node; in the first form the allocation itself "
             "unless "
             "given,\n"
             "                and none for a launcher that says nothing\n"
             "  --allow-modelled  also use the profile's modelled rules, as capo run does with that option\n"
             "  --json       for programs\n\n"
             "  capo explain allreduce 1M --platform dgx1v --gpus '0:1,2,3;1:0-4' --profile mycluster.json\n"
             "  capo explain allreduce 25M --log capo-logs/48213 --comm dp\n\n"
             "Exit status: 0 explained, 1 could not be, 2 wrong command line.");
}

enum {
        O_TOPO = 256,
        O_PLATFORM,
        O_ALLOC,
        O_GPUS,
        O_NCCL,
        O_PROFILE,
        O_MODELLED,
        O_RANKS,
        O_NODES,
        O_LAYOUT,
        O_VERSION,
        O_LOG,
        O_COMM,
        O_JSON,
        O_HELP,
};

static int take_number(const char *option, const char *text, int *out)
{
        char *end;
        long v = strtol(text, &end, 10);

        if (*end || end == text || v < 1 || v > 1 << 24) {
                capo_error("%s %s: expected a number of at least 1", option, text);
                return CAPO_EXIT_USAGE;
        }
        *out = (int)v;
        return CAPO_EXIT_OK;
}

static int take_version(const char *text, int *out)
{
        int last;

        if (capo_nccl_parse(text, out, &last, NULL) < 0 || *out < 20000) {
                capo_error("--nccl-version %s: expected a release such as 2.28.9", text);
                return CAPO_EXIT_USAGE;
        }
        return CAPO_EXIT_OK;
}

/* -1: help was asked for. */
static int parse(struct explain *e, int argc, char **argv)
{
        static const struct option options[] = {
                {"topo", 1, NULL, O_TOPO},
                {"platform", 1, NULL, O_PLATFORM},
                {"alloc", 1, NULL, O_ALLOC},
                {"gpus", 1, NULL, O_GPUS},
                {"nccl", 1, NULL, O_NCCL},
                {"profile", 1, NULL, O_PROFILE},
                {"allow-modelled", 0, NULL, O_MODELLED},
                {"ranks", 1, NULL, O_RANKS},
                {"nodes", 1, NULL, O_NODES},
                {"layout", 1, NULL, O_LAYOUT},
                {"nccl-version", 1, NULL, O_VERSION},
                {"log", 1, NULL, O_LOG},
                {"comm", 1, NULL, O_COMM},
                {"json", 0, NULL, O_JSON},
                {"help", 0, NULL, O_HELP},
                {NULL, 0, NULL, 0},
        };
        int c, r = CAPO_EXIT_OK;

        optind = 0;
        opterr = 0;
        while (r == CAPO_EXIT_OK && (c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
                switch (c) {
                case O_TOPO:
                        e->plan.topo[0] = optarg;
                        e->plan.n_topo = 1;
                        break;
                case O_PLATFORM: e->plan.platform = optarg; break;
                case O_ALLOC: e->plan.alloc = optarg; break;
                case O_GPUS: e->plan.gpus = optarg; break;
                case O_NCCL: e->plan.nccl = optarg; break;
                case O_PROFILE: e->profile_name = optarg; break;
                case O_MODELLED: e->shape.allow_modelled = e->plan.allow_modelled = true; break;
                case O_RANKS: r = take_number("--ranks", optarg, &e->shape.n_ranks); break;
                case O_NODES: r = take_number("--nodes", optarg, &e->shape.n_nodes); break;
                case O_LAYOUT:
                        r = question_layout_option(&e->plan, optarg);
                        e->layout = r == CAPO_EXIT_OK && *e->plan.layout ? e->plan.layout : NULL;
                        break;
                case O_VERSION: r = take_version(optarg, &e->shape.nccl); break;
                case O_LOG: e->log = optarg; break;
                case O_COMM: e->comm = optarg; break;
                case O_JSON: e->json = true; break;
                case O_HELP: help(); return -1;
                case ':': capo_error("explain: %s needs a value", argv[optind - 1]); return CAPO_EXIT_USAGE;
                default:
                        capo_error("explain: unknown option \"%s\"; capo explain --help", argv[optind - 1]);
                        return CAPO_EXIT_USAGE;
                }
        }
        if (r != CAPO_EXIT_OK)
                return r;
        if (argc - optind != 2) {
                capo_error("explain: expected a call and a size, such as: capo explain allreduce 4M ...; capo explain "
                           "--help");
                return CAPO_EXIT_USAGE;
        }
        e->call = capo_call_find(argv[optind]);
        e->coll = capo_coll_of_call(e->call);
        if (!e->call || (e->coll < 0 && !e->log)) {
                capo_error("explain: \"%s\" is not a call NCCL asks a tuner about: allreduce, broadcast, reduce, "
                           "allgather, reducescatter",
                           argv[optind]);
                return CAPO_EXIT_USAGE;
        }
        if (capo_size_parse(argv[optind + 1], &e->bytes)) {
                capo_error("explain: \"%s\" is not a size, such as 64K or 25M", argv[optind + 1]);
                return CAPO_EXIT_USAGE;
        }
        snprintf(e->size, sizeof e->size, "%s", argv[optind + 1]);
        if (!e->log && !e->plan.n_topo && !e->plan.platform &&
            !(e->profile_name && e->shape.n_ranks && e->shape.n_nodes)) {
                capo_error("explain: name a machine (--platform, --topo), a job's shape with a profile (--ranks, "
                           "--nodes, --profile) or a "
                           "recorded job (--log)");
                return CAPO_EXIT_USAGE;
        }
        return CAPO_EXIT_OK;
}

static int load_profile(struct explain *e)
{
        struct capo_fault fault;

        if (!e->profile_name)
                return 0;
        if (capo_profile_find(e->profile_name, NULL, e->plan.profile_path, sizeof e->plan.profile_path, &fault) ||
            capo_profile_load(e->plan.profile_path, &e->profile, &fault)) {
                capo_error("%s", fault.text);
                return CAPO_EXIT_FAIL;
        }
        e->plan.profile = e->plan.profile_path;
        return 0;
}

int capo_verb_explain(int argc, char **argv)
{
        struct explain *e = calloc(1, sizeof *e);
        int status;

        if (!e)
                return CAPO_EXIT_FAIL;
        e->shape.min_local = e->shape.max_local = -1;
        status = parse(e, argc, argv);
        if (status == CAPO_EXIT_OK)
                status = load_profile(e);
        if (status == CAPO_EXIT_OK) {
                if (e->log)
                        status = explain_recorded(e);
                else if (e->plan.n_topo || e->plan.platform)
                        status = explain_planned(e);
                else
                        status = explain_shape(e);
        }
        question_finish(&e->plan);
        capo_profile_free(e->profile);
        free(e);
        return status < 0 ? CAPO_EXIT_OK : status;
}
