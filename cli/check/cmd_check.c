/* SPDX-License-Identifier: Apache-2.0 */
/* capo check: is a node, or are several nodes fit for a job? */
#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_json.h"
#include "cli/base/cli_machine.h"
#include "cli/check/check.h"
#include "core/base/size.h"
#include "profiles/machine/nvml.h"

static json_t *check_node(const struct check_options *o, int index, struct capo_reach *reach)
{
        json_t *rows = json_array(), *facts = NULL;
        const char *name = getenv("SLURMD_NODENAME"); /* the name that a user of Slurm knows */
        char host[256] = "";

        gethostname(host, sizeof host - 1);
        capo_nvml_limit(o->wait_s);
        if (check_guarded(o, reach, rows, &facts) && o->size)
                check_reduce_node(rows, o, reach->library);
        return json_pack("{s:o, s:i, s:o, s:o}", "node", cli_json_text(name && *name ? name : host),
                         "index", index, "findings", rows, "facts", facts ?: json_object());
}

/* Is the expected machine a known one? A missing file on one of many nodes is a finding there. */
static bool is_machine_known(const struct check_options *o)
{
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        struct cli_machine_words words = {.topo = o->dir ? NULL : o->topo, .platform = o->platform};
        struct cli_machine_source source;

        return (!words.topo && !words.platform) ||
               cli_machine_load("check", &words, &t, &source) == 0;
}

static int run_check(void *options, int n, char **words)
{
        const struct check_options *o = options;
        json_t *nodes = json_array(), *missing = json_array(), *node, *page;
        struct capo_reach reach = {0};
        int n_nodes, index, local, r = 1;

        if (n && !o->merge)
                return capo_fail(CAPO_EXIT_USAGE, "check: \"%s\": files go with --merge", words[0]);
        if (o->nodes && o->index >= o->nodes)
                return capo_fail(CAPO_EXIT_USAGE, "check: --node %d: expected 0 to %d", o->index,
                                 o->nodes - 1);
        if (!o->merge && !is_machine_known(o))
                return CAPO_EXIT_USAGE;
        check_place(o, &n_nodes, &index, &local);
        if (o->merge) {
                for (int i = -1; i < n && r > 0; i++)
                        r = check_read(nodes, i < 0 ? o->merge : words[i]) < 0 ? -1 : 1;
        } else if (local) {
                r = 0; /* another process of this node does it */
        } else {
                node = check_node(o, index, &reach);
                if (o->dir)
                        r = check_gather(o, n_nodes, index, node, nodes, missing);
                else
                        json_array_append(nodes, node);
                if (o->dir && o->size && r > 0)
                        check_lead(o, nodes, reach.library);
                if (o->dir && o->size && !r && check_follow(o, node, reach.library) < 0)
                        r = capo_fail(-ETIMEDOUT, "check: node 0 said nothing more");
                json_object_del(node, "run");
        }
        if (r <= 0)
                return r < 0 ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
        page = check_page(nodes, missing);
        r = check_failed(page, o->strict) ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
        if (o->json)
                return cli_json_print(stdout, page, JSON_COMPACT) < 0 ? CAPO_EXIT_FAIL : r;
        check_print(page, stdout);
        return r;
}

static const struct check_options defaults = {.nodes = 0, .index = -1, .wait_s = 60, .gpus = -1};

static const char *take_size(void *options, const char *value)
{
        struct check_options *o = options;

        o->size = value;
        return capo_size_parse(value, &o->bytes) < 0 || o->bytes < sizeof(float) ||
                               o->bytes > (uint64_t)16 << 30
                       ? "a size from 4 bytes to 16G, such as 256M"
                       : NULL;
}

static const struct cli_option options[] = {
        {"gpus", CLI_COUNT(struct check_options, gpus, "N", 0, 1024),
         "how many GPUs are expected here"},
        {"platform", CLI_TEXT(struct check_options, platform, "NAME"),
         "the machine that is expected, as in capo topo: its GPUs, NVLinks and NICs",
         .example = "dgx1v"},
        {"topo", CLI_FILE(struct check_options, topo, "FILE"),
         "the same from a topology file of a good node (capo topo capture)"},
        {"dir", CLI_FILE(struct check_options, dir, "DIR"),
         "shared folder where the nodes of one job meet; node 0 prints the page of all"},
        {"all-reduce", CLI_WHOLE("SIZE", take_size),
         "also time an all-reduce over the GPUs of each node; with --dir also over all nodes, and where that is slow "
         "or fails over halves of them, down to pairs",
         .example = "256M"},
        {"merge", CLI_FILE(struct check_options, merge, "FILE"),
         "compare nodes from the output of capo check --json instead of looking at this one; more files may "
         "follow, - is standard input"},
        {"nodes", CLI_COUNT(struct check_options, nodes, "N", 1, 100000),
         "with --dir: how many nodes, when the launcher does not tell", .rare = true},
        {"node", CLI_COUNT(struct check_options, index, "I", 0, 100000),
         "with --dir: which of them this is, from 0", .rare = true},
        {"wait", CLI_SECONDS(struct check_options, wait_s, "S", 0.1, 3600),
         "how long to wait for other nodes, for an all-reduce, and for the NVIDIA driver (60; the driver: 5, or 30 where "
         "nvidia-persistenced does not keep it started)",
         .rare = true},
        {"limit", CLI_SECONDS(struct check_options, limit_s, "S", 0.1, 3600),
         "seconds for the check of one node; 10, or 40 where GPUs are whose driver nvidia-persistenced does not keep "
         "started; longer where more processes want to run than there are processors",
         .rare = true},
        {"strict", CLI_FLAG(struct check_options, strict),
         "warnings and differences between nodes fail too"},
        {"json", CLI_FLAG(struct check_options, json), "for programs, a page on one line"},
        CLI_WIDE,
        {0}};

const struct cli_command check_command = {
        .usage = "[OPTIONS]\n--merge FILE...",
        .about = "Checks whether this node, or all nodes of a job, are fit for it: what capo "
                 "doctor checks of a machine, the libraries of capo and NCCL, the preload, GPUs, "
                 "NVLinks and NICs against what is expected, and the clock. Then it lists "
                 "everything in which nodes differ. Without --all-reduce nothing runs on a GPU. "
                 "A prolog or a health check uses the exit status, or --json.\n"
                 "Under srun or mpirun one process of each node checks it; --dir brings the "
                 "nodes together.",
        .options = options,
        .after =
                "  capo check --gpus 8\n"
                "  srun --ntasks-per-node=1 capo check --dir /shared/check\n"
                "  srun --ntasks-per-node=1 capo check --json >nodes.jsonl; capo check --merge nodes.jsonl",
        .status =
                "0 no FAIL on any node, 1 at least one, or a node did not answer (--strict: or a warning or a difference), 2 "
                "wrong command line.",
        .most = UINT_MAX,
        .size = sizeof(struct check_options),
        .defaults = &defaults,
        .run = run_check,
};
