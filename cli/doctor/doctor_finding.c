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

        va_start(args, format);
        row.text = capo_print(format, args);
        va_end(args);
        row.topic = xstrdup(topic);
        *xadd(f->rows, f->n) = row;
}
