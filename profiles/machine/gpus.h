/* SPDX-License-Identifier: Apache-2.0 */
/* The notation for GPUs of machines: one grammar for every verb that takes an allocation, and for
 * what pages print.
 *
 *      GPUs      {1,2,3} + {0-4}     5 x {0-3} + {0}     1,2,3+0-4     0:1,2,3;1:0-4
 *                0-7     07:00.0,0a:00.0
 *      counts    3+5     4x8     2+4x8                   the first N GPUs of each machine
 *
 *      list    = machine { ("+" | ";") machine }
 *      machine = [ NUMBER ":" ] ( gpus | "{" gpus "}" ) | NUMBER ( "x" | "*" ) "{" gpus "}"
 *      gpus    = gpu { "," gpu },   gpu = NUMBER | NUMBER "-" NUMBER | BUS-ID
 *
 * Blanks are allowed around each. "3" and "3+5" are ambiguous: the caller says which is meant. */
#pragma once

#include "core/base/util.h"

/* The machine; all nodes have the same one. */
struct capo_gpus_of {
        const char *name;     /* for messages */
        const uint16_t *devs; /* numbers of its GPUs, in the order of "the first 3" */
        size_t n_devs; /* 0: not known, or nodes differ: any number is accepted, counts are not */
        size_t most;   /* limit on ranks */
        int (*busid)(const void *machine,
                     const char *busid); /* index in devs, or -1; NULL: bus ids are rejected */
        const void *machine;
};

struct capo_gpu_place {
        int node; /* as written, else numbered from 0 */
        int gpu;  /* index in devs; the number itself if devs are not known */
};

/** capo_gpus_counts() - does @text have counts? @counts: the meaning of 3+5. */
bool capo_gpus_counts(const char *text, bool counts);

/** capo_gpus_parse() - convert @text to places, one per rank
 * @counts: the meaning of 3+5
 * @out: set on success to @n items; free() it
 * @why: "allocation TEXT: expected ..., found ..."
 *
 * Return: 0; -EINVAL; -ENOENT: the machine has no such GPU. */
int capo_gpus_parse(const char *text, bool counts, const struct capo_gpus_of *of,
                    struct capo_gpu_place **out, size_t *n, char *why, size_t room);
