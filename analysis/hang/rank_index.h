/* SPDX-License-Identifier: Apache-2.0 */
/* Maps keys to numbers, with libc's balanced tree. */
#pragma once

#include <stdint.h>

/* All zero is empty. All keys of an index have one type. */
struct capo_index {
        void *root;
};

/**
 * capo_index_number() - the number of @key, which is added if new
 * @key: if new, must stay valid as long as @index
 * @order: compares two keys as for qsort(); 0: equal
 * @number: stored with @key if it is new
 *
 * Return: the stored number.
 */
uint32_t capo_index_number(struct capo_index *index, const void *key,
                           int (*order)(const void *, const void *), uint32_t number);

/** capo_index_finish() - free its memory; it is empty afterwards. */
void capo_index_finish(struct capo_index *index);
