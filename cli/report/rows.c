/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows are shown, what is put together, in which order; and how rows, sizes and call sites are written. */
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/report.h"
#include "core/log/rules.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/util.h"

static bool wanted(const struct report *r, const struct report_options *o, const struct capo_job_row *row)
{
        if (o->call && row->call != o->call)
                return false;
        return !o->comm || (row->comm != CAPO_NO_COMM && fnmatch(o->comm, r->job->comms[row->comm].name, 0) == 0);
}

static bool moves_data(const struct capo_job_row *row)
{
        return capo_call_kind(row->call) != CAPO_KIND_OTHER;
}

enum { MANY_SIZES = 16, NEAR = 256, MANY_COMMS = 8 };

/* Communicators that do the same for other ranks: of one size, and of one given name, or made as the same of their
 * processes' communicators (each rank's second is its tensor-parallel group, and so on). */
static bool alike(const struct capo_job_comm *a, const struct capo_job_comm *b)
{
        size_t na = strcspn(a->name, "#"), nb = strcspn(b->name, "#");

        if (a->n_ranks != b->n_ranks || a->named != b->named || !a->n_members || !b->n_members)
                return false;
        if (a->named)
                return na == nb && !strncmp(a->name, b->name, na);
        return a->members[0].id == b->members[0].id && (a->parent == CAPO_NO_COMM) == (b->parent == CAPO_NO_COMM);
}

static int classify_comms(struct report *r, bool together)
{
        uint32_t n = r->job->n_comms;

        r->class_of = calloc(n + 1, sizeof *r->class_of);
        r->class_size = calloc(n + 1, sizeof *r->class_size);
        if (!r->class_of || !r->class_size)
                return -ENOMEM;
        for (uint32_t i = 0; i < n; i++) {
                uint32_t k = together && n > MANY_COMMS ? 0 : i;

                while (k < i && (r->class_of[k] != k || !alike(&r->job->comms[k], &r->job->comms[i])))
                        k++;
                r->class_of[i] = k;
                r->class_size[k]++;
        }
        return 0;
}

/* A row of the job, and the communicator it is shown under. */
struct place {
        const struct capo_job_row *row;
        uint32_t comm;
};

static int by_place(const void *a, const void *b)
{
        const struct place *x = a, *y = b;

        if (x->comm != y->comm)
                return x->comm < y->comm ? -1 : 1;
        if (x->row->call != y->row->call)
                return x->row->call - y->row->call;
        if (x->row->bytes != y->row->bytes)
                return x->row->bytes < y->row->bytes ? -1 : 1;
        return x->row < y->row ? -1 : x->row > y->row; /* the job's own order, which is by key */
}

/* Which rows belong together when not everything is shown: sizes of one power of two, when there are many sizes. */
static bool belongs(const struct capo_job_row *a, const struct place *place, bool ranges)
{
        const struct capo_job_row *b = place->row;
        bool same_size = a->bytes == b->bytes;

        if (ranges && a->bytes && b->bytes)
                same_size = __builtin_clzll(a->bytes) == __builtin_clzll(b->bytes);
        return same_size && a->comm == place->comm && a->call == b->call && a->algo_proto == b->algo_proto &&
               a->channels == b->channels && a->flags == b->flags;
}

/* Different sizes of the call at places[i], which are together; *end is behind its last row. */
static uint32_t count_sizes(const struct place *places, uint32_t n_places, uint32_t i, uint32_t *end)
{
        uint32_t n = 1, k = i + 1;

        for (; k < n_places && places[k].comm == places[i].comm && places[k].row->call == places[i].row->call; k++)
                n += places[k].row->bytes != places[k - 1].row->bytes;
        *end = k;
        return n;
}

static int add_row(struct report *r, const struct place *place, uint32_t first, bool ranges)
{
        const struct capo_job_row *row = place->row;
        struct report_row *to = NULL;
        uint64_t moved = row->count * row->bytes;

        /* rows come sorted by size, so what this one belongs to is near */
        for (uint32_t i = r->n_rows; i-- > first && r->n_rows - i <= NEAR && !to;) {
                if (belongs(&r->rows[i].row, place, ranges))
                        to = &r->rows[i];
        }
        if (!to) {
                to = &r->rows[r->n_rows++];
                *to = (struct report_row){.row = *row};
                to->row.comm = place->comm;
                memset(to->row.time, 0, sizeof to->row.time);
                to->row.calls = to->row.count = to->row.failed = 0;
        }
        to->bytes_max = row->bytes > to->bytes_max ? row->bytes : to->bytes_max;
        for (unsigned c = 0; c < CAPO_CLOCKS; c++)
                to->timed_bytes[c] += (double)row->bytes * (double)row->time[c].count;
        if (!(row->flags & CAPO_RECORD_GROUP)) {
                r->collectives += row->count;
                r->moved_bytes += moved;
        }
        return capo_job_row_merge(&to->row, row);
}

static bool on_gpu(enum capo_clock clock)
{
        return clock == CAPO_CLOCK_EVENT || clock == CAPO_CLOCK_KERNEL;
}

/* The numbers of each row, and their shares: of GPU time where the job has any, else of host time. */
static void rate_rows(struct report *r)
{
        double gpu_ns = 0, sum = 0;

        for (uint32_t i = 0; i < r->n_rows; i++) {
                struct report_row *row = &r->rows[i];

                row->clock = capo_job_row_clock(&row->row);
                row->total_ns = capo_job_row_total_ns(&row->row);
                if (on_gpu(row->clock)) {
                        r->gpu = true;
                        gpu_ns += row->total_ns;
                }
                row->has_bandwidth = capo_job_row_bandwidth(r->job, &row->row, &row->algbw, &row->busbw);
                if (row->has_bandwidth && row->row.bytes != row->bytes_max) {
                        double factor = row->busbw / row->algbw;

                        row->algbw = row->timed_bytes[row->clock] / (double)row->row.time[row->clock].sum_ns;
                        row->busbw = row->algbw * factor;
                }
        }
        for (uint32_t i = 0; i < r->n_rows; i++) {
                if (on_gpu(r->rows[i].clock) || !r->gpu)
                        sum += r->rows[i].total_ns;
        }
        for (uint32_t i = 0; i < r->n_rows; i++)
                r->rows[i].share =
                        (on_gpu(r->rows[i].clock) || !r->gpu) && sum > 0 && r->rows[i].clock != CAPO_CLOCK_NONE
                                ? r->rows[i].total_ns / sum
                                : -1;
        r->gpu_share = -1;
        if (r->gpu && capo_job_duration_ns(r->job))
                r->gpu_share = gpu_ns / ((double)capo_job_duration_ns(r->job) * r->job->n_processes);
}

static double sort_value(const struct report_row *row, enum report_sort key)
{
        const struct capo_hist *h = &row->row.time[row->clock];

        switch (key) {
        case BY_COUNT: return (double)row->row.count;
        case BY_SIZE: return (double)row->row.bytes;
        case BY_P50: return capo_hist_quantile(h, 0.5);
        case BY_P95: return capo_hist_quantile(h, 0.95);
        case BY_P99: return capo_hist_quantile(h, 0.99);
        case BY_MAX: return (double)h->max_ns;
        case BY_ALGBW: return row->has_bandwidth ? row->algbw : -1;
        case BY_BUSBW: return row->has_bandwidth ? row->busbw : -1;
        case BY_COMM:
        case BY_CALL: return 0;
        default: return row->share >= 0 ? row->share : row->total_ns / 1e30 - 1; /* those without a share behind */
        }
}

static enum report_sort sorting_by;

/* Largest first; names and sizes rising where those are asked for, and where all else is equal. */
static int by_key(const void *a, const void *b)
{
        const struct report_row *x = a, *y = b;
        double vx = sort_value(x, sorting_by), vy = sort_value(y, sorting_by);

        if (vx != vy)
                return (vx > vy ? -1 : 1) * (sorting_by == BY_SIZE ? -1 : 1);
        if (sorting_by == BY_CALL && x->row.call != y->row.call)
                return x->row.call - y->row.call;
        if (x->row.comm != y->row.comm)
                return x->row.comm < y->row.comm ? -1 : 1;
        if (x->row.call != y->row.call)
                return x->row.call - y->row.call;
        if (x->row.bytes != y->row.bytes)
                return x->row.bytes < y->row.bytes ? -1 : 1;
        if (x->row.algo_proto != y->row.algo_proto)
                return x->row.algo_proto - y->row.algo_proto;
        if (x->row.channels != y->row.channels)
                return x->row.channels - y->row.channels;
        return x->row.flags - y->row.flags;
}

int report_choose_rows(struct report *r, const struct report_options *o)
{
        const struct capo_job *job = r->job;
        _cleanup_free_ struct place *places = calloc(job->n_rows + 1, sizeof *places);
        bool together = o->format == REPORT_TEXT && !o->all;
        uint32_t n = 0, end;

        r->rows = calloc(job->n_rows + 1, sizeof *r->rows);
        r->others = calloc(job->n_rows + 1, sizeof *r->others);
        if (!places || !r->rows || !r->others || classify_comms(r, together) < 0)
                return -ENOMEM;
        for (uint32_t i = 0; i < job->n_rows; i++) {
                const struct capo_job_row *row = &job->rows[i];

                if (wanted(r, o, row))
                        places[n++] =
                                (struct place){row, row->comm == CAPO_NO_COMM ? CAPO_NO_COMM : r->class_of[row->comm]};
        }
        qsort(places, n, sizeof *places, by_place);
        for (uint32_t i = 0; i < n; i = end) {
                bool ranges = count_sizes(places, n, i, &end) > MANY_SIZES && together;
                uint32_t first = r->n_rows;

                for (uint32_t k = i; k < end; k++) {
                        if (!moves_data(places[k].row))
                                r->others[r->n_others++] = (struct report_row){
                                        .row = *places[k].row, .clock = capo_job_row_clock(places[k].row)};
                        else if (add_row(r, &places[k], first, ranges) < 0)
                                return -ENOMEM;
                }
        }
        rate_rows(r);
        sorting_by = o->sort;
        qsort(r->rows, r->n_rows, sizeof *r->rows, by_key);
        return 0;
}

/* ---- small texts the faces share ---- */

const char *report_comm_name(const struct report *r, uint32_t comm)
{
        return comm == CAPO_NO_COMM ? "-" : r->job->comms[comm].name;
}

char *report_comm_label(const struct report *r, uint32_t comm, char *text, size_t room)
{
        const struct capo_job_comm *c = comm == CAPO_NO_COMM ? NULL : &r->job->comms[comm];
        bool many = c && r->class_size[comm] > 1;
        int n = snprintf(text, room, "%.*s%s", many ? (int)strcspn(c->name, "#") : 200, c ? c->name : "-",
                         many && !c->named ? ".." : "");

        if (c && c->n_ranks > 0)
                n += snprintf(text + n, room - (size_t)n, " (%d)", c->n_ranks);
        if (many)
                snprintf(text + n, room - (size_t)n, " x%u", r->class_size[comm]);
        return text;
}

char *report_size(const struct report_row *row, char *text, size_t room)
{
        char from[32], to[32];
        size_t n;

        if (row->row.bytes == row->bytes_max)
                return capo_size_print(row->row.bytes, text, room);
        capo_size_print(row->row.bytes, from, sizeof from);
        capo_size_print(row->bytes_max, to, sizeof to);
        n = strcspn(from, " ");
        if (!strcmp(from + n, to + strcspn(to, " ")))
                from[n] = 0; /* "1-1.9 MiB" */
        snprintf(text, room, "%s-%s", from, to);
        return text;
}

const char *report_call(const struct capo_job_row *row, char *text, size_t room)
{
        snprintf(text, room, "%s%s%s", capo_call_name(row->call), row->flags & CAPO_RECORD_MEMBER ? " in group" : "",
                 row->flags & CAPO_RECORD_CAPTURED ? " captured" : "");
        return text;
}

/* What a frame is called in one line: the function without its offset and file; where there is none, the file and the
 * place in it; a Python frame as it is. */
static size_t frame_name(const char *frame, size_t length)
{
        size_t word = strcspn(frame, " \n"), plus = strcspn(frame, "+ \n");

        if (memmem(frame, length, ".py:", 4))
                return length;
        return word < length && frame[word] == ' ' ? plus : word;
}

/* The C library's way into main() and into threads says nothing about the job. */
static bool is_start_up(const char *frame)
{
        return !strncmp(frame, "libc.so", 7) || !strncmp(frame, "__libc_start", 12) || !strncmp(frame, "_start+", 7) ||
               !strncmp(frame, "libpthread", 10) || !strncmp(frame, "clone", 5) || !strncmp(frame, "start_thread", 12);
}

char *report_site_line(const struct capo_job_site *site, unsigned n, char *text, size_t room)
{
        const char *line = site->text;
        size_t at = 0;

        *text = 0;
        for (unsigned i = 0; i < n && *line && at + 1 < room;) {
                size_t length = strcspn(line, "\n");

                if (!is_start_up(line)) {
                        int wrote = snprintf(text + at, room - at, "%s%.*s", i ? " <- " : "",
                                             (int)frame_name(line, length), line);

                        at += wrote > 0 ? (size_t)wrote : 0;
                        i++;
                }
                line += length + (line[length] == '\n');
        }
        return text;
}

bool report_sites_by_gpu(const struct report *r)
{
        uint64_t gpu = 0;

        for (uint32_t i = 0; i < r->job->n_sites; i++)
                gpu += r->job->sites[i].gpu_count;
        return gpu > 0;
}

/* As with rows: calls that the GPU clock did not see last as long as the mean of those it saw. */
double report_site_time(const struct report *r, const struct capo_job_site *site)
{
        if (!report_sites_by_gpu(r))
                return (double)site->host_ns;
        return site->gpu_count ? (double)site->gpu_ns / (double)site->gpu_count * (double)site->count : 0;
}

char *report_rule_text(const char *rules, unsigned rule, char *out, size_t room)
{
        struct capo_rules_row r;
        char from[32], upto[32], channels[16] = "NCCL's";

        *out = 0;
        if (!capo_rules_find(rules, rule, &r))
                return out;
        if (r.channels)
                snprintf(channels, sizeof channels, "%u", r.channels);
        if (r.candidate)
                snprintf(out, room, "sweep candidate: %s %s, channels %u", r.algo, r.proto, r.channels);
        else
                snprintf(out, room, "line %u  %s: %s %s to %s  %s %s, channels %s", r.line, r.when, r.coll,
                         capo_size_print(r.from, from, sizeof from),
                         r.upto == UINT64_MAX ? "max" : capo_size_print(r.upto, upto, sizeof upto), r.algo, r.proto,
                         channels);
        return out;
}
