/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "layouts" in the JSON form of a profile: an object per layout, with a pair [us, GB/s] per
 * collective. Ring/Simple, because that cell is linear in the size from 4 KiB per rank on and
 * offered for every collective (core/profile/seen.h).
 */
#include <errno.h>

#include "core/base/calls.h"
#include "core/base/layout.h"
#include "core/profile/profile_file.h"
#include "core/profile/range.h"
#include "core/base/util.h"

enum { KEY_LAYOUT, KEY_NCCL, KEY_GPUS, KEY_COLLS };
static const struct capo_slice keys[] = {
        CAPO_SLICE("layout"),
        CAPO_SLICE("nccl"),
        CAPO_SLICE("gpus"),
#define CAPO_COLL(id, word, long_word, place, size) [KEY_COLLS + (place)] = CAPO_SLICE(word),
#include "capo/collectives.def"
};

static bool read_pair(struct capo_json *r, double *us, double *gbs)
{
        static const char what[] = "[microseconds, GB/s], both above 0";
        const char *where = capo_json_here(r);
        double v[2] = {0};
        int n = 0;

        if (!capo_json_open(r, '[', what))
                return false;
        while (capo_json_item(r)) {
                if (n == 2)
                        return capo_json_fail(r, where, "%s", what);
                if (!capo_json_number(r, &v[n++], what))
                        return false;
        }
        if (r->failed)
                return false;
        if (n != 2 || !(v[0] > 0 && v[0] < 1e9 && v[1] > 0 && v[1] < 1e9))
                return capo_json_fail(r, where, "%s", what);
        *us = v[0];
        *gbs = v[1];
        return true;
}

static bool read_layout(struct capo_json *r, struct capo_profile *p)
{
        char layout[CAPO_LAYOUT_TEXT], gpus[512];
        struct capo_layout_cost c = {.nccl = CAPO_ANY};
        struct capo_layout parsed;
        uint32_t seen = 0;
        const char *start, *where;
        int k, e;

        start = capo_json_here(r);
        c.line = r->line;
        if (!capo_json_open(r, '{', "a layout's costs, {\"layout\": ...}"))
                return false;
        while ((k = capo_json_next(r, keys, N_ELEMENTS(keys), &seen)) >= 0) {
                switch (k) {
                case KEY_LAYOUT:
                        where = capo_json_here(r);
                        if (capo_json_text(r, layout, sizeof layout,
                                           "ranks per node such as \"3+5\"") &&
                            capo_layout_parse(layout, &parsed, NULL) < 0)
                                capo_json_fail(r, where, "ranks per node such as \"3+5\"");
                        c.layout = layout;
                        break;
                case KEY_NCCL: capo_range_read(r, CAPO_RANGE_NCCL, &c.nccl); break;
                case KEY_GPUS:
                        capo_json_text(r, gpus, sizeof gpus, "a text of at most 511 bytes");
                        c.gpus = gpus;
                        break;
                default:
                        read_pair(r, &c.us[capo_coll_at((unsigned)k - KEY_COLLS)],
                                  &c.gbs[capo_coll_at((unsigned)k - KEY_COLLS)]);
                }
        }
        if (r->failed)
                return false;
        if (!(seen & 1u << KEY_LAYOUT) || !(seen >> KEY_COLLS))
                return capo_json_fail(r, start,
                                      "the key layout and the cost of a collective in this entry");
        e = capo_profile_layout(p, &c);
        return e == 0 ||
               capo_json_fail(r, start,
                              e == -ENOMEM ? "enough memory" : "a layout and costs above 0");
}

bool capo_profile_read_layouts(struct capo_json *r, struct capo_profile *p)
{
        if (capo_json_open(r, '[', "a list of layouts")) {
                while (capo_json_item(r) && read_layout(r, p))
                        ;
        }
        return !r->failed;
}

void capo_profile_put_layouts(FILE *out, const struct capo_profile *p)
{
        char text[40], range[100];

        if (!p->n_layouts)
                return;
        fputs(",\n  \"layouts\": [", out);
        for (uint32_t i = 0; i < p->n_layouts; i++) {
                const struct capo_layout_cost *c = &p->layouts[i];

                fprintf(out, "%s\n    {\"layout\": \"%s\"", i ? "," : "", c->layout);
                if (c->nccl.max >= 0) {
                        capo_range_print(CAPO_RANGE_NCCL, c->nccl, range, sizeof range);
                        fprintf(out, ", \"nccl\": \"%s\"", range);
                }
                if (c->gpus) {
                        fputs(", \"gpus\": ", out);
                        capo_text_put(out, c->gpus);
                }
                for (unsigned k = 0; k < CAPO_COLLS; k++) {
                        enum capo_coll coll = capo_coll_at(k);

                        if (!c->gbs[coll])
                                continue;
                        fprintf(out, ", \"%s\": [%s, ", keys[KEY_COLLS + k].at,
                                capo_number_print(c->us[coll], text, sizeof text));
                        fprintf(out, "%s]", capo_number_print(c->gbs[coll], text, sizeof text));
                }
                fputs("}", out);
        }
        fputs("\n  ]", out);
}
