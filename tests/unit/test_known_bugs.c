/* SPDX-License-Identifier: Apache-2.0 */
/* The table of known bugs: its form, and which rows fit to what. */
#include <criterion/criterion.h>
#include <regex.h>
#include <string.h>

#include "core/base/nccl_release.h"
#include "analysis/diagnose/known_bugs.h"

static bool text_has(const char *text, void *arg) { return strstr(arg, text); }

static const struct capo_known_bug *find_bug(const char *link_end)
{
        for (size_t i = 0; i < capo_n_known_bugs; i++) {
                const char *link = capo_known_bugs[i].link;
                size_t n = strlen(link), end = strlen(link_end);

                if (n >= end && !strcmp(link + n - end, link_end))
                        return &capo_known_bugs[i];
        }
        cr_assert_fail("no bug with the link %s", link_end);
        return NULL;
}

Test(known_bugs, every_row_has_its_form)
{
        static const char shape[] = "^https://(github\\.com/[A-Za-z0-9._-]+/[A-Za-z0-9._-]+/"
                                    "(issues/[0-9]+|pull/[0-9]+|releases/tag/[A-Za-z0-9._-]+)"
                                    "|docs\\.nvidia\\.com/[A-Za-z0-9._/-]+\\.html)$";
        regex_t link;

        cr_assert_eq(regcomp(&link, shape, REG_EXTENDED | REG_NOSUB), 0);
        cr_assert_geq(capo_n_known_bugs, 40);
        for (size_t i = 0; i < capo_n_known_bugs; i++) {
                const struct capo_known_bug *b = &capo_known_bugs[i];

                cr_expect_eq(regexec(&link, b->link, 0, NULL, 0), 0, "%s", b->link);
                cr_expect(*b->when, "%s: when", b->link);
                cr_expect(*b->advice, "%s: advice", b->link);
                cr_expect_lt(b->first, b->fixed, "%s: %d to %d", b->link, b->first, b->fixed);
                cr_expect(b->first == 0 || (b->first > 10000 && b->first < CAPO_NCCL_LAST));
                cr_expect(b->fixed > 10000 && b->fixed <= CAPO_NCCL_LAST, "%s", b->link);
                for (size_t k = 0; k < i; k++)
                        cr_expect(strcmp(b->link, capo_known_bugs[k].link) != 0 ||
                                          strcmp(b->when, capo_known_bugs[k].when) != 0,
                                  "twice: %s, %s", b->link, b->when);
                for (const char *p = b->symptom; *p; p += strcspn(p, "|"), p += *p == '|')
                        cr_expect(*p == '@' || strcspn(p, "|") >= 8, "%s: too short a symptom",
                                  b->link);
        }
        regfree(&link);
}

Test(known_bugs, the_release_decides)
{
        const struct capo_known_bug *b = find_bug("nccl/issues/2353");

        cr_expect(capo_bug_in(b, 22809));
        cr_expect_not(capo_bug_in(b, 22903));
        cr_expect_not(capo_bug_in(b, 0));
        cr_expect(capo_bug_in(find_bug("nccl/issues/2079"), 0), "machines have no release");
}

Test(known_bugs, a_symptom_says_more_than_a_release)
{
        const struct capo_known_bug *b = find_bug("nccl/issues/2353");

        cr_expect_eq(capo_bug_match(b, 22809, text_has, (void *)"x86_64"), CAPO_BUG_NO);
        cr_expect_eq(capo_bug_match(b, 22809, text_has, (void *)"aarch64"), CAPO_BUG_MAYBE);
        cr_expect_eq(capo_bug_match(b, 22809, text_has, (void *)"aarch64 ncclLocalOpAppend"),
                     CAPO_BUG_FITS);
        cr_expect_eq(capo_bug_match(b, 0, text_has, (void *)"aarch64 ncclLocalOpAppend"),
                     CAPO_BUG_MAYBE);
        cr_expect_eq(capo_bug_match(b, 22903, text_has, (void *)"aarch64 ncclLocalOpAppend"),
                     CAPO_BUG_NO);
}

Test(known_bugs, a_row_without_words_is_only_listed)
{
        const struct capo_known_bug *b = find_bug("nccl/issues/2379");

        cr_expect(capo_bug_in(b, 22907));
        cr_expect_eq(capo_bug_match(b, 22907, text_has, (void *)"NCCL version 2.29.7"),
                     CAPO_BUG_NO);
}

Test(known_bugs, a_word_that_any_failure_has_is_no_symptom)
{
        static char any[] = "Segmentation fault\nan illegal memory access was encountered\n"
                            "CUDA error: unhandled cuda error\nCUDA out of memory\n";

        for (size_t i = 0; i < capo_n_known_bugs; i++)
                cr_expect_eq(capo_bug_match(&capo_known_bugs[i], 0, text_has, any), CAPO_BUG_NO,
                             "%s", capo_known_bugs[i].link);
}
