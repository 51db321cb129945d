/* SPDX-License-Identifier: Apache-2.0 */
/* The last known network activity of a stuck rank, per NIC, from the FABRIC frames of its log. */
#pragma once

#include "analysis/job/job.h"

/* An open libfabric domain with at least one posted operation. */
struct capo_hang_nic {
        char name[64], device[64], pci[16]; /* "": not known */
        uint64_t outstanding;               /* sends posted whose completion was not read */
        bool unsure;                        /* that number is not known, and is 0 */
        uint64_t completed_ns;    /* since 1970: when a completion was last seen; 0: never */
        uint64_t receives;        /* receives posted that got nothing; 0: also if not known */
        uint64_t refused, errors; /* since it was opened: posts refused for the moment (EAGAIN);
                                     completions with an error */
        char error[64];           /* libfabric's text for one of the errors; "": none */
};

struct capo_hang_network {
        struct capo_hang_nic *nics; /* most outstanding first */
        uint32_t n_nics;
        uint64_t at_ns; /* since 1970: when this was recorded; 0: an old log without that data */
};

/** capo_hang_network() - of process @p; without NICs if it used none. _finish() frees them: capo
 * watch asks again and again. */
void capo_hang_network(const struct capo_job_process *p, struct capo_hang_network *out);
static inline void capo_hang_network_finish(struct capo_hang_network *n) { free(n->nics); }
