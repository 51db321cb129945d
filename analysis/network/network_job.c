/* SPDX-License-Identifier: Apache-2.0 */
/* The network of a job: which rank used which NIC, and how near it is to the rank's GPU. */
#include "core/base/order.h"
#include "core/base/xalloc.h"
#include "core/log/fabric_kinds.h"
#include "core/log/info.h"
#include "analysis/network/network_parts.h"
#include "analysis/log/info_read.h"

/* ---- figures of a FABRIC line ---- */

double capo_fabric_percentile(const struct capo_fabric_hist *h, double p)
{
        uint64_t seen = 0, total = 0;

        for (unsigned b = 0; b < CAPO_HIST_BUCKETS; b++)
                total += h->bucket[b];
        for (unsigned b = 0; b < CAPO_HIST_BUCKETS && total; b++) {
                seen += h->bucket[b];
                if ((double)seen >= p * (double)total) {
                        double middle = (double)(capo_hist_floor(b) + capo_hist_floor(b + 1)) / 2;

                        return middle < (double)h->max_ns || !h->max_ns ? middle
                                                                        : (double)h->max_ns;
                }
        }
        return 0;
}

uint64_t capo_fabric_sent(const struct capo_fabric_counts *n)
{
        uint64_t bytes = 0;

        for (int k = 0; k < CAPO_FI_KINDS; k++) {
                if (capo_fabric_kind_sends[k])
                        bytes += n->kind[k].bytes;
        }
        return bytes;
}

uint64_t capo_fabric_recv(const struct capo_fabric_counts *n, bool *exact)
{
        uint64_t posts = n->kind[CAPO_FI_RECV].count + n->kind[CAPO_FI_TRECV].count;

        *exact = !n->blind && (n->received || !posts);
        if (n->received || n->blind)
                return n->received_bytes + n->blind_bytes;
        /* nothing was received, or the log's version does not tell which lengths are unknown */
        return n->kind[CAPO_FI_RECV].bytes + n->kind[CAPO_FI_TRECV].bytes;
}

uint64_t capo_fabric_ops(const struct capo_fabric_counts *n)
{
        uint64_t ops = 0;

        for (int k = 0; k < CAPO_FI_KINDS; k++)
                ops += n->kind[k].count;
        return ops;
}

bool capo_fabric_is_slow(const char *provider)
{
        static const char *const slow[] = {"tcp", "udp", "sockets", "net"};
        size_t n = strcspn(provider, ";");

        for (size_t i = 0; i < N_ELEMENTS(slow); i++) {
                if (strlen(slow[i]) == n && !strncmp(provider, slow[i], n))
                        return true;
        }
        return false;
}

/* ---- which rank used which NIC ---- */

static uint64_t link_bytes(const struct capo_fabric_link *l) { return l->sent + l->received; }

static int by_rank(const void *a_, const void *b_, void *job_)
{
        const struct capo_fabric_link *a = a_, *b = b_;
        const struct capo_job *job = job_;
        int ra = job->processes[a->process].rank, rb = job->processes[b->process].rank;

        return CAPO_ORDER(ra, rb) ?: CAPO_ORDER(a->process, b->process) ?: CAPO_ORDER(link_bytes(b), link_bytes(a));
}

/* The recorder wrote the NUMA node of each device that has a communicator. */
static int gpu_numa(const struct capo_job_process *p, int nic_numa)
{
        int numa = -1;

        for (uint32_t i = 0; i < p->n_info; i++) {
                char *end;
                long v;

                if (capo_info_index(p->info[i].key, CAPO_INFO_GPU_NUMA) < 0)
                        continue;
                v = strtol(p->info[i].value, &end, 10);
                if (end == p->info[i].value || *end || v < 0 || v > INT_MAX)
                        continue;
                if (numa < 0 || v == nic_numa)
                        numa = (int)v;
        }
        return numa;
}

/* By NIC, host and process. */
static int by_nic(const void *a_, const void *b_, void *job_)
{
        const struct capo_fabric_link *const *a = a_, *const *b = b_;
        const struct capo_job *job = job_;

        return strcmp((*a)->domain->nic, (*b)->domain->nic)
                       ?: strcmp(job->processes[(*a)->process].host, job->processes[(*b)->process].host)
                       ?: CAPO_ORDER((*a)->process, (*b)->process);
}

static bool same_nic(const struct capo_fabric_link *a, const struct capo_fabric_link *b,
                     const struct capo_job *job)
{
        return !strcmp(a->domain->nic, b->domain->nic) &&
               !strcmp(job->processes[a->process].host, job->processes[b->process].host);
}

/* Count a host's ranks on each link's NIC. This link's rank only if it used the NIC itself. */
static void count_sharers(struct capo_fabric_job *f, const struct capo_job *job)
{
        _cleanup_free_ struct capo_fabric_link **l =
                xmalloc((f->n_links ? f->n_links : 1) * sizeof *l);

        for (size_t i = 0; i < f->n_links; i++)
                l[i] = &f->links[i];
        qsort_r(l, f->n_links, sizeof *l, by_nic, (void *)(uintptr_t)job);
        for (size_t i = 0, end, next; i < f->n_links; i = end) {
                uint32_t users = 0;

                for (end = i; end < f->n_links && same_nic(l[i], l[end], job); end = next) {
                        bool used = false;

                        for (next = end; next < f->n_links && l[next]->process == l[end]->process &&
                                         same_nic(l[i], l[next], job);
                             next++)
                                used |= l[next]->ops != 0;
                        users += used;
                        /* `used`: its process is among the users, by whichever link */
                        for (size_t k = end; k < next; k++)
                                l[k]->sharers = (l[k]->ops != 0) - (uint32_t)used;
                }
                for (size_t k = i; k < end; k++)
                        l[k]->sharers = l[k]->domain->nic[0] ? l[k]->sharers + users : 0;
        }
}

void fabric_links_make(struct capo_fabric_job *f, const struct capo_job *job)
{
        size_t n = 0, used = 0;
        double bytes = 0;

        for (uint32_t p = 0; p < f->n_processes; p++)
                n += f->process[p] ? f->process[p]->n_domains : 0;
        f->links = xcalloc(n ? n : 1, sizeof *f->links);
        for (uint32_t p = 0; p < f->n_processes; p++) {
                for (size_t d = 0; f->process[p] && d < f->process[p]->n_domains; d++) {
                        struct capo_fabric_link *l = &f->links[f->n_links++];

                        l->process = p;
                        l->domain = &f->process[p]->domains[d];
                        l->ops = capo_fabric_ops(&l->domain->n);
                        l->sent = capo_fabric_sent(&l->domain->n);
                        l->received = capo_fabric_recv(&l->domain->n, &l->received_exact);
                        l->gpu_numa = gpu_numa(&job->processes[p], l->domain->numa);
                        used += l->ops != 0;
                        bytes += (double)link_bytes(l);
                }
        }
        for (size_t i = 0; i < f->n_links; i++) {
                struct capo_fabric_link *l = &f->links[i];

                if (used > 1 && bytes > 0)
                        l->load = (double)link_bytes(l) / (bytes / (double)used);
        }
        count_sharers(f, job);
        qsort_r(f->links, f->n_links, sizeof *f->links, by_rank, (void *)(uintptr_t)job);
}

struct capo_fabric_job *capo_fabric_job_new(const struct capo_job *job)
{
        _cleanup_(capo_fabric_job_freep) struct capo_fabric_job *f = xcalloc(1, sizeof *f);
        bool any = false;

        f->process = xcalloc(job->n_processes ? job->n_processes : 1, sizeof *f->process);
        f->n_processes = job->n_processes;
        for (uint32_t p = 0; p < job->n_processes; p++) {
                f->process[p] = capo_fabric_parse(job->processes[p].fabric);
                any |= f->process[p] && f->process[p]->n_domains > 0;
        }
        if (!any)
                return NULL;
        fabric_links_make(f, job);
        fabric_shares_make(f, job);
        return steal(&f);
}

void capo_fabric_job_free(struct capo_fabric_job *f)
{
        if (!f)
                return;
        for (uint32_t p = 0; f->process && p < f->n_processes; p++)
                capo_fabric_free(f->process[p]);
        xfree(f->process, f->links, f->shares, f);
}

const char *capo_fabric_job_warning(const struct capo_fabric_job *f, const struct capo_job *job,
                                    char *text, size_t room)
{
        const struct capo_fabric_link *worst = NULL;
        const struct capo_fabric *at;
        uint64_t slow = 0, all = 0;

        for (size_t i = 0; i < f->n_links; i++) {
                const struct capo_fabric_link *l = &f->links[i];

                at = f->process[l->process];
                all += link_bytes(l);
                if (!capo_fabric_is_slow(l->domain->provider) ||
                    !(at->machine.infiniband[0] || at->machine.cxi[0]))
                        continue;
                slow += link_bytes(l);
                if (!worst || link_bytes(l) > link_bytes(worst))
                        worst = l;
        }
        if (!worst || slow * 10 < all || !slow)
                return NULL;
        at = f->process[worst->process];
        snprintf(text, room,
                 "%.0f %% of the network traffic went over %s (%s), though %s has %s %.60s",
                 100.0 * (double)slow / (double)all, worst->domain->provider,
                 *worst->domain->nic ? worst->domain->nic : worst->domain->name,
                 job->processes[worst->process].host,
                 at->machine.cxi[0] ? "Slingshot devices" : "InfiniBand or EFA devices",
                 at->machine.cxi[0] ? at->machine.cxi : at->machine.infiniband);
        return text;
}
