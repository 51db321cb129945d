/* SPDX-License-Identifier: Apache-2.0 */
/* The last known network activity of a stuck rank, from the FABRIC frames of its log, per NIC. */
#ifndef CAPO_HANG_NETWORK_H
#define CAPO_HANG_NETWORK_H

#include "analysis/job/job.h"

/* A libfabric domain that is open and over which something was posted. */
struct capo_hang_nic {
        char name[64], device[64], pci[16]; /* "" not known */
        uint64_t outstanding;               /* posted to leave, completion not read */
        bool unsure;                        /* how many are is not known: then it is 0 */
        uint64_t completed_ns; /* since 1970: when a completion was last seen to have been read; 0
                                  never */
        uint64_t receives;     /* posted, and nothing has come for them; 0 also where not known */
        uint64_t refused, errors; /* since it was opened: posts refused for the moment; completions
                                     in error */
        char error[64];           /* libfabric's words for one of the errors; "" none */
};

struct capo_hang_network {
        struct capo_hang_nic *nics; /* those with most outstanding first */
        uint32_t n_nics;
        uint64_t at_ns; /* since 1970: when that was seen; 0 not known, then nothing of it is: a log
                           of before */
};

/** capo_hang_network() - of process @p. Return: 0, without NICs where it used none; -ENOMEM.
 * _finish() in any case. */
int capo_hang_network(const struct capo_job_process *p, struct capo_hang_network *out);
void capo_hang_network_finish(struct capo_hang_network *n);

#endif
