/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MACHINE frames of one process (core/log/machine_frame.h), added up. A counter that goes back
 * has begun anew, or has wrapped at 32 bits; an object that vanished keeps what it had.
 */
#pragma once

#include "analysis/job/job.h"
#include "core/log/machine_frame.h"

struct capo_machine_value {
        bool asked;           /* false: it was never read: not 0 */
        uint64_t last;        /* the last reading */
        uint64_t grew;        /* of a counter, from the first reading on */
        uint64_t more;        /* when it grew last, by how much */
        uint64_t step;        /* the most that it grew by from one reading to the next */
        bool gone;            /* it could not be read any more */
        uint64_t least, most; /* of a gauge */
        uint64_t any;         /* of a gauge of bits: those that any reading had */
        uint64_t since_ns;    /* the reading before it grew first; since the log's epoch */
        uint64_t until_ns;    /* the reading after it grew last */
};

struct capo_machine_object {
        enum capo_machine_scope scope;
        char name[64];
        uint64_t busy_mhz;                /* of a GPU: its least clock while not idle; 0: none */
        struct capo_machine_value *value; /* by row of the scope; owned */
        unsigned number;                  /* in the log */
        const struct capo_machine_reading **row; /* by number in the log; owned */
};

/* What the process did between its NCCL calls. */
struct capo_machine_stack {
        unsigned number;
        enum capo_between_kind kind;
        uint64_t samples; /* of the thread with the most */
        char *text;       /* owned */
};

/* A reading of @o that changed at @at_ns: to @value, by @grew since @from_ns if it is a counter. ns
 * since the log's epoch. */
typedef void capo_machine_visitor(void *arg, const struct capo_machine_object *o,
                                  const struct capo_machine_reading *r, uint64_t from_ns,
                                  uint64_t at_ns, uint64_t value, uint64_t grew);

struct capo_machine_series {
        struct capo_machine_object *object;
        uint32_t n_objects;
        struct capo_machine_stack *stack;
        uint32_t n_stacks;
        uint64_t from_ns, to_ns; /* the window: readings between these */
        bool through;            /* and one behind */
        uint64_t begun_ns;       /* the first reading in it */
        uint64_t readings, first_ns, last_ns;
        uint64_t samples, inside;    /* taken; of them inside of NCCL calls */
        double period_ns;            /* that a sample stands for */
        double sampled_ns;           /* the time in which they were taken */
        double stopped_ns;           /* it did not run, and had no CPU to wait for */
        double idle_ns;              /* of the interval before the last: no thread ran or waited */
        double noted_ns;             /* of stopped_ns what the last reading noted */
        capo_machine_visitor *visit; /* NULL: none */
        void *arg;
        char left[200]; /* the first source that was left out, and why; "": none */
};

/** capo_machine_series() - of @process, from the reading before @from_ns to that at @to_ns or before
 * (@through: or behind), ns since the log's epoch. NULL: it has none there. */
struct capo_machine_series *capo_machine_series(const struct capo_job_process *process,
                                                uint64_t from_ns, uint64_t to_ns, bool through);

#define CAPO_MACHINE_IDLE 1 /* a bit of GPU_REASONS: its clock says nothing */

/** capo_machine_visit() - every change in the frames of @process, in order. */
void capo_machine_visit(const struct capo_job_process *process, capo_machine_visitor *visit,
                        void *arg);
void capo_machine_series_free(struct capo_machine_series *series);

/** capo_machine_sum() - the growth of a counter over all objects of its scope whose name has @part
 * in it. False: none was asked. */
bool capo_machine_sum(const struct capo_machine_series *s, enum capo_machine_id id,
                      const char *part, double *sum);

/** capo_machine_most() - the object of the scope of @id in which the counter grew most; NULL: none
 * was asked. */
const struct capo_machine_object *capo_machine_most(const struct capo_machine_series *s,
                                                    enum capo_machine_id id, const char *part);

#define CAPO_MACHINE_SLOWER 0.75

static inline const struct capo_machine_value *capo_machine_of(const struct capo_machine_object *o,
                                                               enum capo_machine_id id)
{
        return &o->value[capo_machine_readings[id].row];
}
