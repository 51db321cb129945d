/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <criterion/criterion.h>

#include "core/base/plain_text.h"
#include "core/base/util.h"

Test(plain, what_a_terminal_obeys_becomes_a_question_mark)
{
        static const struct {
                const char *in, *out;
        } rows[] = {
                {"plain text\n\tand more", "plain text\n\tand more"},
                {"\033]0;title\007", "?]0;title?"},
                {"\033[2J\033[1m", "?[2J?[1m"},
                {"a\rb\bc\fd\ve\177", "a?b?c?d?e?"},
                {"\x9b"
                 "2J\x90\x80",
                 "?2J??"},
                {"\xc2\x9b"
                 "2J \xc2\x80 \xc2\x9f \xc2\xa0",
                 "??2J ?? ?? \xc2\xa0"},
                {"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80",
                 "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80"},
                {"\xc0\x9b \xc1\xbf \xe0\x9f\xbf \xf0\x8f\xbf\xbf", "?? ?? ??? ????"},
                {"\xed\xa0\x80 \xed\x9f\xbf \xf4\x90\x80\x80 \xf4\x8f\xbf\xbf \xf5",
                 "??? \xed\x9f\xbf ???? \xf4\x8f\xbf\xbf ?"},
                {"a\xe2\x80\xae"
                 "b\xe2\x81\xa6\xe2\x81\xa9\xe2\x80\x8f\xd8\x9c",
                 "a???b?????????"
                 "??"},
                {"\xe2\x80\xa9 \xe2\x80\xaf \xe2\x81\xa5 \xe2\x81\xaa \xd8\x9b",
                 "\xe2\x80\xa9 \xe2\x80\xaf \xe2\x81\xa5 \xe2\x81\xaa \xd8\x9b"},
                {"\xe2\x82", "??"},
                {"\xe2\x82z\xc3", "??z?"},
                {"", ""},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                char text[64];
                size_t n = strlen(rows[i].in);

                memcpy(text, rows[i].in, n + 1);
                cr_expect_eq(capo_plain(text, n, false, true), n);
                cr_expect_str_eq(text, rows[i].out, "row %zu: %s", i, text);
        }
}

/* Cut anywhere, the same comes out. */
Test(plain, in_pieces)
{
        static const char in[] =
                "x\xe2\x82\xac\033[33my\033[0m\033[7m\xf0\x9f\x98\x80\xc2\x9b\xe2\x82!\033[1",
                          out[] = "x\xe2\x82\xac\033[33my\033[0m?[7m\xf0\x9f\x98\x80"
                                  "??"
                                  "??"
                                  "!?[1";
        size_t n = sizeof in - 1;

        for (size_t cut = 0; cut <= n; cut++) {
                char text[64];
                size_t first;

                memcpy(text, in, n);
                first = capo_plain(text, cut, true, false);
                cr_assert_leq(first, cut);
                cr_assert_geq(first + 4, cut);
                cr_assert_eq(capo_plain(text + first, n - first, true, true), n - first);
                text[n] = 0;
                cr_expect_str_eq(text, out, "cut at %zu: %s", cut, text);
        }
}
