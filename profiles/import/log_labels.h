/* SPDX-License-Identifier: Apache-2.0 */
/* What one of capo's logs says of itself, for the reader of its calls (import_log.c). */
#ifndef CAPO_IMPORT_LOG_SAID_H
#define CAPO_IMPORT_LOG_SAID_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/layout.h"
#include "analysis/log/log_read.h"
#include "profiles/import/import_private.h"

/* A candidate of a sweep, as a RULES frame names it: "candidate <id> <algo> <proto> <channels>",
 * tabs between. */
struct log_want {
        uint8_t algo_proto, channels;
        uint32_t chunk;
};

struct log_candidate {
        bool known; /* a sweep's; else a profile's row, of which only the chunk is used */
        struct log_want want;
};

struct log_said {
        struct log_comm {
                struct capo_log_comm comm;
                bool known;               /* the log describes it */
                uint32_t run;             /* 1 + the run of its calls; 0: none yet */
        } * comms;                        /* by id */
        struct log_candidate *candidates; /* by rule */
        /* tables are for every number there can be; of most logs a few are used, below these */
        uint32_t n_comms, n_candidates;
        bool sweep;
        char layout[CAPO_LAYOUT_TEXT], gpu[48], host[64];
        char tuner[256], driver[32];
        struct capo_settings settings;
        uint32_t nccl;
        uint8_t env_algo, env_proto; /* NCCL_ALGO, NCCL_PROTO of the process, when they name one */
        bool env_several;
        uint64_t traced;
        int64_t began; /* seconds since 1970 */
};

/** log_said_new() - for one log; NULL: no memory. log_said_clear() makes it ready for the next. */
struct log_said *log_said_new(void);
void log_said_clear(struct log_said *f);
void log_said_free(struct log_said *f);
static inline void log_said_freep(struct log_said **f)
{
        log_said_free(*f);
}

/** log_said_read() - what later frames lean on, whatever their order: the first pass. 0, or -errno
 * of the reader. */
int log_said_read(struct log_said *f, struct capo_log *log);

/** log_said_comm() - the communicator that records call @id; NULL when the log does not have it. */
const struct capo_log_comm *log_said_comm(const struct log_said *f, unsigned id);

enum log_known {
        LOG_KNOWN,   /* what was forced */
        LOG_UNKNOWN, /* NCCL chose from a list, and what it chose is not recorded */
        LOG_UNNAMED  /* decided by something this log does not name */
};

/** log_said_want() - what was forced for a call: nothing without a rule; a sweep's candidate; a
 * profile's row shows as what ran, with a chunk of its own. @want is set, to nothing unless
 * LOG_KNOWN. */
enum log_known log_said_want(const struct log_said *f, uint16_t rule, uint8_t ran,
                             struct log_want *want);

#endif
