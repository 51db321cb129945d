/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/base/near_word.h"

unsigned cli_count_edits(const char *a, const char *b)
{
        enum { MOST = 79 };
        unsigned row[MOST + 1];
        size_t n = strlen(b);

        if (n > MOST || strlen(a) > MOST)
                return MOST;
        for (unsigned k = 0; k <= n; k++)
                row[k] = k;
        for (unsigned i = 1; a[i - 1]; i++) {
                unsigned before = row[0];

                row[0] = i;
                for (unsigned k = 1; k <= n; k++) {
                        unsigned change = before + (a[i - 1] != b[k - 1]);
                        unsigned one = 1 + (row[k] < row[k - 1] ? row[k] : row[k - 1]);

                        before = row[k];
                        row[k] = change < one ? change : one;
                }
        }
        return row[n];
}

void cli_near_word_try(struct cli_near_word *near, const char *wrong, const char *known)
{
        unsigned edits = cli_count_edits(wrong, known);

        if (edits <= 2 && (!near->word || edits < near->edits))
                *near = (struct cli_near_word){known, edits};
}
