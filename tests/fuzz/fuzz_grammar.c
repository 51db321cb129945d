/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a value on the command line: GPUs, allocations, layouts, sizes, releases. What is
 * taken can be written again, and means the same then. */
#include <stdlib.h>
#include <string.h>

#include "core/base/layout.h"
#include "core/base/nccl_release.h"
#include "core/base/size.h"
#include "core/base/util.h"
#include "profiles/fragment/fragment.h"
#include "profiles/plan/plan.h"
#include "tests/fuzz/fuzz.h"

enum { RANKS = 256 };

static struct capo_topology *machine(void)
{
        static struct capo_topology *t;
        char why[256];

        if (!t)
                must(capo_topology_made("gb200-nvl72", 0, &t, why, sizeof why) == 0);
        return t;
}

static void gpus(const char *text, unsigned how)
{
        static const uint16_t devs[] = {0, 1, 2, 3, 4, 5, 6, 7};
        const struct capo_gpus_of of = {"m", devs, how & 1 ? 8 : 0, RANKS, NULL, NULL};
        struct capo_plan_gpu ranks[RANKS], again[RANKS];
        char why[256] = "", out[8192];
        size_t n, m;

        if (capo_plan_ranks_parse(text, how & 2, &of, ranks, RANKS, &n, why, sizeof why) < 0) {
                must(*why);
                return;
        }
        must(n > 0 && n <= RANKS);
        capo_plan_gpus_print(ranks, n, out, sizeof out);
        if (!strstr(out, " x ")) /* nodes alike in a row are written once, for people */
                must(capo_plan_ranks_parse(out, false, &of, again, RANKS, &m, why, sizeof why) ==
                             0 &&
                     m == n);
}

static void allocation(const char *text, unsigned how)
{
        struct capo_alloc alloc;
        struct capo_layout layout;
        char why[256] = "";

        if (capo_alloc_parse(machine(), text, how & 1, &alloc, why, sizeof why) < 0) {
                must(*why);
                return;
        }
        for (int i = 0; i < alloc.n_ranks; i++)
                must(alloc.ranks[i].node < alloc.n_nodes &&
                     alloc.ranks[i].gpu < (int)machine()->n_gpus);
        capo_alloc_layout(&alloc, &layout);
        must(layout.n_ranks <= (uint32_t)alloc.n_ranks);
        capo_alloc_free(&alloc);
}

static void layout(const char *text, unsigned how)
{
        struct capo_layout l, again;
        char out[CAPO_LAYOUT_TEXT];
        const char *at = text;

        if ((how & 1 ? capo_layout_parse_slurm(text, &l) : capo_layout_parse(text, &l, &at)) < 0) {
                must(at >= text && at <= text + strlen(text));
                return;
        }
        if (how & 2) { /* what NCCL tells beside it */
                const struct capo_layout_reported reported = {
                        (int)l.n_ranks, (int)l.n_nodes, how & 4 ? 1 : (int)l.runs[0].ranks,
                        how & 8 ? 9 : (int)l.runs[l.n_runs - 1].ranks};
                struct capo_layout_why why;

                must(capo_layout_of_comm(how & 4 ? &l : NULL, &reported, &again, &why) < 0 ||
                     again.n_ranks == l.n_ranks);
                must(*why.text);
        }
        must(l.n_nodes && l.n_runs && l.n_runs <= CAPO_LAYOUT_RUNS);
        capo_layout_print(&l, out, sizeof out);
        must(capo_layout_parse(out, &again, NULL) == 0 && capo_layout_equal(&l, &again));
}

static void sizes(const char *text, unsigned how)
{
        uint64_t bytes[64], from, to;
        char why[256] = "", out[16];
        long n = capo_plan_sizes_parse(text, bytes, N_ELEMENTS(bytes), why, sizeof why);

        must(n < 0 ? *why : n <= (long)N_ELEMENTS(bytes));
        if (capo_size_range(text, &from, &to) == 0)
                must(from <= to);
        if (capo_size_parse(text, &from) == 0 && how & 1)
                must(capo_size_parse(capo_size_print(from, out, sizeof out), &to) == 0 ||
                     from == UINT64_MAX);
}

static void release(const char *text, unsigned how)
{
        char out[16], busid[CAPO_BUSID_ROOM], again[CAPO_BUSID_ROOM];
        const char *end;
        int first, last;

        if (capo_nccl_parse(text, &first, &last, how & 1 ? &end : NULL) == 0) {
                must(first <= last);
                capo_nccl_text((uint32_t)first, out, sizeof out);
        }
        if (capo_busid_canonical(text, busid) == 0)
                must(capo_busid_canonical(busid, again) == 0 && !strcmp(busid, again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static void (*const kinds[])(const char *text, unsigned how) = {gpus, allocation, layout,
                                                                        sizes, release};
        struct fuzz_bytes b = {data, size};
        unsigned what = (unsigned)fuzz_number(&b, 1);
        char *text = fuzz_text(b.at, b.left);

        kinds[(what >> 4) % N_ELEMENTS(kinds)](text, what & 15);
        free(text);
        return 0;
}
