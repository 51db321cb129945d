/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "cli/base/svg_draw.h"
#include "core/base/markup.h"
#include "core/base/size.h"

enum { MAX_TICKS = 24 };

#define LETTER 6.2 /* mean width of a letter of 12 px sans-serif, rather too large */

static bool is_log(const struct capo_svg_axis *a) { return a->scale != CAPO_SVG_LINEAR; }

void capo_svg_widen(struct capo_svg_axis *a, double value)
{
        if (!isfinite(value) || (is_log(a) && value <= 0))
                return;
        a->from = fmin(a->from, value);
        a->to = fmax(a->to, value);
}

/* The smallest number >= @v that is 1, 2 or 5 times a power of ten. */
static double step_of(double v)
{
        double ten = pow(10, floor(log10(v)));

        return v <= ten * 1.0001 ? ten : v <= 2 * ten ? 2 * ten : v <= 5 * ten ? 5 * ten : 10 * ten;
}

void capo_svg_round(struct capo_svg_axis *a)
{
        double step;

        if (!(a->from <= a->to)) {
                a->from = is_log(a) ? 1 : 0;
                a->to = is_log(a) ? 10 : 1;
        } else if (is_log(a)) {
                if (a->to < a->from * 1.5) {
                        a->from /= 1.25;
                        a->to *= 1.25;
                }
        } else {
                if (a->to <= a->from)
                        a->to = a->from + (a->from ? fabs(a->from) / 2 : 1);
                step = step_of((a->to - a->from) / 6);
                a->from = step * floor(a->from / step + 1e-9);
                a->to = step * ceil(a->to / step - 1e-9);
        }
}

/* Positions of ticks: at most MAX_TICKS. */
static unsigned place_ticks(const struct capo_svg_axis *a, double *out)
{
        unsigned n = 0;

        if (a->scale == CAPO_SVG_LINEAR) {
                double step = step_of((a->to - a->from) / 6);

                for (double i = ceil(a->from / step - 1e-9) + 0.0;
                     /* avoid -0 */ i * step <= a->to + 1e-9 * step && n < MAX_TICKS; i++)
                        out[n++] = i * step;
        } else if (a->scale == CAPO_SVG_BYTES) {
                double span = log2(a->to / a->from);
                int every = span > 32 ? 5 : span > 16 ? 4 : span > 8 ? 2 : 1;

                for (int e = (int)ceil(log2(a->from) - 1e-9);
                     e <= log2(a->to) + 1e-9 && n < MAX_TICKS; e++) {
                        if (e % every == 0)
                                out[n++] = exp2(e);
                }
        } else {
                static const int in_decade[] = {1, 2, 5};
                double decades = log10(a->to / a->from);
                int every = decades > 12 ? 3 : decades > 6 ? 2 : 1;

                for (int d = (int)floor(log10(a->from)); d <= log10(a->to); d++) {
                        for (int k = 0; k < (decades > 4 ? 1 : 3) && n < MAX_TICKS; k++) {
                                double v = in_decade[k] * pow(10, d);

                                if (d % every == 0 && v >= a->from * (1 - 1e-9) &&
                                    v <= a->to * (1 + 1e-9))
                                        out[n++] = v;
                        }
                }
        }
        return n;
}

static double scale_to_axis(const struct capo_svg_axis *a, double v)
{
        double p = is_log(a) ? (v > 0 ? log(v / a->from) / log(a->to / a->from) : 0)
                             : (v - a->from) / (a->to - a->from);

        return fmin(fmax(p, 0), 1);
}

double capo_svg_x(const struct capo_svg_frame *f, double value)
{
        return f->left + f->width * scale_to_axis(&f->x, value);
}

double capo_svg_y(const struct capo_svg_frame *f, double value)
{
        return f->top + f->height * (1 - scale_to_axis(&f->y, value));
}

/* Paul Tol's bright scheme (personal.sron.nl/~pault), which most colour-blind people can
 * distinguish. */
static void write_style(FILE *out)
{
        static const char *const series[CAPO_SVG_SERIES] = {
                "#999999", "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee",
                "#aa3377", "#999933", "#882255", "#44aa99", "#6655cc", "#ddcc77"};

        /* plain colours: not every SVG viewer supports variables */
        fputs(":root{color-scheme:light dark}\n"
              "svg text{font:12px sans-serif;fill:#1a202c;stroke:#fff;stroke-width:3px;stroke-linejoin:round;"
              "paint-order:stroke}.t{opacity:.7}.ground{fill:#fff}"
              ".box{fill:none;stroke:#888}.grid{stroke:#ddd}.line{fill:none;stroke-width:1.5}\n"
              ".c{fill:#f0c000;stroke:#f0c000}\n"
              "@media(prefers-color-scheme:dark){svg text{fill:#e2e8f0;stroke:#1a202c}.ground{fill:#1a202c}.grid{stroke:#4a5568}}\n",
              out);
        for (int i = 0; i < CAPO_SVG_SERIES; i++)
                fprintf(out, ".s%d{fill:%s;stroke:%s}", i, series[i], series[i]);
        fputs(".line{fill:none}\n", out);
}

const char *capo_svg_series(unsigned nth)
{
        static const char *const names[CAPO_SVG_SERIES] = {"s0", "s1", "s2", "s3", "s4",  "s5",
                                                           "s6", "s7", "s8", "s9", "s10", "s11"};

        return names[nth < CAPO_SVG_SERIES ? nth : 1 + (nth - 1) % (CAPO_SVG_SERIES - 1)];
}

void capo_svg_begin(FILE *out, double width, double height, const char *title)
{
        fprintf(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
                "width=\"%.0f\" height=\"%.0f\" aria-label=\"",
                width, height, width, height);
        capo_markup_text(out, title);
        fputs("\">\n<style>\n", out);
        write_style(out);
        fputs("</style>\n<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n", out);
}

void capo_svg_end(FILE *out) { fputs("</svg>\n", out); }

void capo_svg_text(FILE *out, double x, double y, char anchor, double room, const char *class,
                   const char *text)
{
        size_t length = strlen(text), letters = room > 0 ? (size_t)(room / LETTER) : length;
        char cut[512];

        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\"", x, y);
        if (anchor != 's')
                fprintf(out, " text-anchor=\"%s\"", anchor == 'm' ? "middle" : "end");
        if (class)
                fprintf(out, " class=\"%s\"", class);
        fputc('>', out);
        if (length > letters && letters > 3) {
                letters = letters < sizeof cut ? letters : sizeof cut - 1;
                while (letters > 3 &&
                       (text[letters - 3] & 0xc0) == 0x80) /* do not cut inside a letter */
                        letters--;
                snprintf(cut, sizeof cut, "%.*s...", (int)letters - 3, text);
                text = cut;
        }
        capo_markup_text(out, text);
        fputs("</text>\n", out);
}

static void tick_text(const struct capo_svg_axis *a, double value, char *text)
{
        if (a->scale == CAPO_SVG_BYTES)
                capo_size_print((uint64_t)value, text, 32);
        else
                snprintf(text, 32, "%.6g", fabs(value) < 1e-9 * fabs(a->to) ? 0 : value);
}

void capo_svg_axes(FILE *out, const struct capo_svg_frame *f)
{
        double at[MAX_TICKS], bottom = f->top + f->height;
        char text[32];
        unsigned n = place_ticks(&f->x, at);

        for (unsigned i = 0; i < n; i++) {
                double x = capo_svg_x(f, at[i]);

                fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>", x, f->top, bottom);
                tick_text(&f->x, at[i], text);
                capo_svg_text(out, x, bottom + 16, 'm', 0, NULL, text);
        }
        n = place_ticks(&f->y, at);
        for (unsigned i = 0; i < n; i++) {
                double y = capo_svg_y(f, at[i]);

                fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>", f->left, y,
                        f->left + f->width);
                tick_text(&f->y, at[i], text);
                capo_svg_text(out, f->left - 6, y + 4, 'e', 0, NULL, text);
        }
        fprintf(out, "<rect class=\"box\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
                f->left, f->top, f->width, f->height);
        if (f->x.title)
                capo_svg_text(out, f->left + f->width / 2, bottom + 32, 'm', f->width, "t",
                              f->x.title);
        if (f->y.title)
                capo_svg_text(out, f->left, f->top - 6, 's', f->width, "t", f->y.title);
}

void capo_svg_line(FILE *out, const struct capo_svg_frame *f, const double *x, const double *y,
                   size_t n, const char *class, const char *more)
{
        size_t drawn = 0;

        for (size_t i = 0; i < n; i++) {
                if (isfinite(y[i]) && isfinite(x[i]))
                        fprintf(out, "%s%.1f %.1f", drawn++ ? "L" : "<path d=\"M",
                                capo_svg_x(f, x[i]), capo_svg_y(f, y[i]));
        }
        if (!drawn)
                return;
        fprintf(out, "\" class=\"%s line\" %s/>\n", class, more ? more : "");
        for (size_t i = 0; i < n; i++) {
                if (isfinite(y[i]) && isfinite(x[i]))
                        fprintf(out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"2\"/>",
                                class, capo_svg_x(f, x[i]), capo_svg_y(f, y[i]));
        }
        fputc('\n', out);
}

void capo_svg_error(FILE *out, const struct capo_svg_frame *f, double x, double low, double high,
                    const char *class)
{
        if (isnan(x) || isnan(low) || isnan(high))
                return;
        fprintf(out, "<path class=\"%s\" d=\"M%.1f %.1fV%.1f\"/>\n", class, capo_svg_x(f, x),
                capo_svg_y(f, low), capo_svg_y(f, high));
}
