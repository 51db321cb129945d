/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which GPUs of which machines: the one grammar of every verb that takes an allocation, and of what
 * pages print of one.
 *
 *      GPUs      {1,2,3} + {0-4}     5 x {0-3} + {0}     1,2,3+0-4     0:1,2,3;1:0-4     0-7
 * 07:00.0,0a:00.0 counts    3+5     4x8     2+4x8             the first so many of each machine
 *
 *      list    = machine { ("+" | ";") machine }
 *      machine = [ NUMBER ":" ] ( gpus | "{" gpus "}" ) | NUMBER ( "x" | "*" ) "{" gpus "}"
 *      gpus    = gpu { "," gpu },   gpu = NUMBER | NUMBER "-" NUMBER | BUS-ID
 *
 * Blanks may stand around each. Only "3" and "3+5" could be either: the caller says which is meant.
 */
#ifndef CAPO_GPUS_H
#define CAPO_GPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The machine, of which every node has one. */
struct capo_gpus_of {
        const char *name;     /* for messages */
        const uint16_t *devs; /* numbers of its GPUs, in the order that "the first 3" counts */
        size_t n_devs;        /* 0: not known, or nodes differ: any number is taken, and no count */
        size_t most;          /* ranks */
        int (*busid)(const void *machine,
                     const char *busid); /* its place in devs, or -1; NULL: bus ids are refused */
        const void *machine;
};

struct capo_gpu_place {
        int node; /* as written, else by order from 0 */
        int gpu;  /* place in devs; the number itself where they are not known */
};

/** capo_gpus_counts() - are these counts? @counts: what 3+5 shall be. */
bool capo_gpus_counts(const char *text, bool counts);

/**
 * capo_gpus_parse() - the text as places, one per rank
 * @counts: what 3+5 shall be
 * @out:    malloc'ed, @n of them; set on success only
 * @why:    "allocation TEXT: expected ..., found ..."
 *
 * Return: 0; -EINVAL; -ENOENT the machine has no such GPU; -ENOMEM.
 */
int capo_gpus_parse(const char *text, bool counts, const struct capo_gpus_of *of,
                    struct capo_gpu_place **out, size_t *n, char *why, size_t room);

#endif
