/* SPDX-License-Identifier: Apache-2.0 */
/* capo fit --model: finds machine, libnccl and GPUs, then uses profiles/fit/fit_model.h. */
#include "capo/collectives.h"
#include "capo/msg.h"
#include "cli/fit/cmd_fit.h"
#include "cli/base/plan_tools.h"
#include "cli/base/cli_machine.h"
#include "cli/base/cli_progress.h"
#include "core/base/nccl_release.h"
#include "core/base/xalloc.h"
#include "profiles/machine/platform.h"

static int find_model_tools(const struct fit_models *m, char *tools, char *libnccl, size_t room)
{
        char why[PATH_MAX + 256];

        if (!m->topo && !m->platform)
                return capo_fail(-ENODEV, "fit: --model needs --topo FILE or --platform NAME");
        if (cli_parts_find(m->libnccl, tools, libnccl, room, why, sizeof why) < 0)
                return capo_fail(-1, "fit: --model: %s", why);
        return 0;
}

int fit_models_measured(struct fit_models *m, const struct capo_fit *fit,
                        const struct capo_fit_options *options, struct capo_profile *profile,
                        struct cli_page *page)
{
        static char tools[4096], libnccl[4096], topo[4096];
        struct capo_fit_machine machine = {tools, libnccl, m->topo, m->platform};
        struct capo_fit_modelled done;
        char why[512], meant[200];
        int r;

        if (!m->n)
                return 0;
        r = find_model_tools(m, tools, libnccl, sizeof tools);
        if (r < 0)
                return r;
        if (!m->topo) {
                machine.topo = topo;
                if (cli_topology_find(m->platform, topo, sizeof topo) < 0)
                        return capo_fail(
                                -ENODEV,
                                "fit: --platform %s: not one of those that capo plan --help=all lists%s",
                                m->platform, cli_platform_meant(m->platform, meant, sizeof meant));
        }
        for (size_t i = 0; i < m->n; i++) {
                if (capo_fit_model(fit, &machine, m->alloc[i], options, profile, &done, why,
                                   sizeof why) < 0)
                        return capo_fail(-1, "fit: --model %s: %s", m->alloc[i], why);
                cli_page_under(page, "%s, modelled from %s: %d sizes compared, %s", m->alloc[i],
                               done.from, done.n_sizes,
                               done.n_rows ? "rows written and marked modelled"
                                           : "none expected to gain " CAPO_MODEL_MARGIN_TEXT
                                             " over NCCL's own choice: no rule");
        }
        return 0;
}

/* Collectives in the usual order. Return: asks, to be freed; NULL after printing the reason. */
static struct capo_plan_ask *make_asks(const char *sizes, size_t *n)
{
        static const enum capo_coll colls[] = {CAPO_COLL_ALLREDUCE, CAPO_COLL_ALLGATHER,
                                               CAPO_COLL_REDUCESCATTER, CAPO_COLL_BROADCAST,
                                               CAPO_COLL_REDUCE};
        enum { SIZES = 100 };
        struct capo_plan_ask *asks;
        uint64_t list[SIZES];
        char why[256];
        long found = capo_plan_sizes_parse(sizes, list, SIZES, why, sizeof why);
        bool rises = true;

        for (long i = 1; i < found; i++)
                rises &= list[i] > list[i - 1];
        if (found < 0 || !rises) {
                capo_error("fit: --sizes: %s", found < 0 ? why : "expected rising sizes");
                return NULL;
        }
        *n = 0;
        asks = xcalloc(N_ELEMENTS(colls) * SIZES, sizeof *asks);
        for (size_t c = 0; c < N_ELEMENTS(colls); c++) {
                for (long i = 0; i < found; i++)
                        asks[(*n)++] = (struct capo_plan_ask){colls[c], list[i]};
        }
        return asks;
}

/* What is the same for all allocations. */
struct asking {
        const struct fit_models *m;
        const struct fragment_machine *machine;
        const char *measured_in;
        const struct capo_fit_options *options;
        struct capo_profile *profile;
        const struct capo_plan_ask *asks;
        size_t n_asks;
        struct cli_page *page;
        json_t *list;
};

/* Return: 0; 1: NCCL does not answer for this one, printed; -1: it is useless to go on, printed. */
static int model_one_alloc(struct asking *k, const char *text, const struct capo_alloc *a,
                           bool exact, bool brief)
{
        const struct fragment_machine *machine = k->machine;
        struct fragment_beyond beyond;
        struct capo_fit_fragment f;
        struct fit_models_shown s = {
                .text = text, .t = machine->t, .a = a, .f = &f, .measured_in = k->measured_in};
        char why[512], nccl[16];
        int r = capo_fit_fragment(machine, a, exact, k->asks, k->n_asks, k->options, k->profile, &f,
                                  why, sizeof why);

        if (r < 0) {
                capo_error("fit: --model %s: %s", text, why);
                return r == -ENOMEM || r == -EINTR || r == -ENOTSUP || r == -ENOEXEC ? -1 : 1;
        }
        s.machine = machine->domain && k->m->platform ? k->m->platform
                    : *machine->t->platform           ? machine->t->platform
                    : k->m->platform                  ? k->m->platform
                                                      : machine->t->name;
        if (!brief) {
                fragment_beyond(machine, a, &f.model, f.orders.row, &beyond);
                s.beyond = &beyond;
        }
        if (k->profile->n_notes[CAPO_PLATFORM] == 0) {
                capo_nccl_text((uint32_t)f.model.nccl.version, nccl, sizeof nccl);
                r = capo_profile_note(k->profile, CAPO_PROVENANCE, "nccl", nccl) |
                    capo_profile_note(k->profile, CAPO_PROVENANCE, "clock", "none: modelled") |
                    capo_profile_note(
                            k->profile, CAPO_PROVENANCE, "source",
                            "NCCL's cost model on virtual GPUs, corrected by links and hops") |
                    capo_profile_note(k->profile, CAPO_PLATFORM, "machine", s.machine);
                if (r < 0)
                        capo_error("fit: no memory");
        }
        json_array_append_new(k->list, fit_models_json(&s));
        (brief ? fit_models_line : fit_models_page)(k->page, &s);
        capo_fit_fragment_finish(&f);
        return r < 0 ? -1 : 0;
}

static int model_named_gpus(struct asking *k, const char *text)
{
        _cleanup_(capo_alloc_free) struct capo_alloc a = {0};
        char why[512];
        int r = capo_alloc_parse(k->machine->t, text, true, &a, why, sizeof why);
        bool exact = !a.any_order && !capo_gpus_counts(text, true);

        if (r == 0 && a.n_ranks < 2)
                r = capo_why(-EINVAL, why, sizeof why, "one GPU has nobody to talk to");
        if (r < 0)
                capo_error("fit: --model %s: %s", text, why);
        return r < 0 || model_one_alloc(k, text, &a, exact, false) ? -1 : 0;
}

/* ---- every class of a layout ---- */

struct example { /* the first subset of its class */
        char class[CAPO_CLASS_ROOM];
        int gpus[CAPO_PLAN_GPUS_MAX];
};

/* Return: the number of classes of @n GPUs; -1: more than @room. */
static int classes_of(const struct capo_topology *t, int n, struct example *out, int room)
{
        int found = 0;

        for (uint32_t set = 1; set < 1u << t->n_gpus; set++) {
                struct example e = {0};
                struct capo_alloc a;
                int at = 0, k = 0;

                if (__builtin_popcount(set) != n)
                        continue;
                for (size_t g = 0; g < t->n_gpus; g++) {
                        if (set >> g & 1)
                                e.gpus[at++] = (int)g;
                }
                capo_alloc_gpus(e.gpus, n, &a);
                capo_class_name(t, &a, e.class, sizeof e.class);
                capo_alloc_free(&a);
                while (k < found && strcmp(out[k].class, e.class) != 0)
                        k++;
                if (k == found && found == room)
                        return -1;
                if (k == found)
                        out[found++] = e;
        }
        return found;
}

static int model_class_pair(struct asking *k, const struct example *x, int n_x,
                            const struct example *y, int n_y)
{
        struct capo_alloc_rank ranks[2 * CAPO_PLAN_GPUS_MAX];
        struct capo_alloc a = {.n_ranks = n_x + n_y, .n_nodes = n_y ? 2 : 1, .ranks = ranks};
        char text[256];

        for (int i = 0; i < n_x; i++)
                ranks[i] = (struct capo_alloc_rank){0, x->gpus[i]};
        for (int i = 0; i < n_y; i++)
                ranks[n_x + i] = (struct capo_alloc_rank){1, y->gpus[i]};
        return model_one_alloc(k, capo_alloc_print(k->machine->t, &a, text, sizeof text), &a, true,
                               true) < 0
                       ? -1
                       : 0;
}

static int model_every_class(struct asking *k, const char *text)
{
        enum { CLASSES = 64 };
        _cleanup_free_ struct example *x = xcalloc(2 * CLASSES, sizeof *x);
        const struct capo_topology *t = k->machine->t;
        struct capo_layout layout;
        int n[2] = {0, 0}, found[2] = {0, 1}, nodes = 0;

        if (capo_layout_parse(text, &layout, NULL) < 0 || layout.n_nodes > 2 ||
            layout.n_ranks < 2 || capo_layout_largest(&layout) > t->n_gpus || t->n_gpus > 16)
                return capo_fail(
                        -1,
                        "fit: --every: expected ranks per node of one or two machines of up to 16 GPUs, such as 3 "
                        "or 3+5, "
                        "found \"%s\"",
                        text);
        for (uint32_t i = 0; i < layout.n_runs; i++) {
                for (uint32_t c = 0; c < layout.runs[i].nodes; c++)
                        n[nodes++] = (int)layout.runs[i].ranks;
        }
        for (int i = 0; i < nodes; i++) {
                found[i] = classes_of(t, n[i], x + i * CLASSES, CLASSES);
                if (found[i] < 0)
                        return capo_fail(-1, "fit: --every %s: more than 64 classes", text);
        }
        for (int i = 0; i < found[0]; i++) {
                cli_progress("asking NCCL, class", (uint64_t)i, (uint64_t)found[0]);
                for (int j = n[0] == n[1] ? i : 0; j < found[1]; j++) {
                        if (model_class_pair(k, &x[i], n[0], &x[CLASSES + j], n[1]) < 0)
                                return -1;
                }
        }
        cli_progress_end();
        return 0;
}

int fit_models_alone(struct fit_models *m, const struct capo_fit_options *options,
                     struct capo_profile *profile, struct cli_page *page, json_t *list)
{
        static char tools[4096], libnccl[4096];
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        _cleanup_free_ struct capo_plan_ask *asks = NULL;
        const struct capo_platform *rack =
                m->platform && !m->topo ? capo_platform_find(m->platform) : NULL;
        struct cli_machine_words o = {
                .topo = m->topo,
                .platform = rack && rack->tray ? rack->tray : m->platform,
        };
        const char *measured_in = NULL;
        struct cli_machine_source source;
        struct fragment_machine machine;
        struct asking k = {.m = m,
                           .machine = &machine,
                           .options = options,
                           .profile = profile,
                           .page = page,
                           .list = list};
        int r;

        r = find_model_tools(m, tools, libnccl, sizeof tools);
        if (r < 0)
                return r;
        r = cli_machine_measured("fit", &o, &t, &source, &measured_in);
        if (r < 0)
                return r;
        if (!*source.path)
                return capo_fail(
                        -1,
                        "fit: --model: NCCL reads only its own XML, and this machine is described otherwise");
        asks = make_asks(m->sizes ? m->sizes : "1K..8G*2", &k.n_asks);
        if (!asks)
                return -1;
        k.asks = asks;
        k.measured_in = measured_in;
        machine = (struct fragment_machine){
                tools,           libnccl, source.path,
                source.platform, t,       .domain = m->domain ? m->domain : rack ? rack->trays : 0};
        cli_page_title(page, "capo fit   %s%s   %s", m->every ? "every class of " : "", m->alloc[0],
                       m->platform ? m->platform : capo_base_name(m->topo));
        cli_page_under(page, "times are NCCL's model, corrected: nothing was measured");
        for (size_t i = 0; i < m->n; i++) {
                if ((m->every ? model_every_class(&k, m->alloc[i])
                              : model_named_gpus(&k, m->alloc[i])) < 0)
                        return -1;
        }
        return 0;
}
