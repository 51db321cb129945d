/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of lines, written byte by byte after Objects/lnotab_notes.txt, PEP 626 and
 * Objects/locations.md. */
#include <criterion/criterion.h>
#include <limits.h>

#include "tests/unit/py_memory.h"

static int line_first(int minor, const void *table, size_t n, int at, int first)
{
        struct capo_py py = py_begin(minor);
        struct capo_py_code code = {.lines = py_bytes(table, n), .first_line = first};

        return capo_py_line(&py, &code, at);
}

static int line(int minor, const void *table, size_t n, int at)
{
        return line_first(minor, table, n, at, 100);
}

Test(lines, of_3_9)
{
        static const uint8_t table[] = {4, 1, 6, 0xfe, 255, 0, 5, 127};

        cr_assert_eq(line(9, table, sizeof table, -1), 100, "about to begin");
        cr_assert_eq(line(9, table, sizeof table, 0), 100);
        cr_assert_eq(line(9, table, sizeof table, 3), 100);
        cr_assert_eq(line(9, table, sizeof table, 4), 101);
        cr_assert_eq(line(9, table, sizeof table, 10), 99, "back by two");
        cr_assert_eq(line(9, table, sizeof table, 269), 99);
        cr_assert_eq(line(9, table, sizeof table, 270), 226);
        cr_assert_eq(line(9, table, sizeof table, 9999), 226, "the last goes on");
        cr_assert_eq(line(9, table, 0, 4), 100);
}

Test(lines, of_3_10)
{
        static const uint8_t table[] = {4, 1, 6, 0x80, 2, 0xfe};

        cr_assert_eq(line(10, table, sizeof table, -2), 100);
        cr_assert_eq(line(10, table, sizeof table, 0), 101);
        cr_assert_eq(line(10, table, sizeof table, 3), 101);
        cr_assert_eq(line(10, table, sizeof table, 4), 0, "nobody's");
        cr_assert_eq(line(10, table, sizeof table, 10), 99);
        cr_assert_eq(line(10, table, sizeof table, 12), 0, "behind the end");
        cr_assert_eq(line(10, table, 5, 10), 0, "cut within a pair");
}

Test(lines, since_3_11)
{
        /* one unit short; two with a line further; LINES by -2; LONG by 70 with three columns; four
         * units of none; short again */
        static const uint8_t table[] = {0x80, 0x10, 0xd9, 0x11, 0x12, 0xe8, 0x05, 0xf0, 0x4c,
                                        0x02, 0x41, 0x01, 0x42, 0x01, 0x03, 0xfb, 0x88, 0x33};

        for (int minor = 11; minor <= 14; minor++) {
                cr_assert_eq(line(minor, table, sizeof table, -2), 100);
                cr_assert_eq(line(minor, table, sizeof table, 0), 100);
                cr_assert_eq(line(minor, table, sizeof table, 2), 101);
                cr_assert_eq(line(minor, table, sizeof table, 5), 101);
                cr_assert_eq(line(minor, table, sizeof table, 6), 99);
                cr_assert_eq(line(minor, table, sizeof table, 8), 169);
                cr_assert_eq(line(minor, table, sizeof table, 10), 0);
                cr_assert_eq(line(minor, table, sizeof table, 17), 0);
                cr_assert_eq(line(minor, table, sizeof table, 18), 169);
                cr_assert_eq(line(minor, table, sizeof table, 20), 0, "behind the end");
                cr_assert_eq(line(minor, table, 10, 8), 0, "cut within an entry");
        }
}

Test(lines, longer_than_a_piece)
{
        static uint8_t table[2000];

        for (size_t i = 0; i < sizeof table; i++) /* a unit, a line further each */
                table[i] = i % 3 ? 0x11 : 0xd8;
        cr_assert_eq(line(12, table, sizeof table, 0), 101);
        cr_assert_eq(line(12, table, sizeof table, 2 * 665), 766);
        for (size_t i = 0; i < sizeof table; i += 2)
                table[i] = table[i + 1] = 1;
        cr_assert_eq(line(9, table, sizeof table, 999), 1099);
        cr_assert_eq(line(10, table, sizeof table, 998), 1099);
}

Test(lines, damaged)
{
        static const uint8_t up[] = {0xe8, 0x7e, 0x7f, 0x7f, 0x7f, 0x3f, 0x80, 0x00};
        struct capo_py py;
        struct capo_py_code code = {.first_line = 5};

        cr_assert_eq(line_first(12, up, sizeof up, 0, INT_MAX), 0, "beyond any line");
        cr_assert_eq(line_first(9, "\001\200", 2, 1, 3), 0, "below the first");
        cr_assert_eq(line_first(12, "\200", 1, 0, 3), 0, "ends within the first entry");
        py = py_begin(12);
        cr_assert_eq(capo_py_line(&py, &code, -1), 0, "no table");
        code.lines = py_object(PY_TEXT_TYPE, 4, 64);
        cr_assert_eq(capo_py_line(&py, &code, -1), 0, "another object");
        code.lines = py_object(PY_BYTES_TYPE, (1 << 24) + 1, 64);
        cr_assert_eq(capo_py_line(&py, &code, -1), 0, "too long");
        code.lines = py_object(PY_BYTES_TYPE, 1 << 24, 64);
        cr_assert_eq(capo_py_line(&py, &code, -1), 5);
        cr_assert_eq(capo_py_line(&py, &code, 1 << 27), 0, "its bytes are not there");
        code.lines = py_bytes("\200\020", 2);
        cr_assert_eq(capo_py_line(&py, &code, 0), 5);
        memory.gone = code.lines + CAPO_PY_BYTES;
        cr_assert_eq(capo_py_line(&py, &code, 0), 0);
}
