/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers out of files of /proc and /sys, for the readings of include/capo/machine.def. */
#pragma once

#include "core/base/util.h"
#include "core/log/machine_frame.h"

enum { MACHINE_ROWS = 64 }; /* readings of one scope at most: bits of a word */

/* One thing that is read: the process, a thread, a port of a NIC. */
struct machine_object {
        enum capo_machine_scope scope;
        char name[48]; /* "mlx5_0/1", "1234:NCCL Progress 0" */
        char dir[192]; /* where its files are */
        int tid;
        int device;      /* of a GPU */
        unsigned number; /* in the log; 0: none yet */
        uint64_t told;   /* rows that the log has the names of */
        bool used, seen;
        bool caller;      /* a thread that calls NCCL */
        const char *left; /* why it is not read any more; NULL: it is */
        uint64_t known;   /* by row of its scope: value[] is from the last reading */
        uint64_t missing; /* rows that it does not have */
        uint64_t value[MACHINE_ROWS];
};

/** capo_machine_proc, capo_machine_sys - "/proc" and "/sys", or those of CAPO_MACHINE_ROOT; set by
 * capo_machine_roots(). */
extern char capo_machine_proc[256], capo_machine_sys[256];
void capo_machine_roots(void);

/** capo_machine_path() - as snprintf(). Return: false: it does not fit, and @to is "". */
bool capo_machine_path(char *to, size_t room, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/** capo_machine_number() - one reading of a file
 * @o: whose
 * @source, @key: as in the list. The same file is read once for rows that follow one another;
 * capo_machine_forget() before the next object.
 *
 * Return: false: there is no such file, or no number in it. */
bool capo_machine_number(const struct machine_object *o, const char *source, const char *key,
                         uint64_t *value);
void capo_machine_forget(void);

/** capo_machine_text() - the first @room - 1 bytes of a file, with a zero behind. Return: false:
 * it cannot be read, or is empty. */
bool capo_machine_text(const char *path, char *text, size_t room);

/** capo_machine_hash() - @h, or 0, and what @s adds to it, @room bytes at most. */
uint64_t capo_machine_hash(uint64_t h, const char *s, size_t room);

/** capo_machine_names() - the names in a folder, without those that begin with a dot. */
void capo_machine_names(const char *folder, void (*found)(const char *name, void *arg), void *arg);

/** capo_machine_own_wait_us() - how long this thread has waited for a CPU. Not while it reads. */
uint64_t capo_machine_own_wait_us(void);
