/* SPDX-License-Identifier: Apache-2.0 */
/* capo profile layouts: asks real NCCL what its cost table says for every layout, and writes that into the profile. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/plan_tools.h"
#include "cli/base/progress.h"
#include "cli/profile/show.h"
#include "core/base/layout.h"
#include "core/base/nccl.h"
#include "core/base/util.h"
#include "profiles/plan/layouts.h"

static const char help[] =
        "usage: capo profile layouts FILE --platform NAME | --topo FILE [OPTIONS]\n\n"
        "NCCL before 2.28 tells a tuner how many nodes a communicator has, but not how its ranks are spread over "
        "them;\n"
        "later ones tell only the smallest and the largest node. NCCL's cost table betrays more: its bandwidths are\n"
        "those of the poorest node. This asks real NCCL, on virtual GPUs, what the table says for every layout that "
        "the\n"
        "ranks of the profile's rules can have on a machine, and writes the profile with that list to standard "
        "output.\n"
        "With it the tuner knows a layout where the table fits that one alone, and drops a launcher's layout which "
        "the\n"
        "table contradicts (docs/fragments.md, \"Layout at run time\").\n\n"
        "  --topo FILE | --platform NAME   one node, as for capo plan\n"
        "  --nccl FILE       the libnccl.so.2 of the job: the list holds for its very release; run again for another,\n"
        "                    the lists of other releases stay\n"
        "  --ranks 8/2,12/3  these numbers of ranks/nodes, instead of those of the layouts that rules name\n"
        "  --all-nics        believe that no node ever lacks a NIC. Without it every NIC is also tried missing, and a\n"
        "                    layout whose costs another has with a NIC lost is not told apart from it\n"
        "  --max N           refuse lists of more than N allocations (1000; each takes about a second)\n"
        "  --jobs N          questions asked at a time; default: one per processor\n"
        "  -o FILE           write here instead\n\n"
        "  capo profile layouts mycluster.json --platform hgxh100 --nccl /opt/nccl/lib/libnccl.so.2 -o "
        "mycluster.json\n\n"
        "Exit status: 0 written; 1 it could not be done; 2 the command line is wrong.\n";

struct pair {
        int ranks, nodes;
};

static bool parse_pairs(const char *text, struct pair *out, size_t room, size_t *n)
{
        for (*n = 0; *n < room; text++) {
                char *end;
                long ranks = strtol(text, &end, 10), nodes;

                if (end == text || *end != '/' || ranks < 2 || ranks > CAPO_PLAN_RANKS_MAX)
                        return false;
                text = end + 1;
                nodes = strtol(text, &end, 10);
                if (end == text || nodes < 2 || nodes > ranks)
                        return false;
                out[(*n)++] = (struct pair){(int)ranks, (int)nodes};
                text = end;
                if (*text != ',')
                        return !*text;
        }
        return false;
}

/* Those of the rules' layouts. */
static size_t pairs_of(const struct capo_profile *p, struct pair *out, size_t room)
{
        size_t n = 0;

        for (uint32_t i = 0; i < p->n_rules && n < room; i++) {
                struct capo_layout l;
                bool known = false;

                if (!p->rules[i].when.layout || capo_layout_parse(p->rules[i].when.layout, &l, NULL) < 0 ||
                    l.n_nodes < 2)
                        continue;
                for (size_t k = 0; k < n; k++)
                        known |= out[k].ranks == (int)l.n_ranks && out[k].nodes == (int)l.n_nodes;
                if (!known)
                        out[n++] = (struct pair){(int)l.n_ranks, (int)l.n_nodes};
        }
        return n;
}

/* Lists of the same release and numbers are replaced. */
static void forget(struct capo_profile *p, struct pair pair, int nccl, uint32_t before)
{
        uint32_t kept = 0;

        for (uint32_t i = 0; i < p->n_layouts; i++) {
                const struct capo_layout_cost *c = &p->layouts[i];

                if (i < before && c->nccl.min == nccl && c->nccl.max == nccl && c->n_ranks == (uint32_t)pair.ranks &&
                    c->n_nodes == (uint32_t)pair.nodes)
                        continue;
                p->layouts[kept++] = *c;
        }
        p->n_layouts = kept;
}

static void progress(size_t done, size_t of, void *arg)
{
        capo_progress("asking NCCL", done, of);
        if (done == of)
                capo_progress_end();
}

static bool number(const char *text, unsigned *out)
{
        char *end;
        unsigned long v = strtoul(text, &end, 10);

        *out = (unsigned)v;
        return end != text && !*end && v >= 1 && v <= 1000000;
}

static int write_to(const struct capo_profile *p, const char *path)
{
        FILE *f = path ? fopen(path, "we") : stdout;
        int r = f ? capo_profile_write(p, f) : -errno;

        if (path && f && fclose(f) && r == 0)
                r = -errno;
        return r;
}

int profile_layouts(int argc, char **argv)
{
        enum { TOPO = 256, PLATFORM, NCCL, RANKS, ALL_NICS, MAX, JOBS, HELP };
        static const struct option options[] = {
                {"topo", 1, NULL, TOPO},   {"platform", 1, NULL, PLATFORM}, {"nccl", 1, NULL, NCCL},
                {"ranks", 1, NULL, RANKS}, {"all-nics", 0, NULL, ALL_NICS}, {"max", 1, NULL, MAX},
                {"jobs", 1, NULL, JOBS},   {"help", 0, NULL, HELP},         {NULL, 0, NULL, 0}};
        _cleanup_(capo_profile_freep) struct capo_profile *p = NULL;
        char tools[PATH_MAX], libnccl[PATH_MAX], stored[PATH_MAX], version[16], why[512];
        struct capo_layouts_machine m = {.tools = tools, .libnccl = libnccl, .progress = progress};
        const char *nccl = NULL, *out = NULL;
        struct pair pairs[64];
        size_t n_pairs = 0;
        struct capo_fault fault;
        int option, r;

        optind = 1;
        opterr = 0;
        while ((option = getopt_long(argc, argv, "o:", options, NULL)) != -1) {
                bool good = true;

                switch (option) {
                case TOPO: m.topo = optarg; break;
                case PLATFORM: m.platform = optarg; break;
                case NCCL: nccl = optarg; break;
                case RANKS: good = parse_pairs(optarg, pairs, N_ELEMENTS(pairs), &n_pairs); break;
                case ALL_NICS: m.all_nics = true; break;
                case MAX: good = number(optarg, &m.max); break;
                case JOBS: good = number(optarg, &m.at_once); break;
                case 'o': out = optarg; break;
                case HELP: fputs(help, stdout); return CAPO_EXIT_OK;
                default:
                        capo_error("profile layouts: unknown option, or one without its value: \"%s\"",
                                   argv[optind - 1]);
                        return CAPO_EXIT_USAGE;
                }
                if (!good) {
                        capo_error("profile layouts: expected %s, found \"%s\"",
                                   option == RANKS ? "ranks/nodes such as 8/2,12/3" : "a number above 0", optarg);
                        return CAPO_EXIT_USAGE;
                }
        }
        if (argc - optind != 1 || (!m.topo && !m.platform)) {
                capo_error(
                        "profile layouts: expected one profile and --platform or --topo; capo profile layouts --help");
                return CAPO_EXIT_USAGE;
        }
        if (capo_profile_load(argv[optind], &p, &fault) < 0) {
                capo_error("%s", fault.text);
                return CAPO_EXIT_FAIL;
        }
        if (p->csv) {
                capo_error("%s is a CSV, which knows no layouts", p->file);
                return CAPO_EXIT_FAIL;
        }
        if (!n_pairs)
                n_pairs = pairs_of(p, pairs, N_ELEMENTS(pairs));
        if (!n_pairs) {
                capo_error("%s: no rule names a layout of several nodes; --ranks 8/2 says which to list", p->file);
                return CAPO_EXIT_FAIL;
        }
        if (!m.topo) {
                if (capo_plan_stored_topology(m.platform, stored, sizeof stored) < 0) {
                        capo_error("--platform %s: not one of those that capo plan --help lists", m.platform);
                        return CAPO_EXIT_FAIL;
                }
                m.topo = stored;
        }
        if (capo_plan_tools_find(tools, sizeof tools) < 0) {
                capo_error("profile: capo-plan-worker is missing from this installation");
                return CAPO_EXIT_FAIL;
        }
        if (capo_plan_libnccl_find(nccl, libnccl, sizeof libnccl, why, sizeof why) < 0) {
                capo_error("profile: %s", why);
                return CAPO_EXIT_FAIL;
        }
        for (size_t i = 0; i < 3; i++)
                signal((const int[]){SIGINT, SIGTERM, SIGHUP}[i], capo_plan_interrupt);
        for (size_t i = 0; i < n_pairs; i++) {
                struct capo_layouts_made made;
                uint32_t before = p->n_layouts;

                r = capo_layouts_make(&m, pairs[i].ranks, pairs[i].nodes, p, &made, why, sizeof why);
                if (r < 0) {
                        capo_error("profile: %s", why);
                        return CAPO_EXIT_FAIL;
                }
                capo_info(
                        "%d ranks on %d nodes, NCCL %s: %zu allocations of %zu layouts asked; the table settles %zu of "
                        "the layouts",
                        pairs[i].ranks, pairs[i].nodes, capo_nccl_text((uint32_t)made.version, version, sizeof version),
                        made.n_asked, made.n_layouts, made.n_told);
                forget(p, pairs[i], made.version, before);
        }
        r = write_to(p, out);
        if (r < 0)
                capo_error("%s: %s", out ? out : "standard output", strerror(-r));
        return r < 0 ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}
