/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators of the page, and who waits for whom on them. */
#include "cli/base/cli_table.h"
#include "cli/report/report_text.h"
#include "core/base/util.h"

enum { COMMS_SHOWN = 6 };

static void add_comm_row(const struct capo_page *r, uint32_t i, struct capo_table *t)
{
        const struct capo_job *job = r->job;
        const struct capo_job_comm *c = &job->comms[i];
        uint64_t n_calls = 0, n_members = 0;
        char text[256];

        for (uint32_t k = i; k < job->n_comms; k++) {
                n_calls += r->class_of[k] == i ? job->comms[k].n_calls : 0;
                n_members += r->class_of[k] == i ? job->comms[k].n_members : 0;
        }
        capo_table_cell(t, "%s", capo_page_comm_label(r, i, text, sizeof text));
        capo_table_cell(t, "%u", c->n_nodes);
        capo_table_cell(t, "%s", c->layout);
        if (c->parent == CAPO_NO_COMM)
                capo_table_cell(t, "-");
        else if (c->color >= 0 && r->class_size[i] == 1)
                capo_table_cell(t, "%s color %d", job->comms[c->parent].name, c->color);
        else
                capo_table_cell(t, "%s", job->comms[c->parent].name);
        capo_table_cell(t, "%s", capo_text_count(n_calls, text));
        capo_table_cell(t, "%s", capo_text_count(n_members, text));
}

static void print_comms(const struct capo_page *r, FILE *out, const struct report_style *s)
{
        const struct capo_job *job = r->job;
        _cleanup_(capo_table_freep) struct capo_table *t = capo_table_new("lr/bl~l/arr/c");
        static const char *const head[] = {"name (ranks)", "nodes",       "layout",
                                           "from",         "collectives", "logs"};
        uint32_t shown = 0, n_classes = 0, limit;

        for (uint32_t i = 0; i < job->n_comms; i++)
                n_classes += r->class_of[i] == i;
        if (!t || n_classes < 2)
                return;
        limit = r->all || n_classes <= COMMS_SHOWN + 2 ? n_classes : COMMS_SHOWN;
        fprintf(out, "\n%sCOMMUNICATORS%s%s\n", s->bold, s->plain,
                n_classes < job->n_comms
                        ? "     those that do the same for other ranks are shown together, nodes and "
                          "layout of the first"
                        : "");
        for (size_t i = 0; i < N_ELEMENTS(head); i++)
                capo_table_cell(t, "%s", head[i]);
        for (uint32_t i = 0; i < job->n_comms && shown < limit; i++) {
                if (r->class_of[i] == i) {
                        add_comm_row(r, i, t);
                        shown++;
                }
        }
        capo_table_print(t, out, 1, s->bold, s->plain);
        if (shown < n_classes)
                fprintf(out, "%u more: capo report --all %s\n", n_classes - shown, r->what);
}

static void one_wait(const struct capo_page *r, const struct capo_page_wait *w, FILE *out)
{
        const struct capo_job_comm *c = &r->job->comms[w->comm];
        char text[32];

        fprintf(out, "%s\n", w->text);
        if (c->skew->wait_share < 0)
                return;
        fprintf(out, "    cost of waiting: %s of the job",
                capo_text_percent(c->skew->wait_share, text));
        if (c->skew->n_host)
                fprintf(out, "; %s of the calls by the host's start",
                        capo_text_count(c->skew->n_host, text));
        if (c->n_calls > c->skew->n_calls)
                fprintf(out, "; estimated for all %s calls", capo_text_count(c->n_calls, text));
        fputc('\n', out);
}

/* What the starts are by, and whose clocks they are on. @kernels: by what those say themselves, 0
 * none, 1 some, 2 all. */
static void clocks_text(const struct capo_page *r, unsigned sources, int kernels, bool host,
                        FILE *out)
{
        const struct capo_job *job = r->job;

        if (sources & 1u << CAPO_SKEW_GPU_DURATION)
                fputs(kernels == 2
                              ? "; by how long NCCL's kernels waited (the GPU's clock): who waited least came last"
                      : kernels == 1
                              ? "; by how long NCCL's kernels waited (the GPU's clock), else by GPU durations: who "
                                "was in it shortest came last"
                              : "; by GPU durations: a call ends everywhere together, who is in it shortest came "
                                "last",
                      out);
        if (host)
                fputs("; others by the host's start", out);
        if (host || sources != 1u << CAPO_SKEW_GPU_DURATION) {
                if (job->n_clocks < 2)
                        fputs("; one host, one clock", out);
                else
                        fprintf(out, "; clocks of %u hosts as they are", job->n_clocks);
        }
}

static void who_waits(const struct capo_page *r, FILE *out, const struct report_style *s)
{
        const struct capo_job *job = r->job;
        uint32_t shown = r->all || r->n_waits <= COMMS_SHOWN ? r->n_waits : COMMS_SHOWN;
        uint32_t unknown = r->all || r->n_unknown <= 2 ? r->n_unknown : 2;
        uint64_t told = 0, of_gpu = 0;
        unsigned sources = 0;
        bool host = false;

        if (!r->n_waits && !r->n_unknown)
                return;
        for (uint32_t i = 0; i < r->n_waits; i++)
                sources |= 1u << job->comms[r->waits[i].comm].skew->from;
        for (uint32_t i = 0; i < r->n_waits; i++) {
                const struct capo_skew *k = job->comms[r->waits[i].comm].skew;

                host |= k->n_host > 0;
                told += k->n_kernel;
                of_gpu += k->from == CAPO_SKEW_GPU_DURATION ? k->n_calls - k->n_host : 0;
        }
        fprintf(out, "\n%sWHO WAITS FOR WHOM%s     start of the same call on all ranks", s->bold,
                s->plain);
        if (sources)
                clocks_text(r, sources, told ? 1 + (told == of_gpu) : 0, host, out);
        fputc('\n', out);
        for (uint32_t i = 0; i < shown; i++)
                one_wait(r, &r->waits[i], out);
        if (shown < r->n_waits)
                fprintf(out, "%u more communicators: capo report --all %s\n", r->n_waits - shown,
                        r->what);
        for (uint32_t i = 0; i < unknown; i++)
                fprintf(out, "%s: not known: %s\n", capo_page_comm(r, r->unknown[i].comm),
                        r->unknown[i].why);
        if (unknown < r->n_unknown)
                fprintf(out, "not known for %u more: capo report --all %s\n",
                        r->n_unknown - unknown, r->what);
}

void report_text_comms(const struct capo_page *r, FILE *out, const struct report_style *s)
{
        print_comms(r, out, s);
        who_waits(r, out, s);
}
