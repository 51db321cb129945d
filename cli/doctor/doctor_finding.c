/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/text.h"
#include "core/base/xalloc.h"
#include "cli/doctor/doctor.h"

const char *capo_finding_word(enum capo_finding_level level)
{
        static const char *const words[] = {"ok", "note", "warn", "FAIL"};

        return words[level];
}

void capo_finding_add(struct capo_findings *f, enum capo_finding_level level, const char *topic,
                      const char *format, ...)
{
        struct capo_finding row = {.level = level};
        va_list args;

        xarray_room(&f->rows, f->n, sizeof row);
        va_start(args, format);
        row.text = capo_print(format, args);
        va_end(args);
        row.topic = xstrdup(topic);
        if (!row.text || !row.topic) {
                free(row.text);
                free(row.topic);
                return;
        }
        f->rows[f->n++] = row;
}

void capo_findings_finish(struct capo_findings *f)
{
        for (size_t i = 0; i < f->n; i++) {
                free(f->rows[i].topic);
                free(f->rows[i].text);
        }
        free(f->rows);
        *f = (struct capo_findings){0};
}
