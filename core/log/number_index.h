/* SPDX-License-Identifier: Apache-2.0 */
/* An index of things that are numbered from 0 on: open addressing, 1 + number, 0 where there is
 * none. It begins small and grows with what it holds: a job may lock all memory that it has mapped
 * (mlockall()), within a limit. */
#pragma once

#include "core/base/util.h"

#define CAPO_NO_NUMBER 65535u

struct capo_number_index {
        uint32_t *at;
        uint32_t size; /* a power of two */
};

/** capo_index_new() - Return: false: no memory. */
bool capo_index_new(struct capo_number_index *x);
void capo_index_free(struct capo_number_index *x);

/** capo_index_clear() - nothing is in it any more; its size stays. */
void capo_index_clear(struct capo_number_index *x);

/** capo_index_grow() - room for @n things, at most 65,536, with half of the places free. Return: 0;
 * 1: it is larger and empty now, put all in again; -ENOMEM: as it was, some places free. */
int capo_index_grow(struct capo_number_index *x, uint32_t n);

/** capo_index_first(), _next() - the places to look at for @hash, until one is 0. */
static inline uint32_t capo_index_first(const struct capo_number_index *x, uint64_t hash)
{
        return (uint32_t)hash & (x->size - 1);
}

static inline uint32_t capo_index_next(const struct capo_number_index *x, uint32_t i)
{
        return (i + 1) & (x->size - 1);
}
