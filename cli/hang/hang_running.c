/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict on a running job in one line, for pages of other verbs. */
#include <stdlib.h>
#include <string.h>

#include "core/base/xalloc.h"
#include "cli/hang/cmd_hang.h"
#include "cli/hang/hang_running.h"

enum { AFTER_S = 10 };

/* Does the verdict say that something stands? */
static bool is_stuck(const struct hang_page *p)
{
        const struct capo_hang_verdict *v = &p->verdict;

        return v->kind != CAPO_HANG_HEALTHY && v->kind != CAPO_HANG_SLOW && !p->hang.over &&
               (v->kind != CAPO_HANG_UNDECIDED || v->still_ns >= p->hang.after_ns);
}

/* The headline without its newline; a comma where the page has a gap. */
static char *headline_of(const struct hang_page *p)
{
        char *text = NULL, *to, last = 0;
        size_t size;
        FILE *out = xmemstream(&text, &size);

        hang_headline(p, out);
        xmemclose(out);
        to = text;
        for (const char *c = text; *c && *c != '\n'; c++) {
                bool gap = *c == ' ' && c[1] == ' ';

                if (*c != ' ' || last != ' ')
                        *to++ = gap ? ',' : *c;
                if (gap && last != ' ')
                        c++, *to++ = ' ';
                last = to[-1];
        }
        *to = 0;
        return text;
}

char *hang_of_running(int n, char **words)
{
        struct hang_logs logs = {0};
        struct hang_page page = {.logs = &logs, .after_s = AFTER_S};
        char *line = NULL;

        page.hang.after_ns = (uint64_t)AFTER_S * 1000000000;
        if (hang_gather(n, words, &logs) == 0 && logs.live && hang_page_read(&page) == 0 &&
            capo_hang_judge(&page.hang, &page.verdict) == 0 && is_stuck(&page))
                line = headline_of(&page);
        hang_page_finish(&page);
        hang_logs_finish(&logs);
        return line;
}
