/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of MACHINE frames: readings of the machine (include/capo/machine.def). Lines of
 * tab-separated fields; the first field says what the line is:
 *
 *      at       ns since the epoch: the lines that follow are of this moment
 *      SCOPE    name of the object ("-": the process, the node), "#" and its number, then the readings
 *               that changed since the last frame: ROW:key=value the first time, then ROW=value, or
 *               ROW+growth of a counter; "ROW=-": it cannot be read any more. Older logs: key=value
 *      #NUMBER  the same of an object that has been named
 *      left     SCOPE, name, why it is not read (any more): CAPO_MACHINE_SILENT, or how long it took
 *      stack    number, kind (capo_between_kinds[]), frames, innermost first, " <- " between
 *      did      number of a stack, samples that found the process in it since the last frame, number
 *               of the thread (none: the main one)
 *      samples  taken since the last frame; of them, those inside an NCCL call; if they are not as
 *               before and 0: ns from one to the next; us in which the process was stopped
 */
#pragma once

#define CAPO_MACHINE_SILENT "it has not answered"

enum capo_machine_scope {
        CAPO_MACHINE_PROCESS,
        CAPO_MACHINE_THREAD,
        CAPO_MACHINE_NODE,
        CAPO_MACHINE_NETIF,
        CAPO_MACHINE_NIC,
        CAPO_MACHINE_GPU,
        CAPO_MACHINE_SCOPES,
};

enum { CAPO_MACHINE_COUNTER, CAPO_MACHINE_ERROR, CAPO_MACHINE_MARK, CAPO_MACHINE_GAUGE };

enum capo_machine_id {
#define READING(id, scope, name, source, key, unit, kind, meaning) CAPO_M_##id,
#include "capo/machine.def"
        CAPO_MACHINE_READINGS,
};

struct capo_machine_reading {
        const char *name, *source, *key, *unit, *meaning;
        enum capo_machine_scope scope;
        unsigned kind, row; /* row: among those of its scope */
};
extern const struct capo_machine_reading capo_machine_readings[CAPO_MACHINE_READINGS];

extern const char *const capo_machine_scopes[CAPO_MACHINE_SCOPES];

/* What a sample between two NCCL calls found. */
enum capo_between_kind {
        CAPO_BETWEEN_RUN,    /* on a CPU, or about to be */
        CAPO_BETWEEN_GC,     /* Python's garbage collection */
        CAPO_BETWEEN_READ,   /* reading a file */
        CAPO_BETWEEN_WRITE,  /* writing a file */
        CAPO_BETWEEN_FAULT,  /* waiting for a page of memory */
        CAPO_BETWEEN_SLEEP,  /* sleeping by its own will */
        CAPO_BETWEEN_WAIT,   /* for another thread, a lock, a process, a socket or a pipe */
        CAPO_BETWEEN_DEVICE, /* in a driver */
        CAPO_BETWEEN_OTHER,  /* another system call */
        CAPO_BETWEEN_KINDS,
};
extern const char *const capo_between_kinds[CAPO_BETWEEN_KINDS];
