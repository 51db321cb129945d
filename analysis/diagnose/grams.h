/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Excludes words that a large text cannot contain. capo diagnose searches for some 300 words, and
 * most texts have few of them. One pass over the text notes all sequences of four letters; a word
 * can occur only if all of its sequences do.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** capo_grams_read() - the set of @text's sequences of four letters; free() it. Return: NULL: a
 * short text, or no memory; then any word may be in the text. */
uint64_t *capo_grams_read(const char *text, size_t size);

/** capo_grams_may_have() - false: @word is certainly not in the text. @grams may be NULL. */
bool capo_grams_may_have(const uint64_t *grams, const char *word);
