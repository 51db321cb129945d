/* SPDX-License-Identifier: Apache-2.0 */
/* ALLOCATION: what an uneven or reduced one can reach, what the job reached, what as many GPUs in
 * another layout could reach, and an experiment that would show whether another choice is faster.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analysis/job/figures.h"
#include "capo/algorithms.h"
#include "capo/collectives.h"
#include "cli/base/cli_fields.h"
#include "cli/report/report_json.h"
#include "cli/report/report_page.h"
#include "core/base/calls.h"
#include "core/base/layout.h"
#include "core/base/size.h"
#include "core/base/util.h"

enum { LARGE = 1 << 20 }; /* from this size on bandwidth dominates, and with it the algorithm */

/* The row of the largest communicator's AllReduce with the most time. NULL: none has a bandwidth.
 */
static const struct capo_page_row *find_costly(const struct capo_page *r)
{
        const struct capo_page_row *most = NULL;

        for (uint32_t i = 0; i < r->judged.n; i++) {
                const struct capo_page_row *row = &r->judged.row[i];

                if (row->row.comm == 0 && row->has_bandwidth && row->busbw > 0 &&
                    capo_coll_of_call(row->row.call) == CAPO_COLL_ALLREDUCE &&
                    (!most || row->total_ns > most->total_ns))
                        most = row;
        }
        return most;
}

static void add_here(const struct capo_page *r, struct cli_section *s,
                     const struct capo_page_row *row)
{
        const struct capo_page_allocation *a = &r->allocation;
        char size[24], gbs[32];

        cli_section_cell(s, "this job");
        cli_section_cell(s, "%s", a->layout);
        cli_section_cell(s, a->best > 0 ? "%.1f" : "-", a->best);
        if (!row)
                return;
        cli_section_cell(s, "%s", capo_text_gbs(row->busbw, gbs));
        cli_section_cell(s, "%s %s at %s", capo_ran_algo(row->row.algo_proto),
                         capo_ran_proto(row->row.algo_proto),
                         capo_size_print(row->row.bytes, size, sizeof size));
}

/* Cost of NCCL's choice: the share of these calls' time that the links could save, here and in the
 * other layouts. */
static void add_cost(const struct capo_page *r, struct cli_section *s,
                     const struct capo_page_row *row)
{
        const struct capo_page_allocation *a = &r->allocation;
        char share[48] = "", other[96] = "";

        if (!(row->busbw < a->best)) /* as good, or the best is not known */
                return;
        if (row->share > 0)
                snprintf(share, sizeof share, " (%.0f %% of the time in NCCL)", 100 * row->share);
        if (a->n_others)
                snprintf(other, sizeof other, ", with %s up to %.0f %%",
                         a->others[a->n_others - 1].layout,
                         100 * (1 - row->busbw / a->others[a->n_others - 1].best));
        cli_section_line(s,
                         "cost: the links could save up to %.0f %% of the time of these calls%s%s",
                         100 * (1 - row->busbw / a->best), share, other);
}

/* The choice that ran, and the usual other one between nodes. */
static void add_experiment(struct cli_section *s, const struct capo_page_row *row)
{
        unsigned algo = row->row.algo_proto >> 4;

        if (!algo)
                algo = CAPO_ALGO_RING;
        cli_section_line(s,
                         "one experiment tells whether another choice is faster here: capo sweep "
                         "--coll allreduce --algos %s,%s --protos simple --sizes %" PRIu64
                         "M..%" PRIu64 "M --calls 200 -- COMMAND",
                         capo_algo_word(algo),
                         capo_algo_word(algo == CAPO_ALGO_TREE ? CAPO_ALGO_RING : CAPO_ALGO_TREE),
                         row->row.bytes >= LARGE ? row->row.bytes / LARGE : 1,
                         (row->bytes_max + LARGE - 1) / LARGE);
}

void report_allocation(const struct report_view *view, struct cli_page *page)
{
        static const struct cli_column columns[] = {{"", "l"},
                                                    {"GPUs", "l"},
                                                    {"best possible", "r"},
                                                    {"reached", "r"},
                                                    {"NCCL ran", "l"}};
        const struct capo_page *r = view->page;
        const struct capo_page_allocation *a = &r->allocation;
        const struct capo_page_row *row;
        struct capo_layout layout;
        struct cli_section *s;

        if (!*a->layout || !(a->uneven || a->reduced))
                return;
        s = cli_page_section(page, "ALLOCATION", columns, N_ELEMENTS(columns));
        cli_section_of(s, "%s: %s%s%s; AllReduce, bus GB/s", a->class, a->uneven ? "uneven" : "",
                       a->uneven && a->reduced ? ", " : "",
                       a->reduced ? "part of the machine" : "");
        row = find_costly(r);
        add_here(r, s, row);
        cli_section_end(s);
        for (unsigned i = 0; i < a->n_others; i++) {
                cli_section_cell(s, "instead");
                cli_section_cell(s, "%s", a->others[i].layout);
                cli_section_cell(s, "%.1f", a->others[i].best);
                cli_section_end(s);
        }
        if (row)
                add_cost(r, s, row);
        if (row && row->bytes_max >= LARGE)
                add_experiment(s, row);
        if (capo_layout_parse(a->layout, &layout, NULL) == 0 && capo_layout_ordered(&layout))
                cli_section_line(s,
                                 "the order of the nodes matters: capo fit --model %s --platform "
                                 "%.*s names the best one",
                                 a->layout, (int)strcspn(a->class, "/"), a->class);
}

#define OTHER_FIELDS(F)               \
        F("layout", TEXT, of->layout) \
        F("best_busbw_gbs", EXACT, of->best)
CLI_ENTITY(other_layout, __typeof__(((struct capo_page_allocation *)0)->others[0]), void,
           OTHER_FIELDS);

#define ALLOCATION_FIELDS(F)                                      \
        F("layout", TEXT, of->layout)                             \
        F("class", TEXT, of->class)                               \
        F("uneven", FLAG, of->uneven)                             \
        F("reduced", FLAG, of->reduced)                           \
        F("best_busbw_gbs", EXACT, of->best > 0 ? of->best : NAN) \
        F("instead", JSON, CLI_ENTITIES(other_layout, NULL, of->others, of->n_others))
CLI_ENTITY_SHARED(report_allocated, struct capo_page_allocation, void, ALLOCATION_FIELDS);
