/* SPDX-License-Identifier: Apache-2.0 */
/* capo fit --model: finds machine, libnccl and GPUs, then uses profiles/fit/fit_model.h. */
#include "capo/collectives.h"
#include "capo/msg.h"
#include "cli/fit/cmd_fit.h"
#include "cli/base/plan_tools.h"
#include "cli/base/cli_machine.h"
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

/* A rule of @text, one allocation, and its page. @s: of all of them. Return: 0; -1, printed. */
static int model_alloc(const char *text, const struct fragment_machine *machine,
                       const struct capo_plan_ask *asks, size_t n_asks,
                       const struct capo_fit_options *options, struct fit_models_shown s,
                       struct capo_profile *profile, struct cli_page *page, json_t *list)
{
        _cleanup_(capo_alloc_free) struct capo_alloc a = {0};
        struct fragment_beyond beyond;
        struct capo_fit_fragment f;
        char why[512], nccl[16];
        int r = capo_alloc_parse(machine->t, text, true, &a, why, sizeof why);

        if (r == 0 && a.n_ranks < 2)
                r = capo_why(-EINVAL, why, sizeof why, "one GPU has nobody to talk to");
        if (r == 0)
                r = capo_fit_fragment(machine, &a, !a.any_order && !capo_gpus_counts(text, true),
                                      asks, n_asks, options, profile, &f, why, sizeof why);
        if (r < 0)
                return capo_fail(-1, "fit: --model %s: %s", text, why);
        s.text = text;
        s.a = &a;
        s.f = &f;
        s.beyond = &beyond;
        fragment_beyond(machine, &a, &f.model, f.orders.row, &beyond);
        if (profile->n_notes[CAPO_PLATFORM] == 0) {
                capo_nccl_text((uint32_t)f.model.nccl.version, nccl, sizeof nccl);
                capo_fit_memory(!(
                        capo_profile_note(profile, CAPO_PROVENANCE, "nccl", nccl) |
                        capo_profile_note(profile, CAPO_PROVENANCE, "clock", "none: modelled") |
                        capo_profile_note(
                                profile, CAPO_PROVENANCE, "source",
                                "NCCL's cost model on virtual GPUs, corrected by links and hops") |
                        capo_profile_note(profile, CAPO_PLATFORM, "machine", s.machine)));
        }
        json_array_append_new(list, fit_models_json(&s));
        fit_models_page(page, &s);
        capo_fit_fragment_finish(&f);
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
        struct fit_models_shown shown = {0};
        struct cli_machine_source source;
        struct fragment_machine machine;
        size_t n_asks;
        int r;

        r = find_model_tools(m, tools, libnccl, sizeof tools);
        if (r < 0)
                return r;
        r = cli_machine_measured("fit", &o, &t, &source, &shown.measured_in);
        if (r < 0)
                return r;
        if (!*source.path)
                return capo_fail(
                        -1,
                        "fit: --model: NCCL reads only its own XML, and this machine is described otherwise");
        asks = make_asks(m->sizes ? m->sizes : "1K..8G*2", &n_asks);
        if (!asks)
                return -1;
        machine = (struct fragment_machine){
                tools,           libnccl, source.path,
                source.platform, t,       .domain = m->domain ? m->domain : rack ? rack->trays : 0};
        cli_page_title(page, "capo fit   %s   %s", m->alloc[0],
                       m->platform ? m->platform : capo_base_name(m->topo));
        cli_page_under(page, "times are NCCL's model, corrected: nothing was measured");
        shown.t = t;
        shown.machine = machine.domain && m->platform ? m->platform
                        : *t->platform                ? t->platform
                        : m->platform                 ? m->platform
                                                      : t->name;
        for (size_t i = 0; i < m->n && r >= 0; i++)
                r = model_alloc(m->alloc[i], &machine, asks, n_asks, options, shown, profile, page,
                                list);
        return r < 0 ? -1 : 0;
}
