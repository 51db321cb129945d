/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/base/xalloc.h"
#include "analysis/diagnose/grams.h"

enum {
        GRAM = 4,
        GRAM_BITS = 22,       /* 512 KiB for each text */
        SHORT_TEXT = 1 << 16, /* a shorter text is searched faster than it is indexed */
};

/* Hash of the four letters at @at, GRAM_BITS bits. */
static uint32_t hash_gram(const char *at)
{
        uint32_t letters;

        memcpy(&letters, at, sizeof letters);
        return (letters * 2654435761u) >> (32 - GRAM_BITS);
}

uint64_t *capo_grams_read(const char *text, size_t size)
{
        uint64_t *grams = size < SHORT_TEXT ? NULL : xcalloc(1 << (GRAM_BITS - 6), sizeof *grams);

        for (size_t i = 0; grams && i + GRAM <= size; i++) {
                uint32_t hash = hash_gram(text + i);

                grams[hash >> 6] |= UINT64_C(1) << (hash & 63);
        }
        return grams;
}

bool capo_grams_may_have(const uint64_t *grams, const char *word)
{
        size_t n = strlen(word);

        for (size_t i = 0; grams && i + GRAM <= n; i++) {
                uint32_t hash = hash_gram(word + i);

                if (!(grams[hash >> 6] >> (hash & 63) & 1))
                        return false;
        }
        return true;
}
