/* SPDX-License-Identifier: Apache-2.0 */
/* capo profile layouts: asks real NCCL what its cost table says for every layout, and writes that
 * into the profile. */
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/plan_tools.h"
#include "cli/base/cli_output.h"
#include "cli/base/cli_progress.h"
#include "cli/profile/profile_show.h"
#include "core/base/layout.h"
#include "core/base/nccl_release.h"
#include "core/base/util.h"
#include "profiles/plan/plan_layouts.h"

struct pair {
        int ranks, nodes;
};

/* "8/2", or a layout of so many ranks and nodes: "3+5". */
static bool parse_pair(const char *text, struct pair *out)
{
        struct capo_layout layout;
        char rest;

        if (capo_layout_parse(text, &layout, NULL) == 0)
                *out = (struct pair){(int)layout.n_ranks, (int)layout.n_nodes};
        else if (sscanf(text, "%d/%d%c", &out->ranks, &out->nodes, &rest) != 2)
                return false;
        return out->nodes >= 2 && out->ranks >= out->nodes && out->ranks <= CAPO_PLAN_RANKS_MAX;
}

static bool parse_pairs(const char *text, struct pair *out, size_t room, size_t *n)
{
        char word[64];

        for (*n = 0; *n < room; text++) {
                size_t length = strcspn(text, ",");

                if (snprintf(word, sizeof word, "%.*s", (int)length, text) >= (int)sizeof word ||
                    !parse_pair(word, &out[(*n)++]))
                        return false;
                text += length;
                if (!*text)
                        return true;
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

                if (!p->rules[i].when.layout ||
                    capo_layout_parse(p->rules[i].when.layout, &l, NULL) < 0 || l.n_nodes < 2)
                        continue;
                for (size_t k = 0; k < n; k++)
                        known |= out[k].ranks == (int)l.n_ranks && out[k].nodes == (int)l.n_nodes;
                if (!known)
                        out[n++] = (struct pair){(int)l.n_ranks, (int)l.n_nodes};
        }
        return n;
}

/* Lists of the same release and numbers are replaced. */
static void drop_old_lists(struct capo_profile *p, struct pair pair, int nccl, uint32_t before)
{
        uint32_t kept = 0;

        for (uint32_t i = 0; i < p->n_layouts; i++) {
                const struct capo_layout_cost *c = &p->layouts[i];

                if (i < before && c->nccl.min == nccl && c->nccl.max == nccl &&
                    c->n_ranks == (uint32_t)pair.ranks && c->n_nodes == (uint32_t)pair.nodes)
                        continue;
                p->layouts[kept++] = *c;
        }
        p->n_layouts = kept;
}

static void show_layout_progress(size_t done, size_t of, void *arg)
{
        cli_progress("asking NCCL", done, of);
        if (done == of)
                cli_progress_end();
}

struct options {
        struct capo_layouts_machine machine;
        const char *nccl, *out;
        struct pair pairs[64];
        size_t n_pairs;
};

static const char *take_pairs(void *options, const char *value)
{
        struct options *o = options;

        return parse_pairs(value, o->pairs, N_ELEMENTS(o->pairs), &o->n_pairs)
                       ? NULL
                       : "ranks/nodes such as 8/2,12/3, or layouts such as 3+5";
}

static int add_layouts(void *options, int n, char **words)
{
        struct options *o = options;
        struct capo_layouts_machine m = o->machine;
        struct pair *pairs = o->pairs;
        size_t n_pairs = o->n_pairs;
        const char *nccl = o->nccl;
        _cleanup_(capo_profile_freep) struct capo_profile *p = NULL;
        char tools[PATH_MAX], libnccl[PATH_MAX], stored[PATH_MAX], version[16], why[512];
        struct capo_fault fault;
        struct cli_output out;
        int r;

        m.tools = tools;
        m.libnccl = libnccl;
        m.progress = show_layout_progress;
        if (!m.topo && !m.platform)
                return capo_fail(
                        CAPO_EXIT_USAGE,
                        "profile layouts: expected --platform or --topo; capo profile layouts --help");
        if (capo_profile_load(words[0], &p, &fault) < 0)
                return capo_fail(CAPO_EXIT_FAIL, "%s", fault.text);
        if (p->csv)
                return capo_fail(CAPO_EXIT_FAIL, "%s is a CSV, which knows no layouts", p->file);
        if (!n_pairs)
                n_pairs = pairs_of(p, pairs, N_ELEMENTS(o->pairs));
        if (!n_pairs)
                return capo_fail(
                        CAPO_EXIT_FAIL,
                        "%s: no rule names a layout of several nodes; --ranks 8/2 says which to list",
                        p->file);
        if (!m.topo) {
                if (cli_topology_find(m.platform, stored, sizeof stored) < 0)
                        return capo_fail(
                                CAPO_EXIT_FAIL,
                                "--platform %s: not one of those that capo plan --help lists",
                                m.platform);
                m.topo = stored;
        }
        if (cli_parts_find(nccl, tools, libnccl, sizeof tools, why, sizeof why) < 0)
                return capo_fail(CAPO_EXIT_FAIL, "profile: %s", why);
        for (size_t i = 0; i < 3; i++)
                signal((const int[]){SIGINT, SIGTERM, SIGHUP}[i], capo_plan_interrupt);
        for (size_t i = 0; i < n_pairs; i++) {
                struct capo_layouts_made made;
                uint32_t before = p->n_layouts;

                r = capo_layouts_make(&m, pairs[i].ranks, pairs[i].nodes, p, &made, why,
                                      sizeof why);
                if (r < 0)
                        return capo_fail(CAPO_EXIT_FAIL, "profile: %s", why);
                capo_info(
                        "%d ranks on %d nodes, NCCL %s: %zu allocations of %zu layouts asked; the table settles %zu of "
                        "the layouts",
                        pairs[i].ranks, pairs[i].nodes,
                        capo_nccl_text((uint32_t)made.version, version, sizeof version),
                        made.n_asked, made.n_layouts, made.n_told);
                drop_old_lists(p, pairs[i], made.version, before);
        }
        r = cli_output_open(&out, o->out);
        if (r == 0)
                r = cli_output_close(&out, capo_profile_write(p, out.file));
        return r < 0 ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}

static const struct cli_option options[] = {
        {"topo", CLI_FILE(struct options, machine.topo, "FILE"), "one node, as for capo plan"},
        {"platform", CLI_TEXT(struct options, machine.platform, "NAME"), "the same by its name"},
        {"nccl", CLI_FILE(struct options, nccl, "FILE"),
         "the libnccl.so.2 of the job: the list holds for its very release; run again for another, the lists of other "
         "releases stay"},
        {"ranks", CLI_WHOLE("8/2,12/3", take_pairs),
         "these numbers of ranks/nodes (or layouts: 3+5), instead of those of the layouts that rules name",
         .example = "8/2,12/3"},
        {"all-nics", CLI_FLAG(struct options, machine.all_nics),
         "believe that no node ever lacks a NIC. Without it every NIC is also tried missing, and a layout whose costs "
         "another has with a NIC lost is not told apart from it"},
        {"max", CLI_COUNT(struct options, machine.max, "N", 1, 1000000),
         "refuse lists of more than N allocations (1000; each takes about a second)"},
        {"jobs", CLI_COUNT(struct options, machine.at_once, "N", 1, 1000),
         "questions asked at a time; default: one per processor"},
        {"output", CLI_FILE(struct options, out, "FILE"), "write here instead", .letter = 'o'},
        {0}};

const struct cli_command profile_layouts_command = {
        .usage = "FILE --platform NAME | --topo FILE [OPTIONS]",
        .about =
                "NCCL before 2.28 tells a tuner how many nodes a communicator has, but not how its ranks are spread over "
                "them; later ones tell only the smallest and the largest node. NCCL's cost table betrays more: its "
                "bandwidths are those of the poorest node. This asks real NCCL, on virtual GPUs, what the table says "
                "for every layout that the ranks of the profile's rules can have on a machine, and writes the profile "
                "with that list to standard output. With it the tuner knows a layout where the table fits that one "
                "alone, and drops a launcher's layout which the table contradicts (docs/fragments.md, \"Layout at run "
                "time\").",
        .options = options,
        .after =
                "  capo profile layouts mycluster.json --platform hgxh100 --nccl /opt/nccl/lib/libnccl.so.2 -o "
                "mycluster.json",
        .status = "0 written; 1 it could not be done; 2 the command line is wrong.",
        .operand = "FILE",
        .missing = "expected one profile",
        .least = 1,
        .most = 1,
        .size = sizeof(struct options),
        .run = add_layouts,
};
