/* SPDX-License-Identifier: Apache-2.0 */
/* Figures derived from the numbers of a FABRIC line (core/log/fabric_frame.h). */
#ifndef CAPO_FABRIC_SUMS_H
#define CAPO_FABRIC_SUMS_H

#include "analysis/log/fabric_read.h"

/** capo_fabric_percentile() - quantile @p (0..1) of @h in ns, with an error of at most 1/16; 0 when
 * empty. */
double capo_fabric_percentile(const struct capo_fabric_hist *h, double p);

/** capo_fabric_sent(), capo_fabric_recv() - bytes out (including those the peer fetched) and in.
 * *@exact false: receives were counted by the size of their buffers, because the queue's format has
 * no lengths. */
uint64_t capo_fabric_sent(const struct capo_fabric_counts *n);
uint64_t capo_fabric_recv(const struct capo_fabric_counts *n, bool *exact);
uint64_t capo_fabric_ops(const struct capo_fabric_counts *n);

/** capo_fabric_is_slow() - does @provider use the kernel's network stack (tcp, udp, sockets, net)?
 */
bool capo_fabric_is_slow(const char *provider);

#endif
