/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of things, found again by what tells one from another: libc's balanced tree. */
#ifndef CAPO_HANG_INDEX_H
#define CAPO_HANG_INDEX_H

#include <stdint.h>

/* All zero: empty. One index holds keys of one kind. */
struct capo_index {
        void *root;
};

/**
 * capo_index_number() - the number that belongs to @key
 * @key:    borrowed for as long as @index is there, where it is new
 * @order:  of two keys, as qsort() asks; 0: they tell the same
 * @number: kept with @key, where it is new
 *
 * Return: the number kept, which is @number where @key is new; -ENOMEM.
 */
int64_t capo_index_number(struct capo_index *index, const void *key,
                          int (*order)(const void *, const void *), uint32_t number);

/** capo_index_finish() - what it took is freed, and it is empty. */
void capo_index_finish(struct capo_index *index);

#endif
