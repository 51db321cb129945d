/* SPDX-License-Identifier: Apache-2.0 */
/* Suggests the word that was probably meant. */
#pragma once

/** cli_count_edits() - letters to change, add or remove to get from one word to the other; large
 * for words of more than 79 letters. */
unsigned cli_count_edits(const char *a, const char *b);

struct cli_near_word {
        const char *word; /* the nearest so far; NULL: none */
        unsigned edits;
};

/** cli_near_word_try() - keep @known if it is at most 2 edits away from @wrong, and nearer than the
 * word kept. */
void cli_near_word_try(struct cli_near_word *near, const char *wrong, const char *known);
