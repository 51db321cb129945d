/* SPDX-License-Identifier: Apache-2.0 */
/* Why a rank is late, or all calls are slow: hypotheses (cause_kinds.def) checked against what the
 * machine said (include/capo/machine.def). A hypothesis is the cause if it is there, is not there
 * on the other ranks or nodes, and explains half of the lost time. A counter that has no time (lost
 * packets, a slow link) is one only where nothing else explains half. The rest was also seen. */
#pragma once

#include "analysis/causes/cause_kinds.h"
#include "analysis/job/job.h"

/* One late rank, or the slow calls of a whole job. */
struct capo_causes {
        uint32_t comm;   /* CAPO_NO_COMM: no rank is late; the calls of all are slow */
        uint32_t member; /* of it: who is late */
        uint32_t process;
        uint64_t since_ns, until_ns; /* since 1970; 0: from the beginning, to the end */
        double longer;    /* steps take longer since then, by this share; 0: a rank is late */
        bool not_between; /* it was sampled, and what it did between its calls is not why */
        double lost_ns;   /* by how much it was late in all, of its own time */
        struct capo_cause_found found[CAPO_WHYS]; /* causes first, by explained time */
        unsigned n;
        char asked[256], not_asked[256]; /* what was read of its machine, and what could not be */
};

struct capo_machine_series;

/* The readings of all processes, by process; NULL: it has none. */
struct capo_why_readings {
        struct capo_machine_series **in;     /* of the episode; NULL: no process has any */
        struct capo_machine_series **before; /* before it; NULL: it is the whole job */
};

/** capo_why_read() - the readings for the functions below, of an episode from @from_ns (0: the
 * beginning) to @to_ns (0: the end), since 1970. What it is compared with begins at @begin_ns. */
struct capo_why_readings capo_why_read(const struct capo_job *job, uint64_t begin_ns,
                                       uint64_t from_ns, uint64_t to_ns);
void capo_why_free(struct capo_why_readings *readings, uint32_t n_processes);

/** capo_why_late() - why member @member of job->comms[@comm] is late
 * @lost_ns: by how much in all
 * @on_gpu: its calls come in time and its GPU comes late to them */
void capo_why_late(const struct capo_job *job, const struct capo_why_readings *readings,
                   uint32_t comm, uint32_t member, double lost_ns, bool on_gpu,
                   struct capo_causes *out);

/** capo_why_slow() - what makes the calls of all slow: of some rank or node. @lost_ns: how much
 * longer they took than they usually do, mean over ranks; 0: not slow, or as slow all the time:
 * what was so all the time is the cause, the rest only also seen. With readings before: why all is
 * slower since then. */
void capo_why_slow(const struct capo_job *job, const struct capo_why_readings *readings,
                   double lost_ns, struct capo_causes *out);

/** capo_why_rank() - the rank that @found is of; -1: it is its node's. */
int32_t capo_why_rank(const struct capo_job *job, const struct capo_cause_found *found);

/* name: "cpu_limit"; the other two as in the list. */
extern const struct capo_why_text {
        const char *name, *words, *advice;
} capo_whys[CAPO_WHYS];
