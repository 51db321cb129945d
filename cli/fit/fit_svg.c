/* SPDX-License-Identifier: Apache-2.0 */
/* Over nine decades of size all times look alike, and gains of a few percent are invisible on a
 * logarithmic axis. So a series has two panels: time by size, both logarithmic; and the time of
 * each candidate relative to NCCL's own choice at that size, which is the basis of decisions. The
 * profile's choice is drawn as a wide line.
 */
#include <math.h>

#include "cli/base/svg_draw.h"
#include "cli/fit/fit_svg.h"
#include "core/base/calls.h"
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

        capo_svg_begin(out, WIDTH, HEIGHT * (fit->n_series > 0 ? fit->n_series : 1), title);
        for (int i = 0; i < fit->n_series; i++)
                draw_series(out, &fit->series[i], HEIGHT * i);
        capo_svg_end(out);
        return ferror(out) ? -EIO : 0;
}
