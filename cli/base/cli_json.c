/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cli/base/cli_json.h"
#include "core/base/markup.h"
#include "core/base/nccl_release.h"
#include "core/base/plain_text.h"
#include "core/base/xalloc.h"
#include "core/base/clock_reasons.h"

json_t *cli_json_real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

/* Six significant digits: measurements are no better, and 17 digits are hard to read. */
json_t *cli_json_number(double v)
{
        char text[40];

        if (!isfinite(v))
                return json_null();
        snprintf(text, sizeof text, "%.6g", v);
        return json_real(strtod(text, NULL));
}

json_t *cli_json_known(double value) { return value < 0 ? json_null() : json_real(value); }

json_t *cli_json_text(const char *s)
{
        json_t *j = s ? json_string(s) : json_null();

        if (!j && s) {
                _cleanup_free_ char *clean = xstrdup(s);

                for (unsigned char *at = (unsigned char *)clean; *at;) {
                        size_t size = *at < 0x80 ? 1 : capo_utf8_size(at, 4);

                        if (!size || size == CAPO_UTF8_CUT) {
                                *at = '?';
                                size = 1;
                        }
                        at += size;
                }
                j = json_string(clean);
        }
        return j;
}

json_t *cli_json_gpus(const struct capo_plan_gpu *gpus, size_t n)
{
        json_t *list = json_array();

        for (size_t i = 0; i < n; i++)
                json_array_append_new(list, json_pack("[i, i]", gpus[i].node, gpus[i].dev));
        return list;
}

static json_t *above_zero(double value) { return value > 0 ? json_real(value) : json_null(); }

json_t *cli_json_cause(const struct capo_late_cause *cause)
{
        const struct capo_gpu_clocks *c = &cause->clocks;
        json_t *reasons, *clocks = json_null();

        if (cause->by == CAPO_CAUSE_UNKNOWN)
                return json_null();
        if (c->samples) {
                reasons = json_object();
                for (int i = 0; i < CAPO_CLOCK_REASONS; i++) {
                        if (c->reason[i])
                                json_object_set_new(reasons, capo_clock_reason_name(i),
                                                    json_integer((json_int_t)c->reason[i]));
                }
                clocks = json_pack("{s:b, s:i, s:i, s:f, s:i, s:o, s:i, s:i, s:o}", "now",
                                   cause->now, "looks", (int)c->samples, "busy", (int)c->busy,
                                   "mhz", capo_gpu_clocks_sm(c), "least_mhz", (int)c->sm_least,
                                   "others_mhz", above_zero(cause->others_mhz), "max_mhz",
                                   (int)c->max_mhz, "celsius", (int)c->celsius, "reasons", reasons);
        }
        return json_pack("{s:s, s:b, s:o, s:o, s:o}", "by", capo_cause_name(cause->by), "throttled",
                         cause->throttled, "clocks", clocks, "sends_us",
                         above_zero(cause->sends_ns / 1e3), "others_sends_us",
                         above_zero(cause->others_sends_ns / 1e3));
}

json_t *cli_json_bug(const struct capo_known_bug *b, const char *match)
{
        char first[16], fixed[16];

        capo_nccl_text((uint32_t)b->first, first, sizeof first);
        capo_nccl_text((uint32_t)b->fixed, fixed, sizeof fixed);
        return json_pack("{s:s, s:s, s:s?, s:s?, s:s, s:s, s:s, s:s?}", "of",
                         capo_bug_software(b->of), "does", capo_bug_does(b->effect), "first",
                         b->first ? first : NULL, "fixed", b->fixed < CAPO_NCCL_LAST ? fixed : NULL,
                         "when", b->when, "advice", b->advice, "link", b->link, "match", match);
}

int cli_json_print(FILE *out, json_t *page, size_t flags)
{
        json_dumpf(page, out, flags);
        fputc('\n', out);
        json_decref(page);
        return 0; /* the caller that closes the file reports a full device */
}

void cli_json_csv_value(FILE *out, const json_t *value)
{
        const char *text = json_string_value(value);

        if (text && strcmp(text, "-")) /* capo's own "-" is no formula */
                capo_markup_csv(out, text);
        else if (text)
                fputs(text, out);
        else if (json_is_boolean(value))
                fprintf(out, "%d", json_is_true(value));
        else if (json_is_integer(value))
                fprintf(out, "%lld", (long long)json_integer_value(value));
        else if (json_is_real(value))
                fprintf(out, "%.6g", json_real_value(value));
}

/* Add the scalars of @node; those of objects in it as "object_scalar". */
static void add_scalars(json_t *row, json_t *node, const char *before)
{
        json_t *item;
        const char *key;
        char name[128];

        json_object_foreach(node, key, item)
        {
                snprintf(name, sizeof name, "%s%s%s", before, *before ? "_" : "", key);
                if (json_is_object(item))
                        add_scalars(row, item, name);
                else if (!json_is_array(item))
                        json_object_set(row, name, item);
        }
}

/* Collect the objects at the end of @path, each with the scalars of its enclosing objects. */
static void collect_rows(json_t *node, const char *path, const json_t *around, json_t *rows)
{
        char name[64];
        int n = (int)strcspn(path, ".");
        json_t *own, *item;
        size_t i;

        json_array_foreach(node, i, item) collect_rows(item, path, around, rows);
        if (!json_is_object(node))
                return;
        own = json_copy((json_t *)(uintptr_t)around);
        add_scalars(own, node, "");
        snprintf(name, sizeof name, "%.*s", n, path);
        if (n)
                collect_rows(json_object_get(node, name), path + n + (path[n] == '.'), own, rows);
        else
                json_array_append(rows, own);
        json_decref(own);
}

int cli_json_csv(FILE *out, json_t *page, const char *path)
{
        char name[64];
        int n = (int)strcspn(path, ".");
        json_t *none = json_object(), *rows = json_array(), *row, *value;
        const char *key;
        size_t i, at = 0;

        snprintf(name, sizeof name, "%.*s", n, path);
        collect_rows(json_object_get(page, name), path + n + (path[n] == '.'), none, rows);
        json_object_foreach(json_array_get(rows, 0), key, value)
                fprintf(out, "%s%s", at++ ? "," : "", key);
        fputs(at ? "\n" : "", out);
        json_array_foreach(rows, i, row)
        {
                at = 0;
                json_object_foreach(json_array_get(rows, 0), key, value)
                {
                        fputs(at++ ? "," : "", out);
                        cli_json_csv_value(out, json_object_get(row, key));
                }
                fputc('\n', out);
        }
        json_decref(none);
        json_decref(rows);
        json_decref(page);
        return 0;
}
