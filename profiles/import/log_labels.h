/* SPDX-License-Identifier: Apache-2.0 */
/* Reads from the log of a process what was forced in it, and which GPU, driver and NCCL it used. */
#pragma once

#include "profiles/import/import_private.h"

struct log_want {
        uint8_t algo_proto, channels;
        uint32_t chunk;
};

enum { LOG_RULES = UINT16_MAX + 1 };

/* Labels of one process. */
struct log_labels {
        char settings[128];
        uint32_t nccl;
        uint8_t env_algo, env_proto; /* NCCL_ALGO, NCCL_PROTO, when they name one */
        bool env_several;
        bool sweep;
        uint32_t n_candidates; /* rules below it may be candidates */
        struct log_candidate {
                bool known; /* a sweep's candidate; if not, a profile's row, of which only
                             the chunk is used */
                struct log_want want;
        } candidates[LOG_RULES]; /* by rule */
};

/** log_text() - what the log of @p says under @key; "": nothing. */
const char *log_text(const struct capo_job_process *p, const char *key);

/** log_labels_read() - read the labels of @p. @labels: zero, or filled for another process. */
void log_labels_read(struct log_labels *labels, const struct capo_job_process *p);

enum log_known {
        LOG_KNOWN,   /* it is known what was forced */
        LOG_UNKNOWN, /* NCCL chose from a list, and what it chose is not recorded */
        LOG_UNNAMED  /* decided by something this log does not name */
};

/** log_labels_want() - what was forced for a call by @rule, of which @ran ran
 * @want: always set, to zero unless LOG_KNOWN
 *
 * Rule 0 is none: only NCCL_ALGO and NCCL_PROTO force something. In a sweep the rule is a
 * candidate. Otherwise it is a row of a profile: what ran counts as forced, with the chunk of the
 * row. */
enum log_known log_labels_want(const struct log_labels *labels, uint16_t rule, uint8_t ran,
                               struct log_want *want);
