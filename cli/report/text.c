/* SPDX-License-Identifier: Apache-2.0 */
/* The page: most important first, one screen, every number with its unit and its clock. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/report/report.h"
#include "core/log/rules.h"
#include "cli/report/fabric.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "cli/base/table.h"
#include "core/base/util.h"

enum { ROWS_SHOWN = 12, COMMS_SHOWN = 6, SITES_SHOWN = 5, HINTS_SHOWN = 4 };

/* Words that differ between a terminal and a pipe. */
struct style {
        const char *bold, *warn, *plain, *plus_minus;
};

static const char *info_of_any(const struct capo_job *job, const char *key)
{
        for (uint32_t i = 0; i < job->n_processes; i++) {
                const char *value = capo_job_info(&job->processes[i], key);

                if (value && *value)
                        return value;
        }
        return NULL;
}

/* Length of the folder, with its slash, of a command line's first word. */
static size_t command_folder(const char *command)
{
        size_t word = strcspn(command, " ");

        while (word && command[word - 1] != '/')
                word--;
        return word;
}

/* The job's layout is that of its largest communicator; several nodes without one are only counted. */
static void heading(const struct report *r, FILE *out, const struct style *s)
{
        const struct capo_job *job = r->job;
        const char *id = info_of_any(job, CAPO_INFO_JOB), *name = info_of_any(job, CAPO_INFO_JOB_NAME),
                   *command = info_of_any(job, CAPO_INFO_CMDLINE);
        const struct capo_job_comm *c = job->n_comms && job->comms[0].n_ranks == job->n_ranks ? &job->comms[0] : NULL;
        time_t begin = (time_t)(job->t_begin_ns / 1000000000);
        char when[64] = "", text[32];
        struct tm tm;

        if (localtime_r(&begin, &tm))
                strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm);
        fprintf(out, "%scapo report%s  ", s->bold, s->plain);
        if (id && *id)
                fprintf(out, "job %s  ", id);
        if (name && *name)
                fprintf(out, "%s  ", name);
        else if (command) /* without the folder of the program */
                fprintf(out, "%.60s  ", command + command_folder(command));
        fprintf(out, "%s  %s    %d rank%s on %u node%s", when, capo_text_time((double)capo_job_duration_ns(job), text),
                job->n_ranks, job->n_ranks == 1 ? "" : "s", job->n_nodes, job->n_nodes == 1 ? "" : "s");
        if (c && job->n_nodes > 1 && c->layout[0])
                fprintf(out, c->n_members < (uint32_t)c->n_ranks ? ", %s with a log" : ": %s", c->layout);
        fputc('\n', out);
}

/* Which GPU clocks there are, and how many of the calls of such rows they saw. */
static void gpu_times(const struct report *r, FILE *out)
{
        static const char *const names[CAPO_CLOCKS] = {"none", "host", "events", "kernel stamps"};
        bool any = false;

        fputs("GPU times: ", out);
        for (unsigned c = CAPO_CLOCK_EVENT; c < CAPO_CLOCKS; c++) {
                uint64_t timed = 0, calls = 0;

                for (uint32_t i = 0; i < r->n_rows; i++) {
                        timed += r->rows[i].row.time[c].count;
                        calls += r->rows[i].row.time[c].count ? r->rows[i].row.calls : 0;
                }
                if (!timed)
                        continue;
                fprintf(out, "%s%s", any ? "; " : "", names[c]);
                if (calls > timed + timed / 20)
                        fprintf(out, ", 1 call in %.2g", (double)calls / (double)timed);
                any = true;
        }
        fputs(any ? "" : "none, only what the host saw", out);
}

/* How the program reached NCCL, in words; INFO nccl.how has the recorder's (shim/nccl/real.c). */
static const char *reached(const char *how)
{
        static const char *const words[][2] = {
                {"next", "linked by the program"}, {"caller", "linked by a library"},
                {"noload", "linked by a library"}, {"walk", "inside another library"},
                {"dlopen", "opened by capo"},      {"dlsym", "opened at run time"},
        };

        for (size_t i = 0; i < N_ELEMENTS(words); i++) {
                if (!strcmp(how, words[i][0]))
                        return words[i][1];
        }
        return how;
}

/* What was there to be recorded, and how capo got at it. */
static void circumstances(const struct report *r, FILE *out)
{
        const char *nccl = info_of_any(r->job, CAPO_INFO_NCCL_VERSION), *how = info_of_any(r->job, CAPO_INFO_NCCL_HOW);
        const char *fabric = info_of_any(r->job, CAPO_INFO_FABRIC_VERSION),
                   *tuner = info_of_any(r->job, CAPO_INFO_NCCL_TUNER);
        const char *rules = r->job->processes[0].rules;
        char value[256];

        if (nccl)
                fprintf(out, "NCCL %s", nccl);
        else
                fputs("NCCL: not seen", out);
        if (how)
                fprintf(out, " (%s)", reached(how));
        if (fabric)
                fprintf(out, "   libfabric %s", fabric);
        if (capo_rules_value(rules, CAPO_RULES_SWEEP, value, sizeof value))
                fprintf(out, "   tuner: capo, sweeping %s   profile: none", value);
        else if ((capo_rules_value(rules, CAPO_RULES_NAME, value, sizeof value) && *value) ||
                 capo_rules_value(rules, CAPO_RULES_FILE, value, sizeof value))
                fprintf(out, "   tuner: capo   profile: %s", value);
        else
                fprintf(out, "   tuner: %s   profile: none", tuner ? tuner : "none");
        fputs("   ", out);
        gpu_times(r, out);
        fputc('\n', out);
}

static void totals(const struct report *r, FILE *out)
{
        const struct capo_job *job = r->job;
        char text[32];
        double per_rank = job->n_processes ? (double)job->calls / job->n_processes : 0;

        fprintf(out, "collectives %s", capo_text_count(r->collectives, text));
        fprintf(out, "   bytes %s", capo_size_print(r->moved_bytes, text, sizeof text));
        if (r->gpu_share >= 0)
                fprintf(out, "   on the GPU %s of the job", capo_text_percent(r->gpu_share, text));
        fprintf(out, "   dropped %s", capo_text_count(job->dropped, text));
        if (job->cost_ns > 0) {
                fprintf(out, "   capo's own cost %.0f ns/call", job->cost_ns);
                if (capo_job_duration_ns(job))
                        fprintf(out, ", %s of the job",
                                capo_text_percent(job->cost_ns * per_rank / (double)capo_job_duration_ns(job), text));
        }
        fputc('\n', out);
}

static void problems(const struct report *r, FILE *out, const struct style *s)
{
        for (uint32_t i = 0; i < r->n_problems; i++)
                fprintf(out, "%s! %s%s\n", s->warn, r->problems[i], s->plain);
}

/* Sizes in round numbers; in bytes where another row of the call would read the same. */
static char *size_text(const struct report *r, const struct report_row *row, char *text, size_t room)
{
        report_size(row, text, room);
        for (uint32_t i = 0; i < r->n_rows && r->n_rows <= 2000; i++) {
                const struct report_row *other = &r->rows[i];
                char same[64];

                if (other->row.bytes == row->row.bytes || other->row.comm != row->row.comm ||
                    other->row.call != row->row.call || strcmp(report_size(other, same, sizeof same), text) != 0)
                        continue;
                capo_text_count(row->row.bytes, text);
                return strcat(text, " B");
        }
        return text;
}

static void row_cells(const struct report *r, const struct report_row *row, struct capo_table *t)
{
        const struct capo_hist *h = &row->row.time[row->clock];
        bool timed = row->clock != CAPO_CLOCK_NONE;
        char text[64], comm[256];

        capo_table_cell(t, "%s", report_comm_label(r, row->row.comm, comm, sizeof comm));
        capo_table_cell(t, "%s", report_call(&row->row, text, sizeof text));
        capo_table_cell(t, "%s", size_text(r, row, text, sizeof text));
        capo_table_cell(t, "%s", capo_text_count(row->row.count, text));
        capo_table_cell(t, "%s", row->share >= 0 ? capo_text_percent(row->share, text) : "-");
        capo_table_cell(t, "%s", timed ? capo_text_us(capo_hist_quantile(h, 0.50), text) : "-");
        capo_table_cell(t, "%s", timed ? capo_text_us(capo_hist_quantile(h, 0.95), text) : "-");
        capo_table_cell(t, "%s", timed ? capo_text_us(capo_hist_quantile(h, 0.99), text) : "-");
        capo_table_cell(t, "%s", timed ? capo_text_us((double)h->max_ns, text) : "-");
        capo_table_cell(t, "%s", row->has_bandwidth ? capo_text_gbs(row->algbw, text) : "-");
        capo_table_cell(t, "%s", row->has_bandwidth ? capo_text_gbs(row->busbw, text) : "-");
        capo_table_cell(t, "%s", capo_algo_name(row->row.algo_proto >> 4));
        capo_table_cell(t, "%s", capo_proto_name(row->row.algo_proto & 15));
        if (row->row.channels)
                capo_table_cell(t, "%u", row->row.channels);
        else
                capo_table_cell(t, "-");
        capo_table_cell(t, "%s", capo_clock_name(row->clock));
}

static void where_time_went(const struct report *r, FILE *out, const struct style *s)
{
        static const char *const head[] = {"comm", "call",  "size",  "count", "share", "p50", "p95",  "p99",
                                           "max",  "algbw", "busbw", "algo",  "proto", "ch",  "clock"};
        static const char *const units[] = {"", "", "", "", "", "us", "us", "us", "us", "GB/s", "GB/s", "", "", "", ""};
        _cleanup_(capo_table_freep) struct capo_table *t = capo_table_new("llrrr rrrr rr llrl");
        uint32_t shown = r->all || r->n_rows <= ROWS_SHOWN + 2 ? r->n_rows : ROWS_SHOWN;

        if (!t)
                return;
        fprintf(out, "\n%sWHERE THE TIME WENT%s%s\n", s->bold, s->plain,
                !r->n_rows ? "     no collective was called"
                : r->gpu   ? "     per call, over all ranks; share is of the GPU time of them all"
                           : "     per call, over all ranks; host times are how long calls took to return, not the "
                             "transfers");
        if (!r->n_rows)
                return;
        for (size_t i = 0; i < N_ELEMENTS(head); i++)
                capo_table_cell(t, "%s", head[i]);
        for (size_t i = 0; i < N_ELEMENTS(head); i++)
                capo_table_cell(t, "%s", units[i]);
        for (uint32_t i = 0; i < shown; i++)
                row_cells(r, &r->rows[i], t);
        capo_table_print(t, out, 2, s->bold, s->plain);
        if (shown < r->n_rows)
                fprintf(out, "%u more rows: capo report --all %s\n", r->n_rows - shown, r->what);
}

/* What the links of each communicator's GPUs allow, and what its collectives reached of it. */
static void ceilings(const struct report *r, FILE *out, const struct style *s)
{
        static const char *const head[] = {"comm", "class", "call", "size", "busbw", "ceiling", "reached"};
        _cleanup_(capo_table_freep) struct capo_table *t = capo_table_new("lllrrrr");
        uint32_t shown = 0;

        if (!r->bounds || !t)
                return;
        fprintf(out,
                "\n%sCEILINGS%s     of the links in %s, busbw GB/s: no software exceeds them (docs/fragments.md)\n",
                s->bold, s->plain, r->topology);
        for (size_t i = 0; i < N_ELEMENTS(head); i++)
                capo_table_cell(t, "%s", head[i]);
        for (uint32_t i = 0; i < r->n_rows && (r->all || shown < ROWS_SHOWN); i++) {
                const struct report_row *row = &r->rows[i];
                double most = report_ceiling(r, row);
                char text[256];

                if (row->row.comm == CAPO_NO_COMM || !*r->bounds[row->row.comm].class || !row->has_bandwidth ||
                    most <= 0)
                        continue;
                capo_table_cell(t, "%s", report_comm_label(r, row->row.comm, text, sizeof text));
                capo_table_cell(t, "%s", r->bounds[row->row.comm].class);
                capo_table_cell(t, "%s", report_call(&row->row, text, sizeof text));
                capo_table_cell(t, "%s", size_text(r, row, text, sizeof text));
                capo_table_cell(t, "%s", capo_text_gbs(row->busbw, text));
                capo_table_cell(t, "%s%s", capo_text_gbs(most, text),
                                r->bounds[row->row.comm].hybrid ? " PCIe+NIC" : "");
                capo_table_cell(t, "%s", capo_text_percent(row->busbw / most, text));
                shown++;
        }
        if (shown)
                capo_table_print(t, out, 1, s->bold, s->plain);
        for (uint32_t i = 0; !shown && i < r->job->n_comms; i++) { /* no GPU times: the classes at least */
                if (*r->bounds[i].class && r->class_of[i] == i) {
                        fprintf(out, "%s   %s\n", r->job->comms[i].name, r->bounds[i].class);
                        shown++;
                }
        }
        if (*r->no_bound)
                fprintf(out, "not known for %s\n", r->no_bound);
}

static void other_calls(const struct report *r, FILE *out, const struct style *s)
{
        _cleanup_(capo_table_freep) struct capo_table *t = capo_table_new("llrrrr");
        static const char *const head[] = {"comm", "call", "calls", "p50 ms", "max ms", "failed"};

        if (!r->all || !r->n_others || !t)
                return;
        fprintf(out, "\n%sOTHER CALLS%s     host times, all ranks\n", s->bold, s->plain);
        for (size_t i = 0; i < N_ELEMENTS(head); i++)
                capo_table_cell(t, "%s", head[i]);
        for (uint32_t i = 0; i < r->n_others; i++) {
                const struct capo_job_row *row = &r->others[i].row;
                const struct capo_hist *h = &row->time[CAPO_CLOCK_HOST];
                char text[256];

                capo_table_cell(t, "%s", report_comm_label(r, row->comm, text, sizeof text));
                capo_table_cell(t, "%s", capo_call_name(row->call));
                capo_table_cell(t, "%s", capo_text_count(row->calls, text));
                capo_table_cell(t, "%s", capo_text_us(capo_hist_quantile(h, 0.5) / 1000, text));
                capo_table_cell(t, "%s", capo_text_us((double)h->max_ns / 1000, text));
                capo_table_cell(t, "%s", capo_text_count(row->failed, text));
        }
        capo_table_print(t, out, 1, s->bold, s->plain);
}

static void communicator(const struct report *r, uint32_t i, struct capo_table *t)
{
        const struct capo_job *job = r->job;
        const struct capo_job_comm *c = &job->comms[i];
        uint64_t n_calls = 0, n_members = 0;
        char text[256];

        for (uint32_t k = i; k < job->n_comms; k++) {
                n_calls += r->class_of[k] == i ? job->comms[k].n_calls : 0;
                n_members += r->class_of[k] == i ? job->comms[k].n_members : 0;
        }
        capo_table_cell(t, "%s", report_comm_label(r, i, text, sizeof text));
        capo_table_cell(t, "%u", c->n_nodes);
        capo_table_cell(t, "%s", c->layout);
        if (c->parent == CAPO_NO_COMM)
                capo_table_cell(t, "-");
        else if (c->color >= 0 && r->class_size[i] == 1)
                capo_table_cell(t, "%s color %d", job->comms[c->parent].name, c->color);
        else
                capo_table_cell(t, "%s", job->comms[c->parent].name);
        capo_table_cell(t, "%s", capo_text_count(n_calls, text));
        capo_table_cell(t, "%s", capo_text_count(n_members, text));
}

static void communicators(const struct report *r, FILE *out, const struct style *s)
{
        const struct capo_job *job = r->job;
        _cleanup_(capo_table_freep) struct capo_table *t = capo_table_new("lrllrr");
        static const char *const head[] = {"name (ranks)", "nodes", "layout", "from", "collectives", "logs"};
        uint32_t shown = 0, n_classes = 0, limit;

        for (uint32_t i = 0; i < job->n_comms; i++)
                n_classes += r->class_of[i] == i;
        if (!t || n_classes < 2)
                return;
        limit = r->all || n_classes <= COMMS_SHOWN + 2 ? n_classes : COMMS_SHOWN;
        fprintf(out, "\n%sCOMMUNICATORS%s%s\n", s->bold, s->plain,
                n_classes < job->n_comms ? "     those that do the same for other ranks are shown together, nodes and "
                                           "layout of the first"
                                         : "");
        for (size_t i = 0; i < N_ELEMENTS(head); i++)
                capo_table_cell(t, "%s", head[i]);
        for (uint32_t i = 0; i < job->n_comms && shown < limit; i++) {
                if (r->class_of[i] == i) {
                        communicator(r, i, t);
                        shown++;
                }
        }
        capo_table_print(t, out, 1, s->bold, s->plain);
        if (shown < n_classes)
                fprintf(out, "%u more: capo report --all %s\n", n_classes - shown, r->what);
}

/* Does one rank come last clearly more often than by chance, and by more than the clocks may be apart? Among ranks of
 * its own host that is certain whatever other hosts' clocks do. */
static bool stands_out(const struct capo_job_comm *c)
{
        const struct capo_skew *k = c->skew;
        double chance = 1.0 / c->n_members;

        return k->ranks[k->worst].last > (chance + (1 - chance) / 4) * k->n_calls &&
               (k->worst_p50_ns > k->uncertain_ns || k->worst_home_ns > k->worst_p50_ns / 2);
}

static void member_text(const struct report *r, const struct capo_job_member *m, char *text, size_t room)
{
        const struct capo_job_process *p = &r->job->processes[m->process];
        const char *node = r->job->nodes[p->node].name;
        int n = snprintf(text, room, "rank %d (%s%s%s", m->rank, p->host, strcmp(node, p->host) ? "/" : "",
                         strcmp(node, p->host) ? node : "");

        if (m->device >= 0)
                snprintf(text + n, room - (size_t)n, ", GPU %d)", m->device);
        else
                snprintf(text + n, room - (size_t)n, ")");
}

static void one_skew(const struct report *r, const struct capo_job_comm *c, FILE *out)
{
        const struct capo_skew *k = c->skew;
        char who[256], a[32], b[32], d[32], n[32];

        if (stands_out(c)) {
                member_text(r, &c->members[k->worst], who, sizeof who);
                fprintf(out,
                        "%s: %s starts last in %s of %s calls compared, p50 %s after the first; the others within %s",
                        c->name, who, capo_text_percent((double)k->ranks[k->worst].last / k->n_calls, a),
                        capo_text_count(k->n_calls, n), capo_text_time(k->worst_p50_ns, b),
                        capo_text_time(k->others_p50_ns, d));
        } else {
                fprintf(out, "%s: no rank stands out in %s calls compared; last after first p50 %s, p95 %s", c->name,
                        capo_text_count(k->n_calls, n), capo_text_time(k->p50_ns, a), capo_text_time(k->p95_ns, b));
        }
        if (k->from == CAPO_SKEW_HOST_START)
                fputs(" (when the host made the call)", out);
        else if (k->from == CAPO_SKEW_GPU_DURATION)
                fputs(" (by GPU durations)", out);
        fputc('\n', out);
        if (k->wait_share >= 0)
                fprintf(out, "    cost of waiting: %s of the job\n", capo_text_percent(k->wait_share, a));
}

static int by_cost(const void *a, const void *b)
{
        const struct capo_job_comm *x = *(struct capo_job_comm *const *)a, *y = *(struct capo_job_comm *const *)b;
        double wx = x->skew->wait_share >= 0 ? x->skew->wait_share : x->skew->p50_ns * (double)x->n_calls * 1e-30 - 1;
        double wy = y->skew->wait_share >= 0 ? y->skew->wait_share : y->skew->p50_ns * (double)y->n_calls * 1e-30 - 1;

        if (wx != wy)
                return wx > wy ? -1 : 1;
        return x < y ? -1 : 1;
}

static void who_waits(const struct report *r, FILE *out, const struct style *s)
{
        const struct capo_job *job = r->job;
        _cleanup_free_ const struct capo_job_comm **order = calloc(job->n_comms + 1, sizeof *order);
        uint32_t n = 0, shown;
        unsigned sources = 0;
        char text[32];

        for (uint32_t i = 0; order && i < job->n_comms; i++) {
                if (job->comms[i].skew && job->comms[i].skew->n_calls)
                        order[n++] = &job->comms[i];
        }
        if (!n)
                return;
        qsort(order, n, sizeof *order, by_cost);
        for (uint32_t i = 0; i < n; i++)
                sources |= 1u << order[i]->skew->from;
        fprintf(out, "\n%sWHO WAITS FOR WHOM%s     start of the same call on all ranks", s->bold, s->plain);
        if (sources & 1u << CAPO_SKEW_GPU_DURATION)
                fputs("; by GPU durations: a call ends everywhere together, who is in it shortest came last", out);
        if (sources != 1u << CAPO_SKEW_GPU_DURATION) {
                if (job->n_clocks < 2)
                        fputs("; one host, one clock", out);
                else if (job->clock_uncertain_ns >= 0)
                        fprintf(out, "; clocks of %u hosts aligned from the calls themselves, %s%s", job->n_clocks,
                                s->plus_minus, capo_text_time(job->clock_uncertain_ns, text));
                else
                        fprintf(out, "; clocks of %u hosts as they are: no GPU times to align them by", job->n_clocks);
        }
        fputc('\n', out);
        shown = r->all || n <= COMMS_SHOWN ? n : COMMS_SHOWN;
        for (uint32_t i = 0; i < shown; i++)
                one_skew(r, order[i], out);
        if (shown < n)
                fprintf(out, "%u more communicators: capo report --all %s\n", n - shown, r->what);
}

/* Call sites that read the same in one line, together; with --all each by itself. */
struct place {
        char *line;
        double time;
        uint64_t count;
        bool timed;
};

static int by_line(const void *a, const void *b)
{
        return strcmp(((const struct place *)a)->line, ((const struct place *)b)->line);
}

static int by_time(const void *a, const void *b)
{
        const struct place *x = a, *y = b;

        if (x->time != y->time)
                return x->time > y->time ? -1 : 1;
        if (x->count != y->count)
                return x->count > y->count ? -1 : 1;
        return strcmp(x->line, y->line);
}

static uint32_t gather_places(const struct report *r, struct place *places)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < r->job->n_sites; i++) {
                const struct capo_job_site *site = &r->job->sites[i];
                char line[2048];

                places[i] = (struct place){.line = strdup(report_site_line(site, r->all ? 32 : 4, line, sizeof line)),
                                           .time = report_site_time(r, site),
                                           .count = site->count,
                                           .timed = site->gpu_count || !report_sites_by_gpu(r)};
        }
        qsort(places, r->job->n_sites, sizeof *places, by_line);
        for (uint32_t i = 0; i < r->job->n_sites; i++) {
                if (n && !strcmp(places[n - 1].line, places[i].line)) {
                        places[n - 1].time += places[i].time;
                        places[n - 1].count += places[i].count;
                        places[n - 1].timed |= places[i].timed;
                        free(places[i].line);
                } else {
                        places[n++] = places[i];
                }
        }
        qsort(places, n, sizeof *places, by_time);
        return n;
}

static void where_called(const struct report *r, FILE *out, const struct style *s)
{
        _cleanup_free_ struct place *places = calloc(r->job->n_sites + 1, sizeof *places);
        _cleanup_(capo_table_freep) struct capo_table *t = capo_table_new("rrl");
        double sum = 0;
        uint32_t n, shown;

        if (!r->job->n_sites || !places || !t)
                return;
        n = gather_places(r, places);
        shown = r->all || n <= SITES_SHOWN + 1 ? n : SITES_SHOWN;
        for (uint32_t i = 0; i < n; i++)
                sum += places[i].time;
        fprintf(out, "\n%sWHERE IT WAS CALLED%s     share of %s; calls over all ranks; innermost frame first\n",
                s->bold, s->plain, report_sites_by_gpu(r) ? "GPU time" : "host time in the calls");
        for (uint32_t i = 0; i < shown; i++) {
                char text[32];

                capo_table_cell(t, "%s",
                                places[i].timed ? capo_text_percent(sum > 0 ? places[i].time / sum : 0, text) : "-");
                capo_table_cell(t, "%s", capo_text_count(places[i].count, text));
                capo_table_cell(t, "%s", places[i].line);
        }
        capo_table_print(t, out, 0, "", "");
        if (shown < n)
                fprintf(out, "%u more: capo report --all %s\n", n - shown, r->what);
        for (uint32_t i = 0; i < n; i++)
                free(places[i].line);
}

/* Rows of the profile, or candidates of the sweep, and how many calls each decided. */
static void rules_fired(const struct report *r, FILE *out, const struct style *s)
{
        const struct capo_job *job = r->job;
        _cleanup_(capo_table_freep) struct capo_table *t = capo_table_new("rrl");
        uint64_t *calls = calloc(65536, sizeof *calls), all = 0;
        uint32_t n = 0;

        for (uint32_t i = 0; calls && i < job->n_rows; i++) {
                calls[job->rows[i].rule] += job->rows[i].count;
                all += capo_call_kind(job->rows[i].call) != CAPO_KIND_OTHER ? job->rows[i].count : 0;
                n += job->rows[i].rule != 0;
        }
        if (n && t) {
                fprintf(out, "\n%sRULES THAT DECIDED%s     of %s calls\n", s->bold, s->plain,
                        capo_text_count(all, (char[32]){0}));
                for (uint32_t rule = 1; rule < 65536; rule++) {
                        char text[512];

                        if (!calls[rule])
                                continue;
                        capo_table_cell(t, "%u", rule);
                        capo_table_cell(t, "%s", capo_text_count(calls[rule], text));
                        capo_table_cell(t, "%s", report_rule_text(job->processes[0].rules, rule, text, sizeof text));
                }
                capo_table_print(t, out, 0, "", "");
        }
        free(calls);
}

/* The row that costs most, if NCCL chose for it by itself and there is a choice; NULL. */
static const struct report_row *worth_a_sweep(const struct report *r)
{
        const struct report_row *most = NULL;
        char text[8];

        for (uint32_t i = 0; i < r->n_rows; i++) {
                enum capo_call_kind kind = capo_call_kind(r->rows[i].row.call);

                if (kind >= CAPO_KIND_ALLREDUCE && kind <= CAPO_KIND_REDUCESCATTER &&
                    (!most || r->rows[i].share > most->share))
                        most = &r->rows[i];
        }
        if (!most || most->share < 0.2 || r->gpu_share < 0.05 || !most->has_bandwidth ||
            capo_rules_value(r->job->processes[0].rules, CAPO_RULES_SWEEP, text, sizeof text) ||
            capo_rules_value(r->job->processes[0].rules, CAPO_RULES_NAME, text, sizeof text))
                return NULL;
        return most;
}

/* "AllReduce" as options have it: all_reduce. */
static char *snake(const char *name, char *text)
{
        char *to = text;

        for (; *name; name++) {
                if (*name >= 'A' && *name <= 'Z' && to != text)
                        *to++ = '_';
                *to++ = (char)(*name | 0x20);
        }
        *to = 0;
        return text;
}

/* A power of two as options have it: 16M. */
static char *short_size(uint64_t bytes, char *text, size_t room)
{
        size_t n;

        capo_size_print(bytes, text, room);
        n = strcspn(text, " ");
        text[n] = text[n + 1] == 'B' ? 0 : text[n + 1];
        text[n + (text[n] != 0)] = 0;
        return text;
}

/* Next steps: only what a number on this page asks for. */
static void next_steps(const struct report *r, FILE *out, const struct style *s)
{
        const struct capo_job *job = r->job;
        const struct report_row *sweep;
        unsigned n = 0;
        double small_share = 0;
        uint64_t small_count = 0, count = 0;
        char a[32], b[32];

#define HINT(...)                                                        \
        do {                                                             \
                if (n == 0)                                              \
                        fprintf(out, "\n%sNEXT%s\n", s->bold, s->plain); \
                if (n++ < HINTS_SHOWN) {                                 \
                        fprintf(out, __VA_ARGS__);                       \
                        fputc('\n', out);                                \
                }                                                        \
        } while (0)

        for (uint32_t i = 0; i < r->n_rows; i++) {
                const struct report_row *row = &r->rows[i];

                if (row->row.flags & CAPO_RECORD_GROUP)
                        continue;
                count += row->row.count;
                if (row->bytes_max <= 65536 && row->share > 0) {
                        small_share += row->share;
                        small_count += row->row.count;
                }
        }
        for (uint32_t i = 0; i < job->n_comms; i++) {
                const struct capo_job_comm *c = &job->comms[i];

                if (!c->skew || !c->skew->n_calls || c->skew->wait_share < 0.01 || !stands_out(c))
                        continue;
                HINT("rank %d holds up %s for %s of the job: look at what it does before the call (input, host work, "
                     "its GPU)",
                     c->members[c->skew->worst].rank, c->name, capo_text_percent(c->skew->wait_share, a));
        }
        if (small_share * r->gpu_share > 0.02 && small_count >= 1000)
                HINT("calls of 64 KiB and less take %s of the GPU time (%s of %s calls): capo advise %s models "
                     "larger buckets",
                     capo_text_percent(small_share, a), capo_text_count(small_count, b),
                     capo_text_count(count, (char[32]){0}), r->what);
        sweep = worth_a_sweep(r);
        if (sweep) {
                uint64_t from = 1ull << (63 - __builtin_clzll(sweep->row.bytes)), upto = from;

                while (upto < sweep->bytes_max && upto < 1ull << 62)
                        upto *= 2;
                HINT("%s %s takes %s of the GPU time as NCCL chooses: capo sweep --coll %s --sizes %s..%s -- "
                     "COMMAND measures "
                     "its other choices",
                     report_call(&sweep->row, (char[64]){0}, 64), report_size(sweep, (char[64]){0}, 64),
                     capo_text_percent(sweep->share, a), snake(capo_call_name(sweep->row.call), b),
                     short_size(from, (char[32]){0}, 32), short_size(upto, (char[32]){0}, 32));
        }
        for (uint32_t i = 0; i < r->n_rows; i++) {
                const struct report_row *row = &r->rows[i];
                const struct capo_hist *h = &row->row.time[row->clock];
                double p50 = capo_hist_quantile(h, 0.5), p99 = capo_hist_quantile(h, 0.99);

                if (row->share < 0.1 || !row->has_bandwidth || h->count < 100 || p99 < 3 * p50)
                        continue;
                HINT("%s %s on %s: p99 is %.1f times p50 (%s to %s us): something disturbs it now and then",
                     report_call(&row->row, (char[64]){0}, 64), report_size(row, (char[64]){0}, 64),
                     report_comm_name(r, row->row.comm), p99 / p50, capo_text_us(p50, a), capo_text_us(p99, b));
                break;
        }
        if (!r->gpu && r->collectives)
                HINT("no call was timed on the GPU, so there are no bandwidths: CAPO_GPU_SAMPLE=8 (the default) times "
                     "one in 8");
        if (job->gpu_dropped > job->calls / 100)
                HINT("%s calls were to be timed on the GPU and found no free event: CAPO_GPU_SAMPLE=64 would time "
                     "fewer",
                     capo_text_count(job->gpu_dropped, a));
        if (job->n_records == 0 && r->collectives && job->n_ranks > 1)
                HINT("the logs hold no single calls, so who waits for whom is not known: capo run --trace all keeps "
                     "them");
#undef HINT
}

void report_text(const struct report *r, FILE *out)
{
        bool terminal = isatty(fileno(out)) && !getenv("NO_COLOR");
        struct style s =
                terminal ? (struct style){"\033[1m", "\033[33m", "\033[0m", "±"} : (struct style){"", "", "", "+-"};

        heading(r, out, &s);
        circumstances(r, out);
        totals(r, out);
        problems(r, out, &s);
        where_time_went(r, out, &s);
        ceilings(r, out, &s);
        other_calls(r, out, &s);
        communicators(r, out, &s);
        who_waits(r, out, &s);
        if (r->fabric)
                report_fabric_text(r, r->fabric, out, s.bold, s.plain);
        where_called(r, out, &s);
        rules_fired(r, out, &s);
        next_steps(r, out, &s);
}
