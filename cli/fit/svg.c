/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time per byte moved tells candidates apart better than time: over nine decades of size all times look alike. So the
 * picture shows time against size, both logarithmic, as people expect, with the envelope that the profile chooses drawn
 * wide beneath, and names at the right end of each line. The terminal's picture shows what a terminal can resolve: time
 * relative to NCCL's own choice.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/calls.h"
#include "core/base/size.h"
#include "cli/fit/svg.h"

/* Paul Tol's bright scheme (personal.sron.nl/~pault), told apart by most colour-blind eyes; grey is NCCL's choice. */
static const char *const colours[] = {"#bbbbbb", "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee",
                                      "#aa3377", "#999933", "#882255", "#44aa99", "#332288", "#ddcc77"};
#define N_COLOURS (sizeof colours / sizeof *colours)

struct frame {
        double x0, x1, y0, y1; /* ln bytes, ln us */
        int left, top, width, height;
};

static void limits(const struct capo_fit_series *s, struct frame *f)
{
        f->x0 = log((double)s->points[0].bytes);
        f->x1 = log((double)s->points[s->n_points - 1].bytes);
        f->y0 = INFINITY;
        f->y1 = -INFINITY;
        for (int i = 0; i < s->n_points * s->n_candidates; i++) {
                if (isnan(s->cells[i].us))
                        continue;
                f->y0 = fmin(f->y0, log(s->cells[i].us));
                f->y1 = fmax(f->y1, log(s->cells[i].us));
        }
        if (f->x1 - f->x0 < 1) {
                f->x0 -= 0.5;
                f->x1 += 0.5;
        }
        if (f->y1 - f->y0 < 0.2) {
                f->y0 -= 0.1;
                f->y1 += 0.1;
        }
}

static double px(const struct frame *f, double bytes)
{
        return f->left + f->width * (log(bytes) - f->x0) / (f->x1 - f->x0);
}

static double py(const struct frame *f, double us)
{
        return f->top + f->height * (1 - (log(us) - f->y0) / (f->y1 - f->y0));
}

static void axes(FILE *out, const struct frame *f)
{
        char size[16];

        fprintf(out, "<rect x='%d' y='%d' width='%d' height='%d' fill='none' stroke='#888'/>\n", f->left, f->top,
                f->width, f->height);
        for (int e = (int)ceil(f->x0 / M_LN2); e * M_LN2 <= f->x1; e++) {
                double x = px(f, exp2(e));

                if (e % ((f->x1 - f->x0) / M_LN2 > 16 ? 4 : (f->x1 - f->x0) / M_LN2 > 8 ? 2 : 1))
                        continue;
                capo_size_print((uint64_t)exp2(e), size, sizeof size);
                fprintf(out,
                        "<path d='M%.1f %d v%d' stroke='#ddd'/><text x='%.1f' y='%d' text-anchor='middle'>%s</text>\n",
                        x, f->top, f->height, x, f->top + f->height + 16, size);
        }
        for (int d = (int)floor(f->y0 / M_LN10); d <= f->y1 / M_LN10; d++) {
                static const int ticks[] = {1, 2, 5};

                for (int k = 0; k < 3; k++) {
                        double us = ticks[k] * pow(10, d), y = py(f, us);

                        if (log(us) >= f->y0 && log(us) <= f->y1)
                                fprintf(out,
                                        "<path d='M%d %.1f h%d' stroke='#ddd'/><text x='%d' y='%.1f' "
                                        "text-anchor='end'>%g</text>\n",
                                        f->left, y, f->width, f->left - 6, y + 4, us);
                }
        }
}

static void curve(FILE *out, const struct capo_fit_series *s, const struct frame *f, int c, double *label_y)
{
        char name[48];
        int last = -1, n = 0;

        for (int p = 0; p < s->n_points; p++) {
                const struct capo_fit_cell *cell = capo_fit_cell_of(s, p, c);

                if (isnan(cell->us))
                        continue;
                fprintf(out, "%s%.1f %.1f", n++ ? " L" : "<path fill='none' stroke-width='1.5' d='M",
                        px(f, (double)s->points[p].bytes), py(f, cell->us));
                last = p;
        }
        if (last < 0)
                return;
        fprintf(out, "' stroke='%s'%s/>\n", colours[(size_t)c % N_COLOURS], c == 0 ? " stroke-dasharray='5 3'" : "");
        for (int p = 0; p < s->n_points; p++) {
                const struct capo_fit_cell *cell = capo_fit_cell_of(s, p, c);
                double x = px(f, (double)s->points[p].bytes);

                if (!isnan(cell->us))
                        fprintf(out,
                                "<path d='M%.1f %.1f V%.1f' stroke='%s'/><circle cx='%.1f' cy='%.1f' r='2' "
                                "fill='%s'/>\n",
                                x, py(f, cell->lo), py(f, cell->hi), colours[(size_t)c % N_COLOURS], x, py(f, cell->us),
                                colours[(size_t)c % N_COLOURS]);
        }
        capo_fit_candidate_text(&s->candidates[c], name, sizeof name);
        for (char *a = name; *a; a++)
                *a = *a == '&' || *a == '<' ? ' ' : *a;
        fprintf(out, "<path d='M%d %.1f h18' stroke='%s' stroke-width='3'/><text x='%d' y='%.1f'>%s</text>\n",
                f->left + f->width + 12, *label_y - 4, colours[(size_t)c % N_COLOURS], f->left + f->width + 36,
                *label_y, name);
        *label_y += 16;
}

static void envelope(FILE *out, const struct capo_fit_series *s, const struct frame *f, double *label_y)
{
        int n = 0;

        for (int p = 0; p < s->n_points; p++) {
                const struct capo_fit_cell *cell =
                        capo_fit_cell_of(s, p, s->points[p].chosen > 0 ? s->points[p].chosen : 0);

                if (!isnan(cell->us))
                        fprintf(out, "%s%.1f %.1f",
                                n++ ? " L"
                                    : "<path fill='none' stroke='#f0c000' stroke-opacity='0.45' stroke-width='9' d='M",
                                px(f, (double)s->points[p].bytes), py(f, cell->us));
        }
        if (n)
                fprintf(out,
                        "'/>\n<path d='M%d %.1f h18' stroke='#f0c000' stroke-opacity='0.45' stroke-width='9'/><text "
                        "x='%d' y='%.1f'>with the profile</text>\n",
                        f->left + f->width + 12, *label_y - 4, f->left + f->width + 36, *label_y);
        *label_y += 16;
}

int capo_svg_fit(FILE *out, const struct capo_fit *fit, const char *title)
{
        enum { WIDTH = 860, PANEL = 420 };

        fprintf(out,
                "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' font-family='sans-serif' "
                "font-size='11'>\n"
                "<rect width='100%%' height='100%%' fill='white'/><title>%s</title>\n",
                WIDTH, PANEL * fit->n_series, title);
        for (int i = 0; i < fit->n_series; i++) {
                const struct capo_fit_series *s = &fit->series[i];
                struct frame f = {.left = 64, .top = PANEL * i + 40, .width = 600, .height = PANEL - 90};
                double label_y = f.top + 14;
                char class[160];

                limits(s, &f);
                fprintf(out, "<text x='%d' y='%d' font-size='14'>%s, %s: us per call, by size (%s)</text>\n", f.left,
                        f.top - 14, capo_call_name(s->call), capo_fit_class_text(&s->like, class, sizeof class),
                        capo_make_name(s->make));
                axes(out, &f);
                envelope(out, s, &f, &label_y);
                for (int c = 0; c < s->n_candidates; c++)
                        curve(out, s, &f, c, &label_y);
        }
        fputs("</svg>\n", out);
        return ferror(out) ? -EIO : 0;
}

static char letter(int c)
{
        return c == 0 ? '.' : c <= 26 ? (char)('a' + c - 1) : c <= 52 ? (char)('A' + c - 27) : '?';
}

void capo_terminal_fit(FILE *out, const struct capo_fit_series *s, int columns, int lines)
{
        int width = columns - 12 < s->n_points ? columns - 12 : s->n_points, each, reference_missing = 0;
        double lo = 0, hi = 0;
        char *grid, a[16], b[16], name[48];

        if (s->n_points < 2 || width < 2)
                return;
        each = (columns - 12) / width;
        each = each > 4 ? 4 : each < 1 ? 1 : each;
        for (int p = 0; p < s->n_points; p++)
                reference_missing += isnan(capo_fit_cell_of(s, p, 0)->us);
        for (int pass = 0; pass < 2; pass++) {
                grid = pass ? calloc((size_t)lines, (size_t)(width * each) + 1) : NULL;
                if (pass && !grid)
                        return;
                for (int y = 0; pass && y < lines; y++)
                        memset(grid + y * (width * each + 1), ' ', (size_t)(width * each));
                for (int p = 0; p < s->n_points; p++) {
                        double base = capo_fit_cell_of(s, p, 0)->us;

                        if (isnan(base) && s->points[p].best >= 0)
                                base = capo_fit_cell_of(s, p, s->points[p].best)->us;
                        for (int c = 0; c < s->n_candidates; c++) {
                                double v = log2(capo_fit_cell_of(s, p, c)->us / base);
                                int x = p * width / s->n_points * each + each / 2, y;

                                if (isnan(v))
                                        continue;
                                v = fmin(v, 2); /* four times slower and worse: the top line */
                                if (!pass) {
                                        lo = fmin(lo, v);
                                        hi = fmax(hi, v);
                                        continue;
                                }
                                y = (int)lround((hi - v) / (hi - lo) * (lines - 1));
                                grid[y * (width * each + 1) + x] = c == s->points[p].chosen && c > 0 ? '#' : letter(c);
                        }
                }
                if (!pass && hi - lo < 0.05) {
                        hi += 0.025;
                        lo -= 0.025;
                }
                if (!pass)
                        continue;
                fprintf(out, "  time relative to %s, by size; # is what the profile chooses\n",
                        reference_missing ? "the best" : "NCCL's own choice");
                for (int y = 0; y < lines; y++) {
                        double v = exp2(hi - (hi - lo) * y / (lines - 1));

                        fprintf(out, "  %5.2fx |%s\n", v, grid + y * (width * each + 1));
                }
                free(grid);
        }
        fprintf(out, "         +");
        for (int x = 0; x < width * each; x++)
                putc('-', out);
        capo_size_print(s->points[0].bytes, a, sizeof a);
        capo_size_print(s->points[s->n_points - 1].bytes, b, sizeof b);
        fprintf(out, "\n          %s%*s\n  ", a,
                width * each - (int)strlen(a) > (int)strlen(b) ? width * each - (int)strlen(a) : (int)strlen(b) + 1, b);
        for (int c = 0; c < s->n_candidates && c < 12; c++)
                fprintf(out, "%s%c %s", c ? "   " : "", letter(c),
                        capo_fit_candidate_text(&s->candidates[c], name, sizeof name));
        fputs(s->n_candidates > 12 ? "   ...\n" : "\n", out);
}
