/* SPDX-License-Identifier: Apache-2.0 */
/* Frames and texts of every release that is known, laid out in bytes; and what is none of them. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "tests/unit/py_memory.h"

/* A table for each of the three forms: the first unit is of line 7. */
static uint64_t code_of(const struct capo_py *py, const char *file, const char *name)
{
        static const uint8_t forms[3][2] = {{8, 1}, {8, 0}, {0x83, 0}};

        return py_code(py, file, name, 7,
                       forms[py->layout->minor < 10   ? 0
                             : py->layout->minor < 11 ? 1
                                                      : 2],
                       2, 8);
}

static int say(const struct capo_py *py, uint64_t frame, char *text, size_t room, int packaged)
{
        struct capo_py_frame f;

        if (!capo_py_frame(py, frame, &f))
                return -2;
        return capo_py_say(py, &f, text, room, &packaged);
}

Test(cpython, which_are_known)
{
        cr_assert_null(capo_py_layout_of(8));
        cr_assert_null(capo_py_layout_of(15));
        for (int minor = 9; minor <= 14; minor++)
                cr_assert_eq(capo_py_layout_of(minor)->minor, minor);
}

/* offsetof() by the headers of a release; since 3.13 the interpreter says it, and the last one is
 * for who does not ask. */
Test(cpython, where_threads_are)
{
        static const unsigned want[][6] = {{32, 0, 8, 176, 0, 16},    {32, 0, 8, 176, 0, 16},
                                           {40, 0, 16, 152, 160, 16}, {40, 0, 72, 136, 144, 16},
                                           {0, 0, 0, 0, 0, 16},       {0, 0, 0, 0, 0, 16}};

        for (int minor = 9; minor <= 14; minor++) {
                const struct capo_py_layout *l = capo_py_layout_of(minor);
                unsigned is[] = {l->interpreters, l->next_interpreter, l->threads,
                                 l->thread_id,    l->native_id,        l->thread_interpreter};

                cr_assert(!memcmp(is, want[minor - 9], sizeof is), "3.%d", minor);
        }
}

Test(cpython, frames_of_every_release)
{
        for (int minor = 9; minor <= 14; minor++) {
                struct capo_py py = py_begin(minor);
                const struct capo_py_layout *l = py.layout;
                uint64_t thread = py_new(200), between = py_new(32),
                         code = code_of(&py, "/home/me/train.py", "step");
                uint64_t outer = py_frame(
                        &py, code_of(&py, "/usr/lib/python3.12/site-packages/torch/run.py", "run"),
                        2, 0, 0);
                uint64_t frame = py_frame(&py, code | (minor == 14 ? 1 : 0), -2, outer, 1);
                struct capo_py_frame f;
                char text[256];

                /* 14's pointer says whose it is */
                if (minor == 14)
                        py_word(frame, l->at, code + (uint64_t)l->code_begin - 2);
                py_word(thread, l->current, l->through >= 0 ? between : frame);
                if (l->through >= 0)
                        py_word(between, (size_t)l->through, frame);
                cr_assert_eq(capo_py_innermost(&py, thread), frame, "3.%d", minor);
                cr_assert(capo_py_frame(&py, frame, &f));
                cr_assert(f.back == outer && f.code == code && !f.entry, "3.%d", minor);
                cr_assert_eq(say(&py, frame, text, sizeof text, 0), 25, "3.%d: %s", minor, text);
                cr_assert_str_eq(text, "/home/me/train.py:7 step\n", "3.%d", minor);
                cr_assert_eq(say(&py, outer, text, sizeof text, 1), 19, "3.%d", minor);
                cr_assert_str_eq(text, "torch/run.py:7 run\n", "3.%d", minor);
                cr_assert_eq(say(&py, outer, text, sizeof text, 0), 0, "one package too many");
                cr_assert_eq(say(&py, outer, text, 19, 1), -1, "no room for the zero");
                cr_assert_eq(say(&py, outer, text, 20, 1), 19);
                memory.gone = thread + l->current;
                cr_assert_eq(capo_py_innermost(&py, thread), 0);
                memory.gone = l->through >= 0 ? between + (uint64_t)l->through : frame + l->at;
                cr_assert_eq(capo_py_innermost(&py, thread), l->through >= 0 ? 0 : frame);
                memory.gone = frame + l->at;
                cr_assert(!capo_py_frame(&py, frame, &f));
        }
        cr_assert_eq(capo_py_innermost(&(struct capo_py){capo_py_layout_of(9), .read = py_read,
                                                         .arg = &memory},
                                       0),
                     0);
}

Test(cpython, what_the_interpreter_put_there)
{
        for (int minor = 11; minor <= 14; minor++) {
                struct capo_py py = py_begin(minor);
                uint64_t code = code_of(&py, "a.py", "f");
                struct capo_py_frame f;

                cr_assert(capo_py_frame(&py, py_frame(&py, code, 0, 0, 2), &f) && !f.entry);
                cr_assert(capo_py_frame(&py, py_frame(&py, code, 0, 0, 3), &f) && f.entry);
        }
}

Test(cpython, a_place_in_no_code)
{
        for (int minor = 9; minor <= 14; minor++) {
                struct capo_py py = py_begin(minor);
                uint64_t code = code_of(&py, "a.py", "f");
                char text[64];

                cr_assert_eq(say(&py, py_frame(&py, code, 6, 0, 0), text, sizeof text, 1), 9,
                             "3.%d", minor);
                cr_assert_eq(say(&py, py_frame(&py, code, 8, 0, 0), text, sizeof text, 1), -1,
                             "behind it");
                cr_assert_eq(say(&py, py_frame(&py, code, -4, 0, 0), text, sizeof text, 1), -1,
                             "before it");
                cr_assert_eq(say(&py, py_frame(&py, code + 16, 2, 0, 0), text, sizeof text, 1), -1,
                             "no code");
                cr_assert_eq(say(&py, py_frame(&py, 0, 2, 0, 0), text, sizeof text, 1), -1,
                             "nothing");
        }
}

Test(cpython, code)
{
        for (int minor = 9; minor <= 14; minor++) {
                struct capo_py py = py_begin(minor);
                uint64_t at = code_of(&py, "a.py", "f");
                size_t long_at = CAPO_PY_LENGTH;
                struct capo_py_code code;
                uint64_t bytes = at;

                cr_assert(capo_py_code(&py, at, &code));
                cr_assert(code.size == 8 && code.first_line == 7, "3.%d: %d", minor,
                          (int)code.size);
                if (minor < 11)
                        memcpy(&bytes, memory.at + (at - PY_BEGIN) + py.layout->code_bytes,
                               sizeof bytes);
                py_word(bytes, long_at, 1 << 28);
                cr_assert(capo_py_code(&py, at, &code));
                py_word(bytes, long_at, (1 << 28) + 1);
                cr_assert(!capo_py_code(&py, at, &code), "longer than any");
                py_word(bytes, long_at, (uint64_t)-1);
                cr_assert(!capo_py_code(&py, at, &code));
                py_word(bytes, long_at, 0);
                cr_assert(capo_py_code(&py, at, &code) && code.size == 0);
                if (minor < 11) {
                        py_word(bytes, CAPO_PY_TYPE, PY_TEXT_TYPE);
                        cr_assert(!capo_py_code(&py, at, &code), "bytes that are none");
                }
                py_word(at, CAPO_PY_TYPE, PY_TEXT_TYPE);
                cr_assert(!capo_py_code(&py, at, &code));
                py_word(at, CAPO_PY_TYPE, PY_CODE_TYPE);
                memory.gone = at + py.layout->lines + 7;
                cr_assert(!capo_py_code(&py, at, &code));
        }
}

Test(cpython, texts)
{
        for (int minor = 9; minor <= 14; minor++) {
                struct capo_py py = py_begin(minor);
                const uint8_t one[] = {'m', 0xe4, 0x1f, 0x7f};
                const uint16_t two[] = {0x7ff, 0x800, 0xffff, 'x'};
                const uint32_t four[] = {0x10000, 0x10ffff, 'y'};
                char text[CAPO_PY_TEXT + 1], many[300];
                uint64_t t;

                cr_assert(capo_py_text(&py, py_ascii(&py, ""), false, text) && !*text);
                cr_assert(capo_py_text(&py, py_ascii(&py, "tab\there"), false, text));
                cr_assert_str_eq(text, "tab?here");
                cr_assert(capo_py_text(&py, py_text(&py, one, 4, 1), false, text));
                cr_assert_str_eq(text, "m\303\244??");
                cr_assert(capo_py_text(&py, py_text(&py, two, 4, 2), false, text));
                cr_assert_str_eq(text, "\337\277\340\240\200\357\277\277x");
                cr_assert(capo_py_text(&py, py_text(&py, four, 3, 4), false, text));
                cr_assert_str_eq(text, "\360\220\200\200\364\217\277\277y");
                for (unsigned i = 0; i < sizeof many; i++)
                        many[i] = (char)('a' + i % 26);
                t = py_text(&py, many, sizeof many, 0);
                cr_assert(capo_py_text(&py, t, false, text) && strlen(text) == CAPO_PY_SHOWN);
                cr_assert(!memcmp(text, many, CAPO_PY_SHOWN));
                cr_assert(capo_py_text(&py, t, true, text) && strlen(text) == CAPO_PY_SHOWN);
                cr_assert(!memcmp(text, many + 100, CAPO_PY_SHOWN), "its end");
                t = py_text(&py, many, CAPO_PY_SHOWN, 0);
                cr_assert(capo_py_text(&py, t, true, text) && !memcmp(text, many, CAPO_PY_SHOWN));
        }
}

Test(cpython, what_is_no_text)
{
        struct capo_py py = py_begin(13);
        uint64_t t = py_ascii(&py, "text"), pointer = py_new(8), found;
        uint32_t state;
        char text[CAPO_PY_TEXT + 1];

        py_word(pointer, 0, t | 2);
        cr_assert(capo_py_object(&py, pointer, 0, PY_TEXT_TYPE, &found) && found == t);
        cr_assert(!capo_py_object(&py, pointer, 0, PY_CODE_TYPE, &found));
        cr_assert(!capo_py_object(&py, pointer, PY_ROOM, PY_TEXT_TYPE, &found));
        cr_assert(!capo_py_object(&py, 0, 0, PY_TEXT_TYPE, &found));
        cr_assert(capo_py_text(&py, t, false, text));
        py_word(t, CAPO_PY_LENGTH, (uint64_t)-1);
        cr_assert(!capo_py_text(&py, t, false, text));
        py_word(t, CAPO_PY_LENGTH, (1 << 20) + 1);
        cr_assert(!capo_py_text(&py, t, false, text), "too long");
        py_word(t, CAPO_PY_LENGTH, 1 << 20);
        cr_assert(capo_py_text(&py, t, false, text));
        cr_assert(!capo_py_text(&py, t, true, text), "its end is not there");
        py_word(t, CAPO_PY_LENGTH, 4);
        for (state = 0; state < 8; state++) {
                py_word(t, 32, state << 2 | 1 << 5 | 1 << 6);
                cr_assert_eq(capo_py_text(&py, t, false, text),
                             state == 1 || state == 2 || state == 4, "kind %u", state);
        }
        py_word(t, 32, 1 << 2 | 1 << 6);
        cr_assert(!capo_py_text(&py, t, false, text), "its characters are elsewhere");
        py_word(t, 32, 1 << 2 | 1 << 5 | 1 << 6);
        cr_assert(capo_py_text(&py, t, false, text));
        memory.gone = t + 39;
        cr_assert(!capo_py_text(&py, t, false, text));
        memory.gone = t + py.layout->ascii;
        cr_assert(!capo_py_text(&py, t, false, text));
        memory.gone = 0;
        py_word(t, CAPO_PY_TYPE, PY_BYTES_TYPE);
        cr_assert(!capo_py_text(&py, t, false, text));
        cr_assert(!capo_py_text(&py, 0, false, text));
        cr_assert(!capo_py_text(&py, 12, false, text));
}

Test(cpython, whose_file)
{
        static const char *const files[][2] = {
                {"/opt/lib/python3.11/threading.py", "threading.py"},
                {"/opt/lib/python3.11/json/decoder.py", "json/decoder.py"},
                {"/v/lib/python3/dist-packages/numpy/core.py", "numpy/core.py"},
                {"<frozen runpy>", "<frozen runpy>"},
                {"/opt/lib/python3.", NULL},
                {"/home/me/site-packages.py", NULL}};
        char text[256], want[256];

        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
                struct capo_py py = py_begin(12);
                uint64_t frame = py_frame(&py, code_of(&py, files[i][0], "f"), 0, 0, 0);

                snprintf(want, sizeof want, "%s:7 f\n", files[i][1] ? files[i][1] : files[i][0]);
                cr_assert_eq(say(&py, frame, text, sizeof text, 1), (int)strlen(want), "%s",
                             files[i][0]);
                cr_assert_str_eq(text, want);
                cr_assert_eq(say(&py, frame, text, sizeof text, 0) > 0, !files[i][1], "%s",
                             files[i][0]);
        }
}
