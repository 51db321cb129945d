/* SPDX-License-Identifier: Apache-2.0 */
/* The list of a page's problems, and ranks in words. */
#include "analysis/report/page_kinds.h"
#include "core/base/plain_text.h"
#include "core/base/xalloc.h"
#include "analysis/report/job_judge.h"

struct capo_problem *capo_problem_add(struct capo_page *r, enum capo_problem_kind kind,
                                      const char *log, const char *words, ...)
{
        struct capo_problem *p;
        va_list args;
        char *text;

        va_start(args, words);
        text = xvprintf(words, args);
        va_end(args);
        xarray_room(&r->problems, r->n_problems, sizeof *r->problems);
        capo_plain(text, strlen(text), false, true); /* names of files */
        p = &r->problems[r->n_problems++];
        *p = (struct capo_problem){.kind = kind,
                                   .text = text,
                                   .comm = CAPO_NO_COMM,
                                   .log = log,
                                   .at_s = -1,
                                   .in_call = -1};
        return p;
}

/* The next run of ranks from *@from on for which @is is false; *@from becomes its end. */
static bool next_run(const bool *is, uint32_t n, uint32_t *first, uint32_t *from)
{
        const bool *begin = *from < n ? memchr(is + *from, 0, n - *from) : NULL, *end;

        if (!begin)
                return false;
        *first = (uint32_t)(begin - is);
        end = memchr(begin, 1, n - *first);
        *from = end ? (uint32_t)(end - is) : n;
        return true;
}

void capo_problem_ranks(struct capo_problem *p, const bool *is, uint32_t n)
{
        for (uint32_t first, end = 0; next_run(is, n, &first, &end);)
                *xadd(p->runs, p->n_runs) = (struct capo_rank_run){(int32_t)first, end - first};
}

void capo_problem_rank(struct capo_problem *p, int rank)
{
        if (rank >= 0)
                *xadd(p->runs, p->n_runs) = (struct capo_rank_run){rank, 1};
}

char *capo_ranks_text(const bool *is, uint32_t n_ranks)
{
        char *text = NULL;
        size_t size;
        FILE *out = NULL;

        for (uint32_t from, to = 0; next_run(is, n_ranks, &from, &to);) {
                out = out ?: xmemstream(&text, &size);
                fprintf(out,
                        to - from > 2    ? "%s%u-%u"
                        : to - from == 2 ? "%s%u, %u"
                                         : "%s%u",
                        ftell(out) ? ", " : "", from, to - 1);
        }
        if (out)
                xmemclose(out);
        return text;
}
