/* SPDX-License-Identifier: Apache-2.0 */
#include "capo/call_ids.h"
#include "core/base/among.h"
#include "core/base/xalloc.h"
#include "analysis/watch/live_rows.h"

#define LATELY_NS 60000000000

enum { SMALLEST = 10 }; /* log2 of the first class's end; each next end is four times larger */

static unsigned size_class(uint64_t bytes)
{
        unsigned log2 = bytes ? 63 - (unsigned)__builtin_clzll(bytes) : 0,
                 class = !bytes            ? 0
                         : log2 < SMALLEST ? 1
                                           : 2 + (log2 - SMALLEST) / 2;

        return class < CAPO_LIVE_SIZES ? class : CAPO_LIVE_SIZES - 1;
}

/* 1024 << 2k as "1KiB", "4KiB", "1MiB". */
static char *end_text(unsigned log2, char *text, size_t room)
{
        static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};

        snprintf(text, room, "%u%s", 1u << log2 % 10, units[log2 / 10]);
        return text;
}

char *capo_live_size_text(unsigned size, char *text)
{
        char from[16], to[16];
        unsigned end = SMALLEST + 2 * (size - 1);

        if (!size)
                snprintf(text, 32, "0");
        else if (size >= CAPO_LIVE_SIZES)
                snprintf(text, 32, "any");
        else if (size == CAPO_LIVE_SIZES - 1)
                snprintf(text, 32, "%s-", end_text(end - 2, from, sizeof from));
        else
                snprintf(text, 32, "%s-%s", size == 1 ? "1B" : end_text(end - 2, from, sizeof from),
                         end_text(end, to, sizeof to));
        return text;
}

/* A name that does not change when communicators are added: those that capo numbers are named by
 * their ranks. */
static void name_of_comm(const struct capo_job *job, uint32_t comm, char *text)
{
        const struct capo_job_comm *c = comm == CAPO_NO_COMM ? NULL : &job->comms[comm], *top = c;
        size_t n;

        while (top && top->parent < (uint32_t)(top - job->comms))
                top = &job->comms[top->parent];
        n = c ? strcspn(c->name, "#") : 0;
        if (!c)
                snprintf(text, CAPO_LIVE_NAME, "-");
        else if (!top->named && !strncmp(top->name, "comm", 4))
                snprintf(text, CAPO_LIVE_NAME, "%d ranks%.*s", c->n_ranks,
                         top == c ? 0 : (int)(n - strcspn(c->name, "/#")),
                         c->name + strcspn(c->name, "/#"));
        else
                snprintf(text, CAPO_LIVE_NAME, "%.*s", (int)n, c->name);
}

static void zero_row(struct capo_live_row *row)
{
        capo_hist_finish(&row->host);
        capo_hist_finish(&row->gpu);
        row->host = row->gpu = (struct capo_hist){0};
        row->calls = row->bytes = 0;
        row->total_ns = row->busbw = 0;
        row->reached = -1;
}

static struct capo_live_row *find_row(struct capo_live_rows *rows, const char *comm, uint8_t call,
                                      uint8_t size)
{
        return FIRST_OF(r, rows->row, rows->n,
                        r->call == call && r->size == size && !strcmp(r->comm, comm));
}

/* The row with that key, made if there is room; else the row of the rest. */
static struct capo_live_row *place_row(struct capo_live_rows *rows, const struct capo_job *job,
                                       const struct capo_job_row *of, uint64_t bytes, bool make)
{
        uint8_t size = (uint8_t)size_class(bytes);
        char comm[CAPO_LIVE_NAME];
        struct capo_live_row *row;

        name_of_comm(job, of->comm, comm);
        row = find_row(rows, comm, of->call, size);
        if (!row && rows->n >= CAPO_LIVE_ROWS) {
                snprintf(comm, sizeof comm, CAPO_LIVE_OTHERS);
                size = CAPO_LIVE_SIZES;
                row = find_row(rows, comm, of->call, size);
        }
        if (row || !make)
                return row;
        row = xput(rows->row, rows->n, .call = of->call, .size = size, .reached = -1);
        memcpy(row->comm, comm, sizeof row->comm);
        return row;
}

/* Members of a group count as calls; their time is the group's. */
static void add_row(struct capo_live_row *row, const struct capo_job_row *of)
{
        bool group = of->call == CAPO_CALL_GROUP;

        capo_hist_merge(&row->host, &of->time[CAPO_CLOCK_HOST]);
        row->calls += of->calls;
        row->bytes += group ? 0 : of->calls * of->bytes;
        row->total_ns += of->flags & CAPO_RECORD_MEMBER ? 0 : capo_job_row_total_ns(of);
        capo_hist_merge(&row->gpu, &of->time[CAPO_CLOCK_EVENT]);
        capo_hist_merge(&row->gpu, &of->time[CAPO_CLOCK_KERNEL]);
}

/* If a class has several sizes, use the bandwidth of the one with most time. */
static void rate_rows(struct capo_live_rows *rows, const struct capo_page *page)
{
        double most[2 * CAPO_LIVE_ROWS] = {0};

        for (uint32_t i = 0; i < page->judged.n; i++) {
                const struct capo_page_row *p = &page->judged.row[i];
                struct capo_live_row *row =
                        p->has_bandwidth ? place_row(rows, page->job, &p->row, p->bytes_max, false)
                                         : NULL;
                uint32_t at = row ? (uint32_t)(row - rows->row) : 0;

                if (!row || !strcmp(row->comm, CAPO_LIVE_OTHERS) || at >= 2 * CAPO_LIVE_ROWS ||
                    p->total_ns < most[at])
                        continue;
                most[at] = p->total_ns;
                row->busbw = p->busbw;
                row->reached = p->reached;
        }
}

/* Bandwidths are since the start of the job: scale them by how long calls took lately. */
static void rate_lately(struct capo_live_row *row, uint64_t now_ns)
{
        struct capo_live_since now = {now_ns, row->gpu.count, row->gpu.sum_ns}, *then = row->since;
        double calls, sum;

        if (now.calls < then[1].calls) /* a process ended */
                then[0] = then[1] = now;
        if (now_ns >= then[1].at_ns + LATELY_NS) {
                then[0] = then[1];
                then[1] = now;
        }
        calls = (double)(now.calls - then[0].calls);
        sum = (double)(now.sum_ns - then[0].sum_ns);
        if (calls <= 0 || sum <= 0) {
                row->busbw = 0;
                row->reached = -1;
                return;
        }
        row->busbw *= capo_hist_mean(&row->gpu) / (sum / calls);
        if (row->reached >= 0)
                row->reached *= capo_hist_mean(&row->gpu) / (sum / calls);
}

void capo_live_rows_update(struct capo_live_rows *rows, const struct capo_page *page,
                           uint64_t now_ns)
{
        for (uint32_t i = 0; i < rows->n; i++)
                zero_row(&rows->row[i]);
        for (uint32_t i = 0; i < page->job->n_rows; i++) {
                const struct capo_job_row *of = &page->job->rows[i];

                add_row(place_row(rows, page->job, of, of->bytes, true), of);
        }
        rate_rows(rows, page);
        for (uint32_t i = 0; i < rows->n; i++)
                rate_lately(&rows->row[i], now_ns);
}

void capo_live_rows_finish(struct capo_live_rows *rows)
{
        for (uint32_t i = 0; i < rows->n; i++)
                zero_row(&rows->row[i]);
        free(rows->row);
        *rows = (struct capo_live_rows){0};
}
