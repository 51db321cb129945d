/* SPDX-License-Identifier: Apache-2.0 */
/* capo topo: one page about a machine and its GPUs. */

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_json.h"
#include "cli/base/cli_output.h"
#include "cli/topo/cmd_topo.h"
#include "core/base/xalloc.h"
#include "profiles/machine/platform.h"
#include "profiles/machine/topology_capture.h"
#include "profiles/machine/visible.h"

/* The GPUs that CUDA would show to a program started here, in CUDA's order. */
static int find_visible_gpus(struct capo_topology *t, struct capo_alloc *a, char *said,
                             size_t said_room, char *why, size_t room)
{
        _cleanup_free_ struct capo_nvml *nvml = xmalloc(sizeof *nvml);
        _cleanup_free_ struct capo_visible *v = xmalloc(sizeof *v);
        int gpus[N_ELEMENTS(v->devices)];
        char no_driver[256];
        bool driver;
        int r;

        driver = capo_nvml_read(nvml, no_driver, sizeof no_driver) == 0;
        r = capo_visible_find(t, driver ? nvml : NULL, capo_getenv, NULL, v, why, room);
        if (r < 0)
                return r;
        for (int i = 0; i < v->n; i++) {
                gpus[i] = v->devices[i].gpu;
                if (v->devices[i].slice)
                        capo_topology_slice(t, v->devices[i].gpu);
        }
        snprintf(said, said_room, "%s", v->said);
        capo_alloc_gpus(gpus, v->n, a);
        return 0;
}

/* Of a rack, sizes count the GPUs of each tray, as `capo plan` and `capo fit` count them. */
static int find_trays(const struct capo_platform *p, const struct capo_topology *rack,
                      const char *sizes, struct capo_alloc *a, char *why, size_t room)
{
        struct capo_topology tray = *rack; /* its first GPUs */
        int r;

        tray.n_gpus = (size_t)(p->n_gpus / p->trays);
        r = capo_alloc_parse(&tray, sizes, true, a, why, room);
        for (int i = 0; !r && i < a->n_ranks; i++) {
                struct capo_alloc_rank *rank = &a->ranks[i];

                rank->gpu += rank->node % p->trays * (int)tray.n_gpus;
                rank->node /= p->trays;
        }
        if (!r)
                a->n_nodes = (a->n_nodes + p->trays - 1) / p->trays;
        return r;
}

/* The platform if it is a rack, which NCCL is asked about as trays. NULL: another machine. */
static const struct capo_platform *find_rack(const struct topo_options *o)
{
        const struct capo_platform *p = o->machine.topo || !o->machine.platform
                                                ? NULL
                                                : capo_platform_find(o->machine.platform);

        return p && p->from == CAPO_PLATFORM_RACK ? p : NULL;
}

static int find_allocation(const struct topo_options *o, struct capo_topology *t,
                           struct capo_alloc *a, char *said, size_t said_room, char *why,
                           size_t room)
{
        const struct capo_platform *rack = find_rack(o);
        _cleanup_free_ int *all = NULL;

        *said = 0;
        if (o->alloc && rack)
                return find_trays(rack, t, o->alloc, a, why, room);
        if (o->gpus || o->alloc)
                return capo_alloc_parse(t, o->gpus ? o->gpus : o->alloc, !o->gpus, a, why, room);
        if (!o->machine.topo && !o->machine.platform)
                return find_visible_gpus(t, a, said, said_room, why, room);
        all = xmalloc(sizeof *all * (t->n_gpus + 1));
        for (size_t i = 0; i < t->n_gpus; i++)
                all[i] = (int)i;
        capo_alloc_gpus(all, (int)t->n_gpus, a);
        return 0;
}

/* The same GPUs by tray, as NCCL is asked about them. In one domain, trays without any do not
 * count; of several, each must be full. */
static struct capo_alloc split_trays(const struct capo_platform *rack, const struct capo_alloc *a)
{
        struct capo_alloc b = {.n_ranks = a->n_ranks,
                               .ranks = xcalloc((size_t)a->n_ranks + 1, sizeof *b.ranks)};
        int each = rack->n_gpus / rack->trays, last = -1;

        for (int i = 0; i < a->n_ranks; i++) {
                int tray = a->ranks[i].node * rack->trays + a->ranks[i].gpu / each;

                b.n_nodes = a->n_nodes > 1 ? tray + 1 : b.n_nodes + (tray != last);
                last = tray;
                b.ranks[i] = (struct capo_alloc_rank){b.n_nodes - 1, a->ranks[i].gpu % each};
        }
        return b;
}

/* Ask NCCL; if that is not possible, nccl->why_not is the reason. */
static void topo_ask(const struct topo_options *o, const struct cli_machine_source *s,
                     const struct capo_topology *t, const struct capo_alloc *a,
                     struct fragment_nccl *nccl, struct fragment_advice *advice)
{
        _cleanup_free_ struct cli_machine_asker *asker = xmalloc(sizeof *asker);
        _cleanup_(capo_topology_freep) struct capo_topology *tray = NULL;
        const struct capo_platform *rack = find_rack(o);
        const struct cli_machine_words words = {.platform = rack ? rack->tray : NULL};
        struct cli_machine_source of_tray;
        struct capo_alloc trays = {0};

        if (rack && cli_machine_load("topo", &words, &tray, &of_tray) == 0)
                trays = split_trays(rack, a);
        if (cli_machine_asker(tray ? &of_tray : s, tray ? tray : t, o->libnccl, asker,
                              nccl->why_not, sizeof nccl->why_not) == 0) {
                asker->machine.domain = tray ? rack->trays : 0;
                fragment_advise(&asker->machine, tray ? &trays : a, nccl, advice);
                if (nccl->version || !fragment_nccl_ask(&asker->machine, tray ? &trays : a, nccl))
                        nccl->advice = advice;
        }
}

static int print_allocation(const struct topo_options *o, struct capo_topology *t,
                            const struct cli_machine_source *s)
{
        struct capo_alloc a;
        struct capo_ceilings c;
        struct fragment_nccl nccl = {0};
        struct fragment_advice advice = {0};
        char why[1600] = "out of memory", said[1024];
        int r = find_allocation(o, t, &a, said, sizeof said, why, sizeof why);

        if (r < 0)
                return capo_fail(CAPO_EXIT_FAIL, "topo: %s", why);
        r = capo_ceilings(t, &a, CAPO_CEILING_RINGS | CAPO_CEILING_HYBRID, &c);
        if (!r && (o->predict || o->libnccl))
                topo_ask(o, s, t, &a, &nccl, &advice); /* the page prints nccl->why_not */
        if (!r) {
                r = CLI_FORM_PRINT(o->form, topo_page(t, &a, &c, &nccl, said),
                                   topo_json(t, &a, &c, &nccl, said),
                                   JSON_INDENT(2) | JSON_REAL_PRECISION(10), "ranks");
        }
        capo_alloc_free(&a);
        if (r < 0 && !ferror(stdout)) /* else main() prints why */
                capo_error("topo: %s", why);
        return r < 0 ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}

static int topo_run(void *options, int n, char **words)
{
        struct topo_options *o = options;
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        struct cli_machine_source s;
        int r;

        if (o->gpus && o->alloc)
                return capo_fail(CAPO_EXIT_USAGE, "topo: only one of --gpus and --alloc");
        if (o->alloc && strchr(o->alloc, ',') && !o->alloc[strspn(o->alloc, "0123456789, ")])
                return capo_fail(CAPO_EXIT_USAGE,
                                 "topo: --alloc: expected sizes such as 3+5, found \"%s\"; "
                                 "--gpus takes the numbers of GPUs",
                                 o->alloc);
        r = cli_machine_load("topo", &o->machine, &t, &s);
        if (r < 0)
                return r == -ENODEV ? CAPO_EXIT_USAGE : CAPO_EXIT_FAIL;
        return print_allocation(o, t, &s);
}

static const struct cli_option options[] = {
        {"topo", CLI_FILE(struct topo_options, machine.topo, "FILE"),
         "NCCL topology XML, or the text of nvidia-smi topo -m; without it and --platform: this machine"},
        {"platform", CLI_TEXT(struct topo_options, machine.platform, "NAME"),
         "a machine by its name: dgx1v, dgxa100, hgxh100, ... (capo plan --help=all lists them); with --topo it supplies NVLinks the file lacks"},
        {"gpus", CLI_TEXT(struct topo_options, gpus, "LIST"),
         "1,2,3 or 0-4 or bus ids; 1,2,3+0-4 is two machines; default: all GPUs, on this machine those that CUDA would show"},
        {"alloc", CLI_TEXT(struct topo_options, alloc, "SIZES"),
         "3+5: the first 3 and the first 5 GPUs of two machines; 4x8 is four of 8; of a rack (gb200-nvl72): of each tray"},
        {"predict", CLI_FLAG(struct topo_options, predict),
         "also what real NCCL would do, asked on virtual GPUs (its own model; seconds, and up to a minute where its search is long, as on Blackwell)"},
        {"nccl", CLI_FLAG(struct topo_options, predict), NULL},
        {"libnccl", CLI_FILE(struct topo_options, libnccl, "FILE"), "the same by this libnccl.so.2",
         .rare = true},
        CLI_FORM_JSON_OPTION(struct topo_options, form),
        CLI_FORM_CSV_OPTION(struct topo_options, form),
        CLI_FORM_MARKDOWN_OPTION(struct topo_options, form),
        {"brick", CLI_NUMBER(struct topo_options, machine.brick_gbs, "GBS", 0.001, 4096),
         "bandwidth of one NVLink each way instead of NCCL's constant", .rare = true},
        {"partial", CLI_FLAG(struct topo_options, machine.partial),
         "the file was dumped where GPUs were hidden: drop links that lead to them", .rare = true},
        CLI_WIDE,
        {0}};

const struct cli_command topo_command = {
        .usage = "[--topo FILE | --platform NAME] [--gpus LIST | --alloc SIZES] [OPTIONS]",
        .about =
                "Shows how the GPUs of an allocation are joined, and the most that any software "
                "could get out of their links:\n"
                "  broadcast, reduce            smallest cut\n"
                "  all-gather, reduce-scatter   tightest cut per rank inside\n"
                "  all-reduce                   packed spanning trees\n"
                "Exact for the model that docs/fragments.md states; GB/s of bus bandwidth, as nccl-tests' busbw; --json has algbw.",
        .options = options,
        .after = "  capo topo --platform dgx1v --gpus 0,3,4\n"
                 "  capo topo --topo topo.xml --alloc 3+5",
        .status = "0; 1 the description or the allocation is wrong; 2 wrong command line.",
        .size = sizeof(struct topo_options),
        .run = topo_run,
};

/* ---- capo topo capture: this machine as an NCCL topology file ---- */

struct capture_options {
        const char *out;
};

static int capture_machine(void *o, int n, char **words)
{
        struct capo_capture found;
        struct cli_output out;
        char why[256] = "";
        int r = cli_output_open(&out, ((struct capture_options *)o)->out);

        if (r < 0)
                return CAPO_EXIT_FAIL;
        r = capo_topology_capture(out.file, &found, why, sizeof why);
        if (r < 0)
                capo_error("topo capture: %s", why[0] ? why : strerror(-r));
        if (cli_output_close(&out, r < 0 ? -ECANCELED : 0) < 0)
                return CAPO_EXIT_FAIL;
        capo_info("captured: NUMA nodes %u, NVIDIA GPUs %u, NICs %u, NVLinks %u%s", found.n_cpus,
                  found.n_gpus, found.n_nets, found.n_links,
                  found.nvml ? "" : "; no NVML here, so no NVLinks and no compute capability");
        if (!found.n_gpus)
                capo_warn("no NVIDIA GPU here: the file describes a machine that NCCL cannot use");
        return CAPO_EXIT_OK;
}

static const struct cli_option capture_options[] = {
        {"output", CLI_FILE(struct capture_options, out, "FILE"),
         "write there instead of standard output", .letter = 'o'},
        {0}};

const struct cli_command topo_capture_command = {
        .usage = "[-o FILE]",
        .about =
                "Writes this machine as an NCCL topology file: CPUs, PCI tree, GPUs and NICs by hwloc, link speeds from "
                "sysfs, compute capability and NVLinks from the driver (NVML). capo plan --topo FILE then asks NCCL "
                "about it anywhere, and NCCL_TOPO_FILE takes it too. Where there is no driver, --platform NAME of capo "
                "plan supplies the NVLinks.",
        .options = capture_options,
        .status = "0 written, 1 not written, 2 the command line is wrong",
        .size = sizeof(struct capture_options),
        .run = capture_machine,
};
