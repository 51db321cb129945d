/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/util.h"
#include "analysis/network/network_sums.h"
#include "core/log/fabric_kinds.h"

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
