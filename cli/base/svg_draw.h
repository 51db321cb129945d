/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures as SVG, light or dark as the reader's system prefers. Everything stays inside its frame:
 * values beyond an axis are drawn at its edge, and long texts are cut with an ellipsis.
 *
 *      capo_svg_begin(out, 860, 420, "time by size");
 *      capo_svg_axes(out, &frame);             box, grid, ticks, titles
 *      capo_svg_line(out, &frame, x, y, n, "s1", NULL);
 *      capo_svg_end(out);
 *
 * Colours are CSS classes: "c" chosen, "s0" ... "s11" series (s0: NCCL's own choice, grey), "t" faint
 * text. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#define CAPO_SVG_SERIES 12 /* classes s0 to s11; further series start again with s1 */

enum capo_svg_scale {
        CAPO_SVG_LINEAR, /* ticks at 1, 2 or 5 times a power of ten */
        CAPO_SVG_LOG,    /* ticks at 1, 2, 5, 10, ...; both ends must be positive */
        CAPO_SVG_BYTES,  /* logarithmic; ticks at powers of two, written as sizes */
};

struct capo_svg_axis {
        enum capo_svg_scale scale;
        double from, to;   /* from < to; capo_svg_widen() and capo_svg_round() ensure it */
        const char *title; /* with its unit; NULL: none */
};

/* A rectangle with axes. Ticks and titles are outside: leave 64 to its left, 40 below, 16 above. */
struct capo_svg_frame {
        double left, top, width, height;
        struct capo_svg_axis x, y;
};

/** capo_svg_widen() - extend the axis to @value; NAN, and values <= 0 on logarithmic axes, are
 * ignored. Start with from = INFINITY, to = -INFINITY. */
void capo_svg_widen(struct capo_svg_axis *axis, double value);

/** capo_svg_round() - move the ends to ticks, and apart if they are equal; once, after all values.
 */
void capo_svg_round(struct capo_svg_axis *axis);

/** capo_svg_begin() - a file of its own; @title: for screen readers. */
void capo_svg_begin(FILE *out, double width, double height, const char *title);
void capo_svg_end(FILE *out);

/** capo_svg_text() - @anchor: 's' begins at @x, 'm' is centred, 'e' ends there; @room: maximum
 * width, 0: any
 * @class: NULL or as above. The text is escaped here. */
void capo_svg_text(FILE *out, double x, double y, char anchor, double room, const char *class,
                   const char *text);

void capo_svg_axes(FILE *out, const struct capo_svg_frame *f);

/** capo_svg_x(), capo_svg_y() - position of a value, always inside the frame. */
double capo_svg_x(const struct capo_svg_frame *f, double value);
double capo_svg_y(const struct capo_svg_frame *f, double value);

/** capo_svg_line() - a line through the points whose y is not NAN, with a dot at each. @more:
 * further attributes, such as "stroke-dasharray='5 3'", or NULL. */
void capo_svg_line(FILE *out, const struct capo_svg_frame *f, const double *x, const double *y,
                   size_t n, const char *class, const char *more);

/** capo_svg_error() - an error bar. */
void capo_svg_error(FILE *out, const struct capo_svg_frame *f, double x, double low, double high,
                    const char *class);

/** capo_svg_series() - class of the nth series. */
const char *capo_svg_series(unsigned nth);
