/* SPDX-License-Identifier: Apache-2.0 */
/* INFO lines: what is written is read again, and what no writer of ours made is stepped over. */
#include <stdio.h>
#include <string.h>
#include <criterion/criterion.h>

#include "core/base/util.h"
#include "core/log/info.h"
#include "analysis/log/info_read.h"
#include "analysis/log/log_read.h"
#include "tests/log_numbers.h"

static char text[4096];
static size_t n_text;

static size_t __attribute__((format(printf, 3, 4)))
put(size_t room, const char *key, const char *format, ...)
{
        va_list args;
        size_t n;

        va_start(args, format);
        n = capo_info_print(text + n_text, room, key, format, args);
        va_end(args);
        n_text += n;
        return n;
}

static struct capo_log_frame frame(void)
{
        return (struct capo_log_frame){
                .payload = text, .size = (uint32_t)n_text, .type = CAPO_FRAME_INFO};
}

static struct capo_info_line nth(unsigned n)
{
        struct capo_log_frame f = frame();
        struct capo_info_line line;
        size_t at = 0;

        do
                cr_assert(capo_info_next(&f, &at, &line));
        while (n--);
        return line;
}

static void is(struct capo_info_line line, const char *key, const char *value, bool more)
{
        cr_assert(capo_info_is(&line, key));
        cr_assert_eq(line.n_value, strlen(value));
        cr_assert(!memcmp(line.value, value, line.n_value));
        cr_assert_eq(line.more, more);
}

Test(log_info, there_and_back)
{
        struct capo_log_frame f;
        struct capo_info_line line;
        size_t at = 0;

        put(100, CAPO_INFO_HOST, "%s", "node-a");
        put(100, CAPO_INFO_PID, "%d", 4711);
        put(100, "cmdline+", "%s", "more\tof\nit");
        put(100, CAPO_INFO_EXE, "%s", "");
        cr_assert(!memcmp(text, "host\tnode-a\npid\t4711\ncmdline+\tmore of it\nexe\t\n", n_text));
        is(nth(0), CAPO_INFO_HOST, "node-a", false);
        is(nth(1), CAPO_INFO_PID, "4711", false);
        is(nth(2), CAPO_INFO_CMDLINE, "more of it", true);
        is(nth(3), CAPO_INFO_EXE, "", false);
        f = frame();
        for (unsigned n = 0; n < 4; n++)
                cr_assert(capo_info_next(&f, &at, &line));
        cr_assert_not(capo_info_next(&f, &at, &line));
        line = nth(0);
        cr_assert_not(capo_info_is(&line, "hos"));
        cr_assert_not(capo_info_is(&line, "host."));
}

Test(log_info, a_value_that_does_not_fit_is_cut)
{
        cr_assert_eq(put(10, "key", "%s", "0123456789"), 9);
        is(nth(0), "key", "0123", false);
        for (size_t room = 6; room < 40; room++) {
                n_text = 0;
                memset(text, 'x', sizeof text);
                cr_assert_leq(put(room, "key", "%s", "0123456789012345678901234567890123456789"),
                              room - 1);
                cr_assert_eq(text[n_text - 1], '\n');
                cr_assert_eq(text[room], 'x', "nothing beyond the room");
        }
        n_text = 0;
        for (size_t room = 0; room < 6; room++)
                cr_assert_eq(put(room, "key", "%s", "v"), 0, "no room for the key");
}

Test(log_info, a_value_just_as_long_as_the_room)
{
        for (int length = 0; length < 20; length++) {
                static const char value[] = "abcdefghijklmnopqrst";
                int kept = length < 10 ? length
                                       : 10; /* 16 less key, tab, newline and a byte for a zero */
                char expect[32];

                n_text = 0;
                snprintf(expect, sizeof expect, "key\t%.*s\n", kept, value);
                cr_assert_eq(put(16, "key", "%.*s", length, value), strlen(expect), "%d", length);
                cr_assert(!memcmp(text, expect, strlen(expect)), "%d", length);
        }
}

Test(log_info, lines_without_key_or_value_are_stepped_over)
{
        n_text = (size_t)sprintf(text,
                                 "\n\tno key\nno value\nhost\ta\n+\ta plus and no key\nlast\tcut");
        is(nth(0), CAPO_INFO_HOST, "a", false);
        is(nth(1), "last", "cut", false);
        for (uint32_t size = 0; size < n_text; size++) {
                struct capo_log_frame f = {.payload = text, .size = size};
                struct capo_info_line line;
                size_t at = 0;

                while (capo_info_next(&f, &at, &line))
                        cr_assert(line.value + line.n_value <= text + size);
        }
}

Test(log_info, index)
{
        static const struct {
                const char *key;
                int index;
        } rows[] = {{"gpu.numa.0", 0},
                    {"gpu.numa.15", 15},
                    {"gpu.numa", -1},
                    {"gpu.numa.", -1},
                    {"gpu.numa.x", -1},
                    {"gpu.numa.1x", -1},
                    {"gpu.numa.-1", -1},
                    {"gpu.numabc.1", -1},
                    {"net.numa.3", -1},
                    {"gpu.busid.1", -1},
                    {"", -1},
                    {"gpu.numa.2147483647", 2147483647},
                    {"gpu.numa.2147483648", -1},
                    {"gpu.numa.99999999999999999999", -1}};

        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                cr_assert_eq(capo_info_index(rows[i].key, CAPO_INFO_GPU_NUMA), rows[i].index, "%s",
                             rows[i].key);
}
