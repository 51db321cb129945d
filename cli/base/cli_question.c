/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves a question from the command line: what to ask, which NCCL, which GPUs; and asks it
 * without and with a tuner. */
#include <dlfcn.h>
#include <sys/wait.h>

#include "capo/collectives.h"
#include "capo/msg.h"
#include "capo/profile.h"
#include "cli/base/cli.h"
#include "cli/base/cli_machine.h"
#include "cli/base/install_paths.h"
#include "cli/base/plan_tools.h"
#include "cli/base/cli_question.h"
#include "core/base/calls.h"
#include "core/base/file.h"
#include "core/base/xalloc.h"
#include "core/profile/profile_find.h"
#include "profiles/fragment/bound.h"
#include "profiles/machine/platform.h"

const char *cli_question_layout(const struct cli_question *q, char *text, size_t room)
{
        struct capo_layout layout = {0};

        for (unsigned node = 0, left = (unsigned)q->n_ranks; left && !q->layout; node++) {
                uint32_t ranks = 0;

                for (size_t r = 0; r < q->n_ranks; r++)
                        ranks += q->ranks[r].node == node;
                if (ranks)
                        (void)capo_layout_add(&layout, ranks, 1);
                left -= ranks;
        }
        return q->layout ? q->layout : capo_layout_print(&layout, text, room);
}

const char *cli_question_take_layout(void *layout, const char *value)
{
        struct capo_layout parsed;
        bool none = !strcmp(value, "none");

        *(const char **)layout = none ? "" : value;
        return none || capo_layout_parse(value, &parsed, NULL) == 0
                       ? NULL
                       : "ranks per node, such as 3+5, or none";
}

struct capo_plan_question cli_question_make(const struct cli_question *q, bool tuned)
{
        struct capo_plan_question made = {
                .tools = q->tools,
                .libnccl = q->libnccl,
                .topo = q->topo,
                .n_topo = q->n_topo,
                .platform = q->platform,
                .gpus = q->ranks,
                .n_ranks = q->n_ranks,
                .asks = q->asks,
                .n_asks = q->n_asks,
                .windows = q->windows,
                .domain_nodes = q->domain > 1 ? (unsigned)q->domain : 0,
                .whole = q->whole,
                .graph = true,
                .log = q->log,
                .timeout_ms = q->timeout_ms,
        };

        if (tuned) {
                made.tuner = q->tuner ? q->tuner : q->plugin;
                made.profile = q->profile ? q->profile_path : NULL;
                made.allow_modelled = q->allow_modelled;
                made.layout = q->layout;
                made.class_name = *q->class ? q->class : NULL;
                made.wrap = q->spy;
        }
        return made;
}

static int parse_colls(struct cli_question *q, enum capo_coll *colls, size_t *n)
{
        static const enum capo_coll order[] = {CAPO_COLL_ALLREDUCE, CAPO_COLL_ALLGATHER,
                                               CAPO_COLL_REDUCESCATTER, CAPO_COLL_BROADCAST,
                                               CAPO_COLL_REDUCE};
        _cleanup_free_ char *copy = xstrdup(q->colls);
        char *save = NULL;

        *n = 0;
        for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
                int coll = capo_coll_find(word);

                if (!strcasecmp(word, "all")) {
                        memcpy(colls, order, sizeof order);
                        *n = N_ELEMENTS(order);
                        return 0;
                }
                if (coll < 0 || *n == CAPO_COLLS)
                        return capo_fail(
                                -EINVAL,
                                "--coll %s: expected broadcast, reduce, allgather, reducescatter, allreduce or all",
                                word);
                colls[(*n)++] = (enum capo_coll)coll;
        }
        if (!*n)
                capo_error("--coll: no collective named");
        return *n ? 0 : -EINVAL;
}

static int make_asks(struct cli_question *q)
{
        enum { SIZES = 1000 };
        _cleanup_free_ uint64_t *sizes = xcalloc(SIZES, sizeof *sizes);
        enum capo_coll colls[CAPO_COLLS];
        char why[256];
        size_t n_colls;
        long n;

        if (parse_colls(q, colls, &n_colls) < 0)
                return -EINVAL;
        n = capo_plan_sizes_parse(q->sizes, sizes, SIZES, why, sizeof why);
        if (n < 0)
                return capo_fail(-EINVAL, "--sizes: %s", why);
        q->asks = xcalloc(n_colls * (size_t)n, sizeof *q->asks);
        for (size_t c = 0; c < n_colls; c++) {
                for (long i = 0; i < n; i++)
                        q->asks[q->n_asks++] = (struct capo_plan_ask){colls[c], sizes[i]};
        }
        return 0;
}

/* Could the loader find it? Tried in a child process, because a plugin may do anything when opened.
 */
static bool can_load_library(const char *name)
{
        pid_t child = fork();
        int status = -1;

        if (!child)
                _exit(!dlopen(name, RTLD_LAZY | RTLD_LOCAL));
        return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
               !WEXITSTATUS(status);
}

/* Without this check, a missing tuner would give two equal columns and a wrong verdict. */
static int find_tuner(struct cli_question *q)
{
        char name[PATH_MAX];

        if (!q->tuner || access(q->tuner, R_OK) == 0)
                return 0;
        snprintf(name, sizeof name, "libnccl-tuner-%s.so", q->tuner);
        q->tuner_by_name = !strchr(q->tuner, '/') && !can_load_library(q->tuner);
        if (!strchr(q->tuner, '/') && (!q->tuner_by_name || can_load_library(name)))
                return 0;
        return capo_fail(-ENOENT, "--tuner %s: %s", q->tuner, strerror(ENOENT));
}

static int find_parts(struct cli_question *q, const char *verb)
{
        struct capo_fault fault;
        char why[PATH_MAX + 256];

        if (cli_parts_find(q->nccl, q->tools, q->libnccl, sizeof q->tools, why, sizeof why) < 0)
                return capo_fail(-ENOENT, "%s: %s", verb, why);
        if (q->nccl_2 &&
            cli_parts_find(q->nccl_2, q->tools, q->libnccl_2, sizeof q->tools, why, sizeof why) < 0)
                return capo_fail(-ENOENT, "%s: %s", verb, why);
        if (q->profile && !q->tuner && cli_tuner_find(q->plugin, sizeof q->plugin) < 0)
                return capo_fail(-ENOENT,
                                 "%s: capo's tuner plugin is missing from this installation", verb);
        if (q->profile &&
            !realpath(q->profile, q->profile_path) && /* the name of a stored profile */
            capo_profile_find(q->profile, cli_shipped_profiles(), q->profile_path,
                              sizeof q->profile_path, &fault) < 0)
                return capo_fail(-ENOENT, "%s: --profile: %s", verb, fault.text);
        if (q->profile && access(q->profile_path, R_OK) < 0)
                return capo_fail(-errno, "%s: --profile: %s: %s", verb, q->profile_path,
                                 strerror(errno));
        return find_tuner(q);
}

/* nvidia-smi's text, which NCCL cannot read, is written as XML to a folder that
 * cli_question_finish() removes. */
static int take_smi_text(struct cli_question *q, const char *verb)
{
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        _cleanup_free_ char *folder = xprintf("%s/capo-smi-XXXXXX", capo_file_temp_folder());
        char why[512], taken[128] = "";
        FILE *f = fopen(q->topo[0], "re");
        int first = ' ', r;

        while (f && (first == ' ' || first == '\t' || first == '\n' || first == '\r'))
                first = getc(f);
        if (f)
                fclose(f);
        if (!f || first == '<' || first == EOF || q->n_topo != 1)
                return 0; /* XML, or rejected later */
        if (capo_topology_read(q->topo[0], 0, 0, &t, why, sizeof why) < 0)
                return capo_fail(-EINVAL, "%s: %s", verb, why);
        if (!mkdtemp(folder) || snprintf(q->written, sizeof q->written, "%s/%.255s.xml", folder,
                                         capo_base_name(q->topo[0])) >= (int)sizeof q->written)
                return capo_fail(-EIO, "%s: no temporary folder: %s", verb, strerror(errno));
        f = fopen(q->written, "we");
        r = f ? capo_topology_write_nccl(t, f, taken, sizeof taken) : -errno;
        if (f && fclose(f) && !r)
                r = -errno;
        if (r < 0)
                return capo_fail(r, "%s: %s: %s", verb, q->written, strerror(-r));
        capo_info("%s has no speeds; taken: %s. A file of capo topo capture has them", q->topo[0],
                  taken);
        q->topo[0] = q->written;
        return 0;
}

/* -ENODEV: no machine was named, or an unknown one. */
static int find_machine(struct cli_question *q, const char *verb)
{
        char why[512];
        int n;

        if (!q->n_topo && q->platform) {
                const struct capo_platform *p = capo_platform_find(q->platform);
                char meant[200];

                if (p && p->tray) {
                        q->domain = q->domain ? q->domain : p->trays;
                        q->platform = p->tray;
                }
                if (cli_topology_find(q->platform, q->stored, sizeof q->stored) < 0)
                        return capo_fail(
                                -ENODEV,
                                "--platform %s: not one of those that capo plan --help=all lists%s",
                                q->platform, cli_platform_meant(q->platform, meant, sizeof meant));
                q->topo[q->n_topo++] = q->stored;
        }
        if (!q->n_topo)
                return capo_fail(
                        -ENODEV,
                        "%s: name a machine with --topo or --platform; capo plan --help=all", verb);
        if (take_smi_text(q, verb) < 0)
                return -EINVAL;
        n = capo_plan_machine_gpus(q->topo[0], q->platform, q->devs, why, sizeof why);
        if (n < 0)
                return capo_fail(n, "%s", why);
        q->n_devs = (size_t)n;
        return 0;
}

static int find_dev_by_busid(const void *topology, const char *text)
{
        const struct capo_topology *t = topology;
        int gpu = t ? capo_topology_gpu_by_busid(t, text) : -1;

        return gpu < 0 ? -1 : t->gpus[gpu].dev;
}

static int find_ranks(struct cli_question *q, const char *verb)
{
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        const char *text = q->gpus ? q->gpus : q->alloc;
        struct capo_gpus_of of = {q->topo[0], q->devs, q->n_devs, .busid = find_dev_by_busid};
        struct cli_machine_words machine = {
                .topo = q->topo[0], .platform = q->platform, .partial = true};
        struct cli_machine_source source;
        char why[512], all[16];
        int r;

        snprintf(all, sizeof all, "%zu", q->n_devs);
        if (text && strchr(text, '.') && cli_machine_load(verb, &machine, &t, &source) < 0)
                return -EINVAL;
        of.machine = t;
        if ((t || q->n_topo > 1) && !capo_gpus_counts(text ? text : all, !q->gpus))
                of.n_devs = 0; /* then places are plain numbers: for bus ids, and for nodes that
                                  differ */
        r = capo_plan_ranks_parse(text ? text : all, !q->gpus, &of, q->ranks, CAPO_PLAN_RANKS_MAX,
                                  &q->n_ranks, why, sizeof why);
        if (r < 0)
                capo_error("%s: %s: %s", verb, q->gpus ? "--gpus" : "--alloc", why);
        return r;
}

/* The class that capo run would export for these GPUs; rules may name it. Allocations on different
 * machines have no class. */
static void find_class(struct cli_question *q, const char *verb)
{
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        struct cli_machine_words machine = {
                .topo = q->topo[0], .platform = q->platform, .partial = true};
        struct cli_machine_source source;

        if (q->n_topo != 1 || q->domain > 1 || cli_machine_load(verb, &machine, &t, &source) < 0 ||
            !t->n_links ||
            capo_class_of_gpus(t, q->ranks, q->n_ranks, q->class, sizeof q->class) < 0)
                *q->class = 0;
}

int cli_question_prepare(struct cli_question *q, const char *verb)
{
        int r;

        if (make_asks(q) < 0)
                return CAPO_EXIT_USAGE;
        r = find_machine(q, verb);
        if (r == -ENODEV)
                return CAPO_EXIT_USAGE;
        return r < 0 || find_parts(q, verb) < 0 ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}

int cli_question_ranks(struct cli_question *q, const char *verb)
{
        int r = find_ranks(q, verb);

        if (r < 0)
                return r == -EINVAL ? CAPO_EXIT_USAGE : CAPO_EXIT_FAIL;
        if (q->profile)
                find_class(q, verb);
        return CAPO_EXIT_OK;
}

void cli_question_finish(struct cli_question *q)
{
        free(q->asks);
        q->asks = NULL;
        q->n_asks = 0;
        if (*q->written) {
                unlink(q->written);
                *strrchr(q->written, '/') = 0;
                rmdir(q->written);
                *q->written = 0;
        }
}

/* Both questions at once: they are separate processes. */
struct pair {
        struct capo_plan_answer *answers;
        int rc[2];
        char why[2][1024];
};

static int keep_answer(size_t i, int rc, struct capo_plan_answer *answer, const char *why,
                       void *arg)
{
        struct pair *pair = arg;

        pair->rc[i] = rc;
        snprintf(pair->why[i], sizeof pair->why[i], "%s", why);
        pair->answers[i] = *answer;
        memset(answer, 0, sizeof *answer);
        return 0;
}

int cli_question_ask(const struct cli_question *q, const char *verb, bool graph,
                     struct capo_plan_answer answers[2])
{
        bool compare = q->profile || q->tuner || q->nccl_2;
        struct capo_plan_question asked[2] = {cli_question_make(q, false),
                                              cli_question_make(q, !q->nccl_2)};
        struct pair pair = {.answers = answers, .rc = {-ENOMEM, compare ? -ENOMEM : 0}};
        int r;

        asked[0].graph = asked[1].graph = graph;
        if (q->nccl_2)
                asked[1].libnccl = q->libnccl_2;
        r = capo_plan_ask_all(asked, compare ? 2 : 1, q->jobs, keep_answer, &pair);
        for (int i = 0; i < 2; i++) {
                if (r == 0 && pair.rc[i] < 0) {
                        capo_error("%s%s: %s", verb,
                                   !i          ? ""
                                   : q->nccl_2 ? " with the second NCCL"
                                               : " with the tuner",
                                   pair.why[i][0] ? pair.why[i] : strerror(-pair.rc[i]));
                        r = pair.rc[i];
                }
        }
        return r == 0 ? CAPO_EXIT_OK : CAPO_EXIT_FAIL;
}
