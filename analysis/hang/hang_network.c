/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/order.h"
#include "core/base/plain_text.h"
#include "core/base/xalloc.h"
#include "analysis/log/fabric_read.h"
#include "analysis/hang/hang_network.h"
#include "core/log/fabric_kinds.h"

static uint64_t receives_to(const struct capo_fabric *f, uint32_t cq, bool *whole)
{
        uint64_t n = 0;

        for (size_t i = 0; i < f->n_objects; i++) {
                const struct capo_fabric_object *o = &f->objects[i];

                if (strcmp(o->kind, "ep") != 0 || o->rx_cq != cq)
                        continue;
                *whole &= !o->closed;
                n += o->n.kind[CAPO_FI_RECV].count + o->n.kind[CAPO_FI_TRECV].count;
        }
        return n;
}

static void copy_plain(char *to, const char *from, size_t room)
{
        snprintf(to, room, "%.*s", (int)room - 1, from);
        capo_plain(to, strlen(to), false, true);
}

static void fill_nic(struct capo_hang_nic *nic, const struct capo_fabric *f,
                     const struct capo_fabric_domain *d, uint64_t epoch_ns)
{
        uint64_t completed_ns = 0;

        copy_plain(nic->name, d->name, sizeof nic->name);
        copy_plain(nic->device, d->device, sizeof nic->device);
        copy_plain(nic->pci, d->nic, sizeof nic->pci);
        for (size_t i = 0; i < f->n_objects; i++) {
                const struct capo_fabric_object *o = &f->objects[i];
                bool whole = !d->folded;
                uint64_t posted;

                if (o->closed || o->domain != d->id || strcmp(o->kind, "cq") != 0)
                        continue;
                nic->outstanding += o->outstanding;
                nic->unsure |= o->unsure;
                completed_ns = o->completed_ns > completed_ns ? o->completed_ns : completed_ns;
                posted = receives_to(f, o->id, &whole);
                /* if the queue does not tell which entries are receives, none is known to have
                 * arrived */
                if (whole && o->n.received && posted > o->n.received)
                        nic->receives += posted - o->n.received;
        }
        nic->completed_ns = completed_ns ? epoch_ns + completed_ns : 0;
        nic->refused = d->n.eagain;
        nic->errors = d->n.errors;
        if (d->n.n_errors)
                copy_plain(nic->error, d->n.error[0].text, sizeof nic->error);
}

CAPO_ORDERED(by_outstanding, struct capo_hang_nic, CAPO_ORDER(b->outstanding, a->outstanding),
             CAPO_ORDER(a->completed_ns, b->completed_ns), strcmp(a->name, b->name));

void capo_hang_network(const struct capo_job_process *p, struct capo_hang_network *out)
{
        uint64_t epoch_ns = p->header.t0_real_ns -
                            p->header.t0_mono_ns; /* modulo 2^64, like the value added to it */
        _cleanup_(capo_fabric_freep) struct capo_fabric *f = capo_fabric_parse(p->fabric);

        *out = (struct capo_hang_network){0};
        if (!f || !f->last_count.at_ns)
                return;
        out->nics = xcalloc(f->n_domains + 1, sizeof *out->nics);
        out->at_ns = epoch_ns + f->last_count.at_ns;
        for (size_t i = 0; i < f->n_domains; i++) {
                const struct capo_fabric_domain *d = &f->domains[i];
                uint64_t posted = 0;

                for (int k = 0; k < CAPO_FI_KINDS; k++)
                        posted += d->n.kind[k].count;
                if (!d->closed && posted)
                        fill_nic(&out->nics[out->n_nics++], f, d, epoch_ns);
        }
        CAPO_SORT(out->nics, out->n_nics, by_outstanding);
}
