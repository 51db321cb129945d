/* SPDX-License-Identifier: Apache-2.0 */
/* "layouts" of a profile: what an entry becomes, how it is written, and every way to get one wrong.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "capo/profile.h"
#include "core/base/util.h"

#define DOC(entries) "{\"capo_profile\": 1, \"layouts\": [" entries "], \"rules\": []}"

static struct capo_fault fault;

static struct capo_profile *read_text(const char *text, int expected)
{
        struct capo_profile *p = NULL;

        fault.text[0] = 0;
        cr_assert_eq(capo_profile_parse(text, strlen(text), "f", &p, &fault), expected, "%s: %s",
                     text, fault.text);
        return p;
}

Test(layouts, an_entry)
{
        struct capo_profile *p = read_text(
                DOC("\n{\"layout\": \"5+3\", \"nccl\": \"2.28.9\", \"gpus\": \"a\\tb\", \"broadcast\": "
                    "[1.5, 2], \"reducescatter\": [3, 4.25]},\n{\"layout\": \"4x8\", \"allreduce\": [1,2]}"),
                0);
        const struct capo_layout_cost *c = p->layouts;

        cr_assert_eq(p->n_layouts, 2);
        cr_expect_str_eq(c->layout, "3+5");
        cr_expect_str_eq(c->gpus, "a\tb");
        cr_expect(c->nccl.min == 22809 && c->nccl.max == 22809);
        cr_expect(c->n_ranks == 8 && c->n_nodes == 2 && c->line == 2);
        cr_expect(c->us[CAPO_COLL_BROADCAST] == 1.5 && c->gbs[CAPO_COLL_BROADCAST] == 2);
        cr_expect(c->us[CAPO_COLL_REDUCESCATTER] == 3 && c->gbs[CAPO_COLL_REDUCESCATTER] == 4.25);
        cr_expect(c->gbs[CAPO_COLL_ALLREDUCE] == 0 && c->us[CAPO_COLL_ALLREDUCE] == 0);
        for (int k = 0; k < CAPO_COLLS; k++) { /* one collective, whichever, is enough */
                struct capo_layout_cost one = {.layout = "8"};

                one.us[k] = one.gbs[k] = 1;
                cr_expect_eq(capo_profile_layout(p, &one), 0, "%d", k);
                one.us[k] = 0;
                cr_expect_eq(capo_profile_layout(p, &one), -EINVAL, "%d", k);
        }
        c = p->layouts;
        cr_expect(c[1].n_ranks == 32 && c[1].n_nodes == 4 && c[1].line == 3 && !c[1].gpus &&
                  c[1].nccl.max < 0);
        capo_profile_free(p);
}

Test(layouts, written_as_read)
{
        struct capo_profile *p = read_text(
                DOC("{\"layout\": \"5+3\", \"nccl\": \"2.28-2.29\", \"gpus\": \"a\\tb\", \"broadcast\": "
                    "[1.5, 2], \"allreduce\": [3, 4.25]}, {\"layout\": \"8\", \"reduce\": [1,2]}"),
                0);
        char *text;
        size_t size;
        FILE *f = open_memstream(&text, &size);

        cr_assert_eq(capo_profile_write(p, f), 0);
        fclose(f);
        cr_expect(
                strstr(text,
                       ",\n  \"layouts\": [\n"
                       "    {\"layout\": \"3+5\", \"nccl\": \"2.28-2.29\", \"gpus\": \"a\\u0009b\", "
                       "\"allreduce\": [3, 4.25], \"broadcast\": [1.5, 2]},\n"
                       "    {\"layout\": \"8\", \"reduce\": [1, 2]}\n  ]"),
                "%s", text);
        free(text);
        capo_profile_free(p);
        p = read_text(DOC(""), 0);
        f = open_memstream(&text, &size);
        cr_assert_eq(capo_profile_write(p, f), 0);
        fclose(f);
        cr_expect(!strstr(text, "layouts"), "an empty list is none: %s", text);
        free(text);
        capo_profile_free(p);
}

Test(layouts, what_is_wrong_and_where)
{
#define PAIR "expected [microseconds, GB/s], both above 0"
        static const struct {
                const char *text, *where, *has;
        } rows[] = {
                {DOC("1"), "1:33:", "a layout's costs"},
                {DOC("{}"), "1:33:", "the key layout and the cost of a collective"},
                {DOC("{\"layout\": \"8\"}"),
                 "1:33:", "the key layout and the cost of a collective"},
                {DOC("{\"layout\": \"8\", \"gpus\": \"a\"}"),
                 "1:33:", "the key layout and the cost of a collective"},
                {DOC("{\"reduce\": [1,2]}"),
                 "1:33:", "the key layout and the cost of a collective"},
                {DOC("{\"layout\": \"8+\", \"reduce\": [1,2]}"), "1:44:", "ranks per node such as"},
                {DOC("{\"layout\": 8, \"reduce\": [1,2]}"), "1:44:", "ranks per node such as"},
                {DOC("{\"layout\": \"8\", \"gpus\": 3, \"reduce\": [1,2]}"),
                 "1:57:", "a text of at most 511"},
                {DOC("{\"layout\": \"8\", \"reduces\": [1,2]}"),
                 "1:49:", "one of layout, nccl, gpus, allreduce"},
                {DOC("{\"layout\": \"8\", \"reduce\": []}"), "1:59:", PAIR},
                {DOC("{\"layout\": \"8\", \"reduce\": [1]}"), "1:59:", PAIR},
                {DOC("{\"layout\": \"8\", \"reduce\": [1,2,3]}"), "1:59:", PAIR},
                {DOC("{\"layout\": \"8\", \"reduce\": 1}"), "1:59:", PAIR},
                {DOC("{\"layout\": \"8\", \"reduce\": [1,\"2\"]}"), "1:62:", PAIR},
                {DOC("{\"layout\": \"8\", \"reduce\": [0,2]}"), "1:59:", PAIR},
                {DOC("{\"layout\": \"8\", \"reduce\": [1,0]}"), "1:59:", PAIR},
                {DOC("{\"layout\": \"8\", \"reduce\": [1e9,1]}"), "1:59:", PAIR},
                {DOC("{\"layout\": \"8\", \"reduce\": [1,1e9]}"), "1:59:", PAIR},
                {DOC("{\"layout\": \"8\", \"reduce\": [1,2]} {\"layout\": \"8\"}"),
                 "1:66:", "\",\" or \"]\""},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                capo_profile_free(read_text(rows[i].text, -EINVAL));
                cr_expect(strstr(fault.text, rows[i].where) == fault.text + 2 &&
                                  strstr(fault.text, rows[i].has),
                          "%s\n%s", rows[i].text, fault.text);
        }
        capo_profile_free(
                read_text(DOC("{\"layout\": \"8\", \"reduce\": [999999999,999999999]}"), 0));
}

Test(layouts, the_longest_texts)
{
        for (int n = 511; n <= 512; n++) {
                char text[1000];

                snprintf(text, sizeof text,
                         DOC("{\"layout\": \"8\", \"reduce\": [1,2], \"gpus\": \"%0*d\"}"), n, 0);
                capo_profile_free(read_text(text, n <= 511 ? 0 : -EINVAL));
        }
}

Test(layouts, costs_that_are_none)
{
        static const struct {
                double us, gbs;
                int r;
        } rows[] = {{5, 10, 0},
                    {0.5, 0.5, 0},
                    {0, 10, -EINVAL},
                    {-1, 10, -EINVAL},
                    {5, -10, -EINVAL},
                    {INFINITY, 10, -EINVAL},
                    {5, INFINITY, -EINVAL},
                    {5, NAN, -EINVAL},
                    {5, 0, -EINVAL}};

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_profile *p = capo_profile_new("x");
                struct capo_layout_cost c = {.layout = "3+5", .nccl = CAPO_ANY};

                c.us[1] = rows[i].us;
                c.gbs[1] = rows[i].gbs;
                cr_expect_eq(capo_profile_layout(p, &c), rows[i].r, "row %zu", i);
                cr_expect_eq(p->n_layouts, rows[i].r == 0);
                capo_profile_free(p);
        }
}
