/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures: nothing is drawn outside of its frame, there are ticks, and texts are cut to their
 * room. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <criterion/criterion.h>

#include "cli/base/svg_draw.h"

static char *page;
static size_t size;
static FILE *out;

static void begin(void) { out = open_memstream(&page, &size); }

static void end(void) { free(page); }

TestSuite(svg, .init = begin, .fini = end);

static const char *done(void)
{
        fclose(out);
        return page;
}

static unsigned count(const char *text, const char *what)
{
        unsigned n = 0;

        for (const char *at = text; (at = strstr(at, what)); at++)
                n++;
        return n;
}

static struct capo_svg_frame frame(void)
{
        return (struct capo_svg_frame){.left = 64,
                                       .top = 40,
                                       .width = 600,
                                       .height = 330,
                                       .x = {CAPO_SVG_BYTES, 1024, 1048576, "bytes"},
                                       .y = {CAPO_SVG_LOG, 10, 1000, "us <each>"}};
}

/* Every point of every path and dot lies in the frame. */
static void all_inside(const char *text, const struct capo_svg_frame *f)
{
        double x = f->left, y = f->top;

        for (const char *at = strstr(text, " d=\""); at; at = strstr(at, " d=\"")) {
                for (at += 4; *at != '"';) {
                        char letter = *at++;
                        char *next;

                        if (letter == 'M' || letter == 'L') {
                                x = strtod(at, &next);
                                at = next;
                                y = strtod(at, &next);
                        } else if (letter == 'V') {
                                y = strtod(at, &next);
                        } else {
                                cr_assert_eq(letter, 'H');
                                x = strtod(at, &next);
                        }
                        at = next;
                        cr_assert(x >= f->left - 0.1 && x <= f->left + f->width + 0.1, "x %g", x);
                        cr_assert(y >= f->top - 0.1 && y <= f->top + f->height + 0.1, "y %g", y);
                }
        }
}

Test(svg, values_beyond_an_axis_end_at_its_edge)
{
        struct capo_svg_frame f = frame();
        const double x[] = {1, 2048, 65536, 1e12}, y[] = {0, 5, NAN, 1e9};

        capo_svg_line(out, &f, x, y, 4, "s1", NULL);
        capo_svg_error(out, &f, 2048, 1e-3, 1e6, "s1");
        all_inside(done(), &f);
        cr_assert_eq(count(page, "<circle"), 3, "what is not a number is no point");
        cr_assert_eq(capo_svg_x(&f, 1024), 64);
        cr_assert_eq(capo_svg_x(&f, 1048576), 664);
        cr_assert_float_eq(capo_svg_x(&f, 32768), 364, 1e-9);
        cr_assert_eq(capo_svg_y(&f, 10), 370);
        cr_assert_float_eq(capo_svg_y(&f, 100), 205, 1e-9);
        cr_assert_eq(capo_svg_y(&f, -1), 370, "a logarithm has no place for it");
}

Test(svg, nothing_to_draw_is_nothing_drawn)
{
        struct capo_svg_frame f = frame();
        const double x[] = {2048}, y[] = {NAN};

        capo_svg_line(out, &f, x, y, 1, "s1", NULL);
        capo_svg_error(out, &f, 2048, NAN, 3, "s1");
        cr_assert_str_eq(done(), "");
}

Test(svg, axes_have_ticks_and_titles)
{
        struct capo_svg_frame f = frame();

        capo_svg_axes(out, &f);
        all_inside(done(), &f);
        cr_assert(strstr(page, ">1 KiB<") && strstr(page, ">64 KiB<") && strstr(page, ">1 MiB<"));
        cr_assert_null(strstr(page, ">2 KiB<"), "of ten powers of two every second");
        cr_assert(strstr(page, ">10<") && strstr(page, ">20<") && strstr(page, ">50<") &&
                  strstr(page, ">1000<"));
        cr_assert_null(strstr(page, ">5<"));
        cr_assert(strstr(page, ">bytes<") && strstr(page, ">us &lt;each&gt;<"));
}

Test(svg, linear_ticks_are_round)
{
        struct capo_svg_frame f = frame();

        f.x = (struct capo_svg_axis){CAPO_SVG_LINEAR, -0.3, 1.2, NULL};
        capo_svg_axes(out, &f);
        done();
        cr_assert(strstr(page, ">0<") && strstr(page, ">0.5<") && strstr(page, ">1<"));
        cr_assert_null(strstr(page, ">1.5<"));
}

Test(svg, axes_grow_with_their_values)
{
        struct capo_svg_axis a = {CAPO_SVG_LINEAR, INFINITY, -INFINITY, NULL},
                             l = {CAPO_SVG_LOG, INFINITY, -INFINITY, NULL};

        capo_svg_round(&a);
        cr_assert(a.from == 0 && a.to == 1, "no value at all");
        a = (struct capo_svg_axis){CAPO_SVG_LINEAR, INFINITY, -INFINITY, NULL};
        capo_svg_widen(&a, 3);
        capo_svg_widen(&a, NAN);
        capo_svg_widen(&a, 47);
        cr_assert(a.from == 3 && a.to == 47);
        capo_svg_round(&a);
        cr_assert(a.from == 0 && a.to == 50, "%g %g", a.from, a.to);
        capo_svg_widen(&l, 0);
        capo_svg_widen(&l, -3);
        capo_svg_widen(&l, 100);
        cr_assert(l.from == 100 && l.to == 100, "logarithms have no zero");
        capo_svg_round(&l);
        cr_assert(l.from == 80 && l.to == 125);
}

Test(svg, texts_keep_to_their_room)
{
        capo_svg_text(out, 1, 2, 'e', 62, NULL, "0123456789");
        capo_svg_text(out, 1, 2, 's', 62, "t", "01234567890");
        capo_svg_text(out, 1, 2, 'm', 0, NULL, "a<b & \"c\"");
        capo_svg_text(out, 1, 2, 's', 62, NULL, "012345\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9");
        done();
        cr_assert(strstr(page, "text-anchor=\"end\">0123456789</text>"), "ten letters fit");
        cr_assert(strstr(page, "class=\"t\">0123456...</text>"), "eleven do not");
        cr_assert(strstr(page, "text-anchor=\"middle\">a&lt;b &amp; &quot;c&quot;</text>"));
        cr_assert(strstr(page, ">012345...</text>"), "no half letter: %s", page);
}

Test(svg, a_picture_alone_brings_its_colours)
{
        capo_svg_begin(out, 10, 20, "a & b");
        capo_svg_end(out);
        done();
        cr_assert(strstr(page, "prefers-color-scheme:dark") && strstr(page, ".s11{") &&
                  strstr(page, "aria-label=\"a &amp; b\""));
        cr_assert_str_eq(capo_svg_series(0), "s0");
        cr_assert_str_eq(capo_svg_series(11), "s11");
        cr_assert_str_eq(capo_svg_series(12), "s1", "grey is NCCL's own choice alone");
}
