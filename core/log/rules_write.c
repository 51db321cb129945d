/* SPDX-License-Identifier: Apache-2.0 */
#include "core/log/rules.h"

void capo_rules_put(FILE *out, const char *key, const char *format, ...)
{
        va_list args;

        fprintf(out, "%s\t", key);
        va_start(args, format);
        vfprintf(out, format, args);
        va_end(args);
        fputc('\n', out);
}

void capo_rules_put_row(FILE *out, const struct capo_rules_row *row)
{
        if (row->candidate)
                fprintf(out, "%s\t%u\t%s\t%s\t%u", CAPO_RULES_CANDIDATE, row->rule, row->algo,
                        row->proto, row->channels);
        else
                fprintf(out, "%s\t%u\t%u\t%s\t%s\t%" PRIu64 "\t%" PRIu64 "\t%s\t%s\t%u%s%s",
                        CAPO_RULES_ROW, row->rule, row->line, row->when, row->coll, row->from,
                        row->upto, row->algo, row->proto, row->channels,
                        *row->turned || row->chunk ? "\t" : "", row->turned);
        if (row->chunk)
                fprintf(out, "\t%u", row->chunk);
        putc('\n', out);
}
