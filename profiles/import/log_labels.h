/* SPDX-License-Identifier: Apache-2.0 */
/* What was forced in a recorded process, and on what it ran: from what its log says of it. */
#ifndef CAPO_IMPORT_LOG_LABELS_H
#define CAPO_IMPORT_LOG_LABELS_H

#include "analysis/job/job.h"
#include "profiles/import/import_private.h"

struct log_want {
        uint8_t algo_proto, channels;
        uint32_t chunk;
};

enum { LOG_RULES = UINT16_MAX + 1 };

/* Of one process at a time. Texts are the job's, "" where its log has none. */
struct log_labels {
        const char *layout, *gpu, *tuner, *driver, *job, *uid;
        struct capo_settings settings;
        uint32_t nccl;
        uint8_t env_algo, env_proto; /* NCCL_ALGO, NCCL_PROTO, when they name one */
        bool env_several;
        bool sweep;
        uint32_t n_candidates; /* rules below it may be candidates */
        struct log_candidate {
                bool known; /* a sweep's; else a profile's row, of which only the chunk is used */
                struct log_want want;
        } candidates[LOG_RULES]; /* by rule */
};

/** log_labels_read() - of @p. @labels: zero, or those of another process. */
void log_labels_read(struct log_labels *labels, const struct capo_job_process *p);

enum log_known {
        LOG_KNOWN,   /* what was forced */
        LOG_UNKNOWN, /* NCCL chose from a list, and what it chose is not recorded */
        LOG_UNNAMED  /* decided by something this log does not name */
};

/** log_labels_want() - what was forced for a call: nothing without a rule; a sweep's candidate; a
 * profile's row shows as what ran, with a chunk of its own. @want is set, to nothing unless
 * LOG_KNOWN. */
enum log_known log_labels_want(const struct log_labels *labels, uint16_t rule, uint8_t ran,
                               struct log_want *want);

#endif
