/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of a profile's conditions, read and written. */
#include <math.h>

#include "core/base/nccl_release.h"
#include "core/profile/range.h"

/* "4-8", "16-", "-4", "4" */
static bool parse_range(const char *text, struct capo_range *out)
{
        const char *dash = strchr(text, '-');
        size_t n = dash ? (size_t)(dash - text) : strlen(text);

        *out = (struct capo_range){0, INFINITY};
        if (n && !capo_number_parse(text, n, &out->min))
                return false;
        if (!dash)
                out->max = out->min;
        else if (dash[1] && !capo_number_parse(dash + 1, strlen(dash + 1), &out->max))
                return false;
        return (n || (dash && dash[1])) && out->min >= 0 && out->min <= out->max;
}

/* "2.28", "2.28.9", "2.28-2.30", "2.28-", "-2.28" */
static bool parse_versions(const char *text, struct capo_range *out)
{
        int first = 0, last = 0, unused;

        if (*text != '-' && capo_nccl_parse(text, &first, &last, &text) < 0)
                return false;
        *out = (struct capo_range){first, *text ? INFINITY : last};
        if (*text++ != '-')
                return !text[-1];
        if (*text && capo_nccl_parse(text, &unused, &last, NULL) < 0)
                return false;
        if (*text)
                out->max = last;
        return (first || *text) && out->min <= out->max;
}

bool capo_range_read(struct capo_json *r, enum capo_range_kind kind, struct capo_range *out)
{
        const char *what =
                kind == CAPO_RANGE_NCCL ? "NCCL versions like \"2.28\", \"2.28.9\" or \"2.28-2.30\""
                : kind == CAPO_RANGE_GBS ? "a number of GB/s or a range like \"15-30\""
                                         : "a whole number or a range like \"4-8\", \"16-\"";
        const char *where;
        char text[64];
        bool good;

        if (capo_json_peek(r) == '"') {
                where = r->at;
                if (!capo_json_text(r, text, sizeof text, what))
                        return false;
                good = kind == CAPO_RANGE_NCCL ? parse_versions(text, out) : parse_range(text, out);
        } else {
                where = r->at;
                if (kind == CAPO_RANGE_NCCL)
                        return capo_json_fail(r, where, "%s", what);
                if (!capo_json_number(r, &out->min, what))
                        return false;
                out->max = out->min;
                good = out->min >= 0;
        }
        if (kind == CAPO_RANGE_WHOLE && good)
                good = out->min == floor(out->min) &&
                       (isinf(out->max) || out->max == floor(out->max));
        return good || capo_json_fail(r, where, "%s", what);
}

/* One end of a range: all of a release's patches are left out. */
static void version_print(double code, bool last, char *text, size_t room)
{
        int c = (int)code;

        capo_nccl_text((uint32_t)c, text, room);
        if (c % 100 == (last ? 99 : 0))
                *strrchr(text, '.') = 0;
}

bool capo_range_print(enum capo_range_kind kind, struct capo_range v, char *text, size_t room)
{
        char a[40] = "", b[40] = "";

        if (kind == CAPO_RANGE_NCCL) {
                if (v.min > 0)
                        version_print(v.min, false, a, sizeof a);
                if (isfinite(v.max))
                        version_print(v.max, true, b, sizeof b);
                if (v.min == v.max)
                        capo_nccl_text((uint32_t)v.min, a, sizeof a);
                if (v.min == v.max || !strcmp(a, b)) {
                        snprintf(text, room, "%s", a);
                        return true;
                }
        } else {
                if (v.min > 0 || isinf(v.max))
                        capo_number_print(v.min, a, sizeof a);
                if (isfinite(v.max))
                        capo_number_print(v.max, b, sizeof b);
                if (v.min == v.max) {
                        snprintf(text, room, "%s", b);
                        return false;
                }
        }
        snprintf(text, room, "%s-%s", a, b);
        return true;
}
