/* SPDX-License-Identifier: Apache-2.0 */
/* One flat table: every tool reads it, no join is needed, and column names include units. Text with
 * a comma, a quote or a newline is quoted as in RFC 4180. */
#include <time.h>

#include "core/base/calls.h"
#include "core/base/markup.h"
#include "core/base/nccl_release.h"
#include "profiles/store/store_csv.h"

void capo_csv_heads(FILE *out)
{
        fputs("source,line,nccl,gpu,layout,nodes,ranks,collective,bytes,type,op,place,forced_algo,forced_proto,"
              "forced_channels,algo,proto,channels,clock,iterations,sequence,us,forced_chunk,began,job_id,uid\n",
              out);
}

int capo_csv_sample(FILE *out, const struct capo_sample *s, const struct capo_trial *r)
{
        static const char *const places[] = {"", "out", "in"};
        const time_t at = (time_t)r->began.at;
        char nccl[16], began[32] = ""; /* in UTC, without the Z where the zone is not known */
        struct tm tm;

        if (at && gmtime_r(&at, &tm))
                strftime(began, sizeof began,
                         r->began.local ? "%Y-%m-%dT%H:%M:%S" : "%Y-%m-%dT%H:%M:%SZ", &tm);
        capo_markup_csv(out, r->source);
        fprintf(out, ",%u,%s,", r->line, r->nccl ? capo_nccl_text(r->nccl, nccl, sizeof nccl) : "");
        capo_markup_csv(out, r->gpu);
        putc(',', out);
        capo_markup_csv(out, r->layout);
        fprintf(out, ",%d,%d,%s,%llu,%s,%s,%s,%s,%s,%u,%s,%s,%u,%s,%u,%u,%.9g,%u,%s,", r->n_nodes,
                r->n_ranks, capo_call_name(s->call), (unsigned long long)s->bytes,
                s->type == 255 ? "" : capo_type_name(s->type),
                s->op == 255 ? "" : capo_op_name(s->op), places[s->place < 3 ? s->place : 0],
                CAPO_ALGO_OF(s->want) ? capo_ran_algo(s->want) : "",
                CAPO_PROTO_OF(s->want) ? capo_ran_proto(s->want) : "", s->want_channels,
                CAPO_ALGO_OF(s->ran) ? capo_ran_algo(s->ran) : "",
                CAPO_PROTO_OF(s->ran) ? capo_ran_proto(s->ran) : "", s->ran_channels,
                capo_make_name(s->make), r->iterations, s->order, s->us, s->want_chunk, began);
        capo_markup_csv(out, r->job);
        fprintf(out, ",%s\n", r->uid);
        return ferror(out) ? -EIO : 0;
}
