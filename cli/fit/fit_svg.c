/* SPDX-License-Identifier: Apache-2.0 */
/* Over nine decades of size all times look alike, and gains of a few percent are invisible on a
 * logarithmic axis. So a series has two panels: time by size, both logarithmic; and the time of
 * each candidate relative to NCCL's own choice at that size, which is the basis of decisions. The
 * profile's choice is drawn as a wide line. The terminal picture is the second panel, in letters.
 */
#include <math.h>

#include "cli/base/svg_draw.h"
#include "cli/fit/fit_svg.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/util.h"
#include "core/base/xalloc.h"

/* A value of a panel: us, or the ratio to NCCL's own choice; NAN: none. */
static double scale_time(const struct capo_fit_series *s, int p, double us, bool ratio)
{
        return ratio ? us / capo_fit_cell_of(s, p, 0)->us : us;
}

static void set_axes(const struct capo_fit_series *s, struct capo_svg_frame *f, bool ratio)
{
        f->x = (struct capo_svg_axis){CAPO_SVG_BYTES, INFINITY, -INFINITY, "size"};
        f->y = (struct capo_svg_axis){
                ratio ? CAPO_SVG_LINEAR : CAPO_SVG_LOG, INFINITY, -INFINITY,
                ratio ? "time over that of NCCL's own choice (below 1: faster)" : "us per call"};
        for (int p = 0; p < s->n_points; p++) {
                capo_svg_widen(&f->x, (double)s->points[p].bytes);
                for (int c = 0; c < s->n_candidates; c++) {
                        const struct capo_fit_cell *cell = capo_fit_cell_of(s, p, c);
                        double v = scale_time(s, p, cell->us, ratio);

                        /* cut at twice as slow, so that gains are visible */
                        capo_svg_widen(&f->y, ratio ? fmin(v, 2) : v);
                        if (!ratio || scale_time(s, p, cell->hi, ratio) < 2)
                                capo_svg_widen(&f->y, scale_time(s, p, cell->hi, ratio));
                        capo_svg_widen(&f->y, scale_time(s, p, cell->lo, ratio));
                }
        }
        capo_svg_round(&f->x);
        capo_svg_round(&f->y);
}

/* Returns whether anything was drawn. */
static bool draw_curve(FILE *out, const struct capo_fit_series *s, const struct capo_svg_frame *f,
                       int c, bool ratio, double *x, double *y)
{
        bool any = false;

        for (int p = 0; p < s->n_points; p++) {
                const struct capo_fit_cell *cell =
                        capo_fit_cell_of(s, p,
                                         c >= 0                    ? c
                                         : s->points[p].chosen > 0 ? s->points[p].chosen
                                                                   : 0);

                x[p] = (double)s->points[p].bytes;
                y[p] = scale_time(s, p, cell->us, ratio);
                any |= isfinite(y[p]);
                if (c >= 0)
                        capo_svg_error(out, f, x[p], scale_time(s, p, cell->lo, ratio),
                                       scale_time(s, p, cell->hi, ratio),
                                       capo_svg_series((unsigned)c));
        }
        if (c < 0)
                capo_svg_line(out, f, x, y, (size_t)s->n_points, "c",
                              "style=\"stroke-width:9;opacity:.4\"");
        else
                capo_svg_line(out, f, x, y, (size_t)s->n_points, capo_svg_series((unsigned)c),
                              c ? NULL : "stroke-dasharray=\"5 3\"");
        return any;
}

enum {
        WIDTH = 1240,
        LEFT = 64,
        PANEL = 430,
        GAP = 64,
        PLOT = 300,
        KEY = 200,
        KEY_STEP = 18,
        KEY_MOST = 15
};

static void draw_key(FILE *out, double top, int nth, const char *class, const char *more,
                     const char *name)
{
        double x = LEFT + 2 * PANEL + GAP + 20, y = top + 6 + KEY_STEP * nth;

        fprintf(out, "<path class=\"%s line\" %s d=\"M%.1f %.1fh18\"/>\n", class, more, x, y);
        capo_svg_text(out, x + 26, y + 4, 's', KEY, NULL, name);
}

static void draw_series(FILE *out, const struct capo_fit_series *s, double top)
{
        _cleanup_free_ double *x = xcalloc((size_t)s->n_points + 1, sizeof *x);
        _cleanup_free_ double *y = xcalloc((size_t)s->n_points + 1, sizeof *y);
        char class[160], title[256];
        int n = 0;

        snprintf(title, sizeof title, "%s, %s (%s)", capo_call_name(s->call),
                 capo_fit_class_text(&s->like, class, sizeof class), capo_make_name(s->make));
        capo_svg_text(out, LEFT, top + 20, 's', WIDTH - LEFT, NULL, title);
        for (int ratio = 0; ratio < 2; ratio++) {
                struct capo_svg_frame f = {.left = LEFT + ratio * (PANEL + GAP),
                                           .top = top + 56,
                                           .width = PANEL,
                                           .height = PLOT};
                bool any = false;

                set_axes(s, &f, ratio);
                capo_svg_axes(out, &f);
                draw_curve(out, s, &f, -1, ratio, x, y);
                for (int c = s->n_candidates - 1; c >= 0; c--)
                        any |= draw_curve(out, s, &f, c, ratio, x, y);
                if (!any)
                        capo_svg_text(out, f.left + f.width / 2, f.top + f.height / 2, 'm', f.width,
                                      "t", "NCCL's own choice was not measured");
        }
        draw_key(out, top + 56, n++, "c", "style=\"stroke-width:9;opacity:.4\"",
                 "with the profile");
        for (int c = 0; c < s->n_candidates && n < KEY_MOST; c++) {
                char name[56];

                draw_key(out, top + 56, n++, capo_svg_series((unsigned)c),
                         c ? "" : "stroke-dasharray=\"5 3\"",
                         capo_fit_candidate_text(&s->candidates[c], name, sizeof name));
        }
}

int capo_svg_fit(FILE *out, const struct capo_fit *fit, const char *title)
{
        enum { HEIGHT = 56 + PLOT + 60 };

        capo_svg_begin(out, WIDTH, HEIGHT * (fit->n_series > 0 ? fit->n_series : 1), title, true);
        for (int i = 0; i < fit->n_series; i++)
                draw_series(out, &fit->series[i], HEIGHT * i);
        capo_svg_end(out);
        return ferror(out) ? -EIO : 0;
}

static char choose_letter(int c)
{
        return c == 0 ? '.' : c <= 26 ? (char)('a' + c - 1) : c <= 52 ? (char)('A' + c - 27) : '?';
}

void capo_terminal_fit(FILE *out, const struct capo_fit_series *s, int columns, int lines)
{
        int width = columns - 12 < s->n_points ? columns - 12 : s->n_points, each,
            reference_missing = 0;
        double lo = 0, hi = 0;
        char *grid, a[16], b[16], name[56];

        if (s->n_points < 2 || width < 2)
                return;
        each = (columns - 12) / width;
        each = each > 4 ? 4 : each < 1 ? 1 : each;
        for (int p = 0; p < s->n_points; p++)
                reference_missing += isnan(capo_fit_cell_of(s, p, 0)->us);
        for (int pass = 0; pass < 2; pass++) {
                grid = pass ? xcalloc((size_t)lines, (size_t)(width * each) + 1) : NULL;
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
                                v = fmin(v, 2); /* cut at twice as slow: the top line */
                                if (!pass) {
                                        lo = fmin(lo, v);
                                        hi = fmax(hi, v);
                                        continue;
                                }
                                y = (int)lround((hi - v) / (hi - lo) * (lines - 1));
                                grid[y * (width * each + 1) + x] =
                                        c == s->points[p].chosen && c > 0 ? '#' : choose_letter(c);
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
                width * each - (int)strlen(a) > (int)strlen(b) ? width * each - (int)strlen(a)
                                                               : (int)strlen(b) + 1,
                b);
        for (int c = 0; c < s->n_candidates && c < 12; c++)
                fprintf(out, "%s%c %s", c ? "   " : "", choose_letter(c),
                        capo_fit_candidate_text(&s->candidates[c], name, sizeof name));
        fputs(s->n_candidates > 12 ? "   ...\n" : "\n", out);
}
