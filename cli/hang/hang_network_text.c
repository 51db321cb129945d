/* SPDX-License-Identifier: Apache-2.0 */
/* Lines about an unfinished call below NCCL: streams, and the rank's network. */
#include "cli/hang/hang_describe.h"
#include "analysis/hang/hang_network.h"
#include "core/base/among.h"
#include "analysis/job/figures.h"

enum { STREAMS = 4, NICS = 4, RANKS = 4 };
#define SEEN_LATE_NS UINT64_C(2000000000)

const struct capo_hang_call *hang_stream(const struct hang_page *page, uint32_t process, uint32_t i)
{
        const struct capo_hang_process *h = &page->hang.processes[process];

        for (uint32_t k = 0; k < h->n_calls; k++) {
                const struct capo_hang_call *c = &h->calls[k];

                if (c->gpu == CAPO_HANG_GPU_RUNNING &&
                    !ANY_OF(before, h->calls, k,
                            before->gpu == CAPO_HANG_GPU_RUNNING && before->stream == c->stream) &&
                    i-- == 0)
                        return c;
        }
        return NULL;
}

static bool below_nccl(const struct capo_hang_culprit *c)
{
        return c->why == CAPO_HANG_WHY_GPU || c->why == CAPO_HANG_WHY_CALL;
}

static const char *name_of(const struct capo_hang_nic *nic)
{
        return *nic->device ? nic->device : *nic->name ? nic->name : "(no name)";
}

static void one_nic(const struct hang_page *p, const struct capo_hang_nic *nic, FILE *out)
{
        uint64_t now_ns = p->hang.now_ns, at_ns = nic->completed_ns;

        fprintf(out, "    network %s%s%s%s: ", name_of(nic), *nic->pci ? " (" : "", nic->pci,
                *nic->pci ? ")" : "");
        if (nic->unsure || !nic->outstanding)
                fputs(nic->unsure ? "what is outstanding is not known"
                                  : "nothing posted to leave is outstanding",
                      out);
        else
                fprintf(out, "%s posted and not completed",
                        capo_text_plural(nic->outstanding, "operation", NULL));
        if (at_ns)
                fprintf(out, ", the last completion %s, %s ago", hang_clock(at_ns),
                        capo_text_time(now_ns > at_ns ? (double)(now_ns - at_ns) : 0, hang_room()));
        else
                fputs(", no completion so far", out);
        if (nic->receives)
                fprintf(out, "; %s",
                        capo_text_plural(nic->receives, "receive waits", "receives wait"));
        if (nic->refused)
                fprintf(out, "; refused for the moment so far: %s",
                        capo_text_count(nic->refused, hang_room()));
        if (nic->errors)
                fprintf(out, "; errors: %s (%s)", capo_text_count(nic->errors, hang_room()),
                        nic->error);
        fputc('\n', out);
}

void hang_text_below(const struct hang_page *p, const struct capo_hang_culprit *c, FILE *out)
{
        _cleanup_(capo_hang_network_finish) struct capo_hang_network net = {0};
        const struct capo_hang_call *call;

        if (!below_nccl(c))
                return;
        for (uint32_t i = 0; i < STREAMS && (call = hang_stream(p, c->process, i)); i++)
                fprintf(out, "    on its GPU: %s, stream %x, handed over %s\n", hang_call(p, call),
                        call->stream, hang_clock(call->begin_ns));
        capo_hang_network(&p->job->processes[c->process], &net);
        for (uint32_t i = 0; i < net.n_nics && i < NICS; i++)
                one_nic(p, &net.nics[i], out);
        if (net.n_nics > NICS)
                fprintf(out, "    and %u more network interfaces (--json)\n", net.n_nics - NICS);
        if (net.n_nics && net.at_ns + SEEN_LATE_NS < p->hang.now_ns)
                fprintf(out, "    that of the network was seen at %s\n", hang_clock(net.at_ns));
}

void hang_text_network(const struct hang_page *p, FILE *out)
{
        const struct capo_hang_verdict *v = &p->verdict;
        uint32_t asked = 0, found = 0;

        for (uint32_t i = 0; i < v->n_culprits; i++) {
                _cleanup_(capo_hang_network_finish) struct capo_hang_network net = {0};

                if (!below_nccl(&v->culprits[i]))
                        continue;
                capo_hang_network(&p->job->processes[v->culprits[i].process], &net);
                if (!net.n_nics)
                        continue;
                asked++;
                if (!net.nics[0].outstanding || found++ >= RANKS)
                        continue;
                fprintf(out, "%s%s (%s: %s)",
                        found == 1 ? "  the network does not complete what these have posted: "
                                   : ", ",
                        hang_who(p, v->culprits[i].process), name_of(&net.nics[0]),
                        capo_text_count(net.nics[0].outstanding, hang_room()));
        }
        if (found > RANKS)
                fprintf(out, " and %u more", found - RANKS);
        if (found)
                fprintf(out, "; %u rank%s used it\n", asked, asked == 1 ? "" : "s");
}
