/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joining two layers that do not know each other. NCCL's progress threads post to libfabric, the job's own threads make
 * the collectives, and nothing in a posted operation says which collective it serves. What both have is the clock: the
 * shim cut the traffic of each process into windows (shim/fabric/text.c) and looked at the network at random moments
 * (shim/fabric/look.c), and the log has the times of calls. So traffic is divided, window by window, among the calls that
 * were under way on that rank, in proportion to how much of the window each covers; and each look belongs to the calls
 * that were under way at its moment, so the part of them that found the network busy estimates the part of the calls'
 * time that it was. These are estimates and the report says so. Where a thread posts from inside its own NCCL call
 * there is nothing to estimate, and those counts are kept apart.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/calls.h"
#include "profiles/job/fabric.h"
#include "core/base/util.h"

/* ---- links ------------------------------------------------------------------------------------------------------- */

static uint64_t link_bytes(const struct capo_fabric_link *l)
{
        return l->sent + l->received;
}

static const char *nic_of(const struct capo_fabric_domain *d)
{
        return d->nic[0] ? d->nic : d->name;
}

static int by_rank(const void *a_, const void *b_, void *job_)
{
        const struct capo_fabric_link *a = a_, *b = b_;
        const struct capo_job *job = job_;
        int ra = job->processes[a->process].rank, rb = job->processes[b->process].rank;

        if (ra != rb)
                return ra < rb ? -1 : 1;
        if (a->process != b->process)
                return a->process < b->process ? -1 : 1;
        return link_bytes(a) > link_bytes(b) ? -1 : link_bytes(a) < link_bytes(b);
}

/* The recorder wrote the node of each device that has a communicator. */
static int gpu_numa(const struct capo_job_process *p, int nic_numa)
{
        int numa = -1;

        for (uint32_t i = 0; i < p->n_info; i++) {
                char *end;
                long v;

                if (capo_info_index(p->info[i].key, CAPO_INFO_GPU_NUMA) < 0)
                        continue;
                v = strtol(p->info[i].value, &end, 10);
                if (end == p->info[i].value || *end || v < 0 || v > INT_MAX)
                        continue;
                if (numa < 0 || v == nic_numa)
                        numa = (int)v;
        }
        return numa;
}

static int links_make(struct capo_fabric_job *f, const struct capo_job *job)
{
        size_t n = 0, used = 0;
        double bytes = 0;

        for (uint32_t p = 0; p < f->n_processes; p++)
                n += f->process[p] ? f->process[p]->n_domains : 0;
        f->links = calloc(n ? n : 1, sizeof *f->links);
        if (!f->links)
                return -ENOMEM;
        for (uint32_t p = 0; p < f->n_processes; p++) {
                for (size_t d = 0; f->process[p] && d < f->process[p]->n_domains; d++) {
                        struct capo_fabric_link *l = &f->links[f->n_links++];

                        l->process = p;
                        l->domain = &f->process[p]->domains[d];
                        l->ops = capo_fabric_ops(&l->domain->n);
                        l->sent = capo_fabric_sent(&l->domain->n);
                        l->received = capo_fabric_recv(&l->domain->n, &l->received_exact);
                        l->gpu_numa = gpu_numa(&job->processes[p], l->domain->numa);
                        used += l->ops != 0;
                        bytes += (double)link_bytes(l);
                }
        }
        for (size_t i = 0; i < f->n_links; i++) {
                struct capo_fabric_link *l = &f->links[i];

                for (size_t k = 0; k < f->n_links; k++) {
                        const struct capo_fabric_link *o = &f->links[k];

                        if (o->ops && l->domain->nic[0] && !strcmp(o->domain->nic, l->domain->nic) &&
                            (k == i || o->process != l->process) &&
                            !strcmp(job->processes[o->process].host, job->processes[l->process].host))
                                l->sharers++;
                }
                if (used > 1 && bytes > 0)
                        l->load = (double)link_bytes(l) / (bytes / (double)used);
        }
        qsort_r(f->links, f->n_links, sizeof *f->links, by_rank, (void *)(uintptr_t)job);
        return 0;
}

/* ---- calls in time ----------------------------------------------------------------------------------------------- */

struct span {
        uint64_t begin, end; /* CLOCK_MONOTONIC of the host */
        uint32_t share;      /* index in f->shares */
        bool measured;       /* not where a call of its kind would be if the GPU began at once */
};

struct spans {
        struct span *span;
        size_t n, room;
        bool all_measured;
};

static int span_add(struct spans *s, struct span span)
{
        s->all_measured &= span.measured;
        if (s->n == s->room) {
                size_t room = s->room ? 2 * s->room : 1024;
                void *more = realloc(s->span, room * sizeof *s->span);

                if (!more)
                        return -ENOMEM;
                s->span = more;
                s->room = room;
        }
        s->span[s->n++] = span;
        return 0;
}

static int share_of(struct capo_fabric_job *f, uint32_t comm, uint8_t call, uint32_t *out)
{
        void *more;

        for (size_t i = 0; i < f->n_shares; i++) {
                if (f->shares[i].comm == comm && f->shares[i].call == call) {
                        *out = (uint32_t)i;
                        return 0;
                }
        }
        more = realloc(f->shares, (f->n_shares + 1) * sizeof *f->shares);
        if (!more)
                return -ENOMEM;
        f->shares = more;
        f->shares[f->n_shares] = (struct capo_fabric_share){.comm = comm, .call = call};
        *out = (uint32_t)f->n_shares++;
        return 0;
}

static uint32_t comm_of(const struct capo_job *job, uint32_t process, uint16_t id)
{
        for (uint32_t c = 0; c < job->n_comms; c++) {
                for (uint32_t m = 0; m < job->comms[c].n_members; m++) {
                        if (job->comms[c].members[m].process == process && job->comms[c].members[m].id == id)
                                return c;
                }
        }
        return CAPO_NO_COMM;
}

/* How long calls of this kind take on the GPU, where that was measured at all; 0 where it was not. */
static double gpu_mean(const struct capo_job *job, uint32_t comm, const struct capo_record *r)
{
        double best = 0;

        for (uint32_t i = 0; i < job->n_rows; i++) {
                const struct capo_job_row *row = &job->rows[i];

                if (row->comm != comm || row->call != r->call || row->bytes != r->bytes)
                        continue;
                for (unsigned c = CAPO_CLOCK_EVENT; c <= CAPO_CLOCK_KERNEL; c++) {
                        if (row->time[c].count)
                                best = capo_hist_mean(&row->time[c]);
                }
        }
        return best;
}

/* Was any call timed on the GPU? If so, what the host saw of another is its enqueueing. */
static bool gpu_timed(const struct capo_job *job)
{
        for (uint32_t i = 0; i < job->n_rows; i++) {
                if (job->rows[i].time[CAPO_CLOCK_EVENT].count || job->rows[i].time[CAPO_CLOCK_KERNEL].count)
                        return true;
        }
        return false;
}

static int add_record(struct capo_fabric_job *f, const struct capo_job *job, uint32_t process,
                      const struct capo_record *r, uint64_t epoch, struct spans *s)
{
        bool measured = r->clock == CAPO_CLOCK_EVENT || r->clock == CAPO_CLOCK_KERNEL;
        uint32_t comm, share;
        uint64_t begin, end;

        if (r->flags & CAPO_RECORD_MEMBER || capo_call_kind(r->call) == CAPO_KIND_OTHER)
                return 0;
        comm = comm_of(job, process, r->comm);
        begin = r->t_begin;
        end = r->t_end;
        if (measured) {
                begin += 16 * (uint64_t)r->gpu_begin;
                end = begin + r->gpu_ns > end ? begin + r->gpu_ns : end;
        } else if (!(r->flags & CAPO_RECORD_CAPTURED)) {
                uint64_t likely_end = begin + (uint64_t)gpu_mean(job, comm, r);

                end = likely_end > end ? likely_end : end;
        }
        if (end <= begin)
                return 0;
        if (share_of(f, comm, r->call, &share))
                return -ENOMEM;
        f->shares[share].calls++;
        f->shares[share].call_ns += (double)(end - begin);
        return span_add(s, (struct span){epoch + begin, epoch + end, share, measured || !f->gpu_timed});
}

/* The single calls of one log; a log that cannot be read a second time has none. */
static int read_spans(struct capo_fabric_job *f, const struct capo_job *job, uint32_t process, struct spans *s)
{
        const struct capo_job_process *p = &job->processes[process];
        _cleanup_(capo_log_closep) struct capo_log *log = NULL;
        _cleanup_free_ struct capo_log_shape *shapes = NULL;
        struct capo_log_frame frame;
        char why[128];
        int r = 0;

        if (!p->n_records || capo_log_open(p->path, &log, why, sizeof why) < 0)
                return 0;
        shapes = calloc(65536, sizeof *shapes);
        if (!shapes)
                return -ENOMEM;
        while (r == 0 && capo_log_next(log, &frame) > 0) {
                if (frame.type == CAPO_FRAME_SHAPE) {
                        const struct capo_log_shape *shape;
                        unsigned n = capo_log_shapes(&frame, &shape);

                        for (unsigned i = 0; i < n; i++)
                                shapes[shape[i].id] = shape[i];
                } else if (frame.type == CAPO_FRAME_BLOCK) {
                        struct capo_log_columns columns;

                        if (capo_log_block(&frame, &columns))
                                continue;
                        for (uint32_t i = 0; i < columns.n && r == 0; i++) {
                                struct capo_record record;

                                capo_log_record(&columns, i, &shapes[columns.shape[i]], &record);
                                r = add_record(f, job, process, &record, p->header.t0_mono_ns, s);
                        }
                } else if (frame.type == CAPO_FRAME_WIDE) {
                        const struct capo_record *record;
                        unsigned n = capo_log_wide(&frame, &record);

                        for (unsigned i = 0; i < n && r == 0; i++)
                                r = add_record(f, job, process, &record[i], p->header.t0_mono_ns, s);
                }
        }
        return r;
}

static int by_begin(const void *a_, const void *b_)
{
        const struct span *a = a_, *b = b_;

        return a->begin < b->begin ? -1 : a->begin > b->begin;
}

static uint64_t overlap(const struct span *s, const struct capo_fabric_window *w)
{
        uint64_t begin = s->begin > w->begin_ns ? s->begin : w->begin_ns;
        uint64_t end = s->end < w->end_ns ? s->end : w->end_ns;

        return end > begin ? end - begin : 0;
}

/* The calls that are under way, as one goes through time. */
struct under_way {
        const struct spans *all; /* sorted by begin */
        size_t next;             /* of them */
        const struct span **span;
        size_t n;
};

static int under_way_init(struct under_way *u, const struct spans *all)
{
        *u = (struct under_way){.all = all, .span = malloc((all->n ? all->n : 1) * sizeof *u->span)};
        return u->span ? 0 : -ENOMEM;
}

/* On to all that overlap with @begin .. @end; begins only ever rise. */
static void under_way_move(struct under_way *u, uint64_t begin, uint64_t end)
{
        size_t n = 0;

        for (; u->next < u->all->n && u->all->span[u->next].begin < end; u->next++)
                u->span[u->n++] = &u->all->span[u->next];
        for (size_t i = 0; i < u->n; i++) {
                if (u->span[i]->end > begin)
                        u->span[n++] = u->span[i];
        }
        u->n = n;
}

/* The traffic of each window among the calls it overlaps. */
static void divide(struct capo_fabric_job *f, const struct capo_fabric *of, struct under_way *u, uint32_t outside)
{
        for (size_t i = 0; i < of->n_windows; i++) {
                const struct capo_fabric_window *w = &of->windows[i];
                double covered = 0;

                under_way_move(u, w->begin_ns, w->end_ns);
                for (size_t k = 0; k < u->n; k++)
                        covered += (double)overlap(u->span[k], w);
                if ((double)(w->end_ns - w->begin_ns) > f->window_ns)
                        f->window_ns = (double)(w->end_ns - w->begin_ns);
                if (covered <= 0) {
                        f->shares[outside].ops += (double)w->ops;
                        f->shares[outside].sent += (double)w->tx_bytes;
                        f->shares[outside].received += (double)w->rx_bytes;
                        continue;
                }
                for (size_t k = 0; k < u->n; k++) {
                        struct capo_fabric_share *to = &f->shares[u->span[k]->share];
                        double part = (double)overlap(u->span[k], w) / covered;

                        to->ops += part * (double)w->ops;
                        to->sent += part * (double)w->tx_bytes;
                        to->received += part * (double)w->rx_bytes;
                        to->net_ns += (double)overlap(u->span[k], w);
                }
        }
}

static void add_look(struct capo_fabric_share *s, const struct capo_fabric_look *look, unsigned times)
{
        double time = (double)look->every_s * times;

        s->looks.n++;
        s->looks.time += time;
        s->looks.time_sq += time * time;
        s->looks.busy += look->moving || look->waiting ? time : 0;
        s->looks.waiting += look->waiting ? time : 0;
        s->looks.unsure += look->unsure ? time : 0;
}

/*
 * Each look to the calls under way at its moment. Windows are coarse enough to bear with spans that are a guess; a look
 * is one moment, so it counts only for calls whose time was measured (those sampled by chance, which is as good), and
 * for what is outside of calls only where no call's time is a guess.
 */
static void assign_looks(struct capo_fabric_job *f, const struct capo_fabric *of, struct under_way *u, uint32_t outside)
{
        if (of->slit_ns > f->slit_ns)
                f->slit_ns = of->slit_ns;
        f->looks_taken += of->looks_taken;
        f->looks_late += of->looks_late;
        for (size_t i = 0; i < of->n_looks; i++) {
                const struct capo_fabric_look *look = &of->looks[i];

                under_way_move(u, look->t_ns, look->t_ns + 1);
                if (!u->n && u->all->all_measured)
                        add_look(&f->shares[outside], look, 1);
                for (size_t k = 0; k < u->n; k++) {
                        unsigned times = 0;
                        bool first = true;

                        for (size_t m = 0; m < u->n; m++) { /* calls of one kind may overlap: one look at all of them */
                                bool alike = u->span[m]->share == u->span[k]->share && u->span[m]->measured;

                                times += alike;
                                first &= m >= k || !alike;
                        }
                        if (first && u->span[k]->measured)
                                add_look(&f->shares[u->span[k]->share], look, times);
                }
        }
}

/* What the process did over the network, to its calls. */
static int join(struct capo_fabric_job *f, const struct capo_fabric *of, struct spans *s, uint32_t outside)
{
        struct under_way u;

        if (s->n) /* an empty list may be NULL, which qsort() does not take */
                qsort(s->span, s->n, sizeof *s->span, by_begin);
        if (under_way_init(&u, s))
                return -ENOMEM;
        divide(f, of, &u, outside);
        u.next = u.n = 0;
        assign_looks(f, of, &u, outside);
        free(u.span);
        return 0;
}

static int add_inside(struct capo_fabric_job *f, const struct capo_job *job, const struct capo_fabric *of)
{
        for (size_t i = 0; i < of->n_inside; i++) {
                uint32_t comm = CAPO_NO_COMM, share;

                for (uint32_t c = 0; c < job->n_comms; c++) {
                        if (job->comms[c].uid == of->inside[i].comm_uid)
                                comm = c;
                }
                if (share_of(f, comm, of->inside[i].call, &share))
                        return -ENOMEM;
                f->shares[share].own_ops += of->inside[i].ops;
                f->shares[share].own_bytes += of->inside[i].bytes;
        }
        return 0;
}

static int by_bytes(const void *a_, const void *b_)
{
        const struct capo_fabric_share *a = a_, *b = b_;
        double va = a->sent + a->received + (double)a->own_bytes, vb = b->sent + b->received + (double)b->own_bytes;

        return va > vb ? -1 : va < vb;
}

static int shares_make(struct capo_fabric_job *f, const struct capo_job *job)
{
        uint32_t outside = 0;
        int r = share_of(f, CAPO_NO_COMM, CAPO_CALL_NONE, &outside);

        f->gpu_timed = gpu_timed(job);
        for (uint32_t p = 0; p < f->n_processes && r == 0; p++) {
                struct spans s = {.all_measured = true};

                if (!f->process[p])
                        continue;
                r = read_spans(f, job, p, &s);
                if (r == 0)
                        r = join(f, f->process[p], &s, outside);
                free(s.span);
                if (r == 0)
                        r = add_inside(f, job, f->process[p]);
        }
        if (r == 0)
                qsort(f->shares, f->n_shares, sizeof *f->shares, by_bytes);
        return r;
}

/* ---- parts of time ----------------------------------------------------------------------------------------------- */

static bool part_of(const struct capo_fabric_share *s, double part, struct capo_fabric_part *out)
{
        const double z = 1.96, z2 = z * z;
        double n, p, middle, half;

        if (s->looks.time <= 0)
                return false;
        n = s->looks.time * s->looks.time / s->looks.time_sq;
        p = part / s->looks.time;
        middle = (p + z2 / (2 * n)) / (1 + z2 / n);
        half = z / (1 + z2 / n) * sqrt(p * (1 - p) / n + z2 / (4 * n * n));
        *out = (struct capo_fabric_part){
                .share = p, /* at the ends of the range Wilson's interval ends there, but for rounding */
                .low = p > 0 ? fmax(0, middle - half) : 0,
                .high = p < 1 ? fmin(1, middle + half) : 1};
        return true;
}

bool capo_fabric_share_network(const struct capo_fabric_share *s, struct capo_fabric_part *out)
{
        return part_of(s, s->looks.busy, out);
}

bool capo_fabric_share_wait(const struct capo_fabric_share *s, struct capo_fabric_part *out)
{
        return capo_fabric_share_sure(s) && part_of(s, s->looks.waiting, out);
}

bool capo_fabric_share_sure(const struct capo_fabric_share *s)
{
        return s->looks.unsure <= 0.01 * s->looks.time;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

int capo_fabric_job_new(const struct capo_job *job, struct capo_fabric_job **out)
{
        _cleanup_(capo_fabric_job_freep) struct capo_fabric_job *f = calloc(1, sizeof *f);
        bool any = false;
        int r;

        if (!f || !(f->process = calloc(job->n_processes ? job->n_processes : 1, sizeof *f->process)))
                return -ENOMEM;
        f->n_processes = job->n_processes;
        for (uint32_t p = 0; p < job->n_processes; p++) {
                if (!job->processes[p].fabric)
                        continue;
                r = capo_fabric_parse(job->processes[p].fabric, &f->process[p]);
                if (r < 0)
                        return r;
                any |= f->process[p]->n_domains > 0;
        }
        if (!any) {
                *out = NULL;
                return 0;
        }
        r = links_make(f, job);
        if (r == 0)
                r = shares_make(f, job);
        if (r < 0)
                return r;
        *out = steal(&f);
        return 0;
}

void capo_fabric_job_free(struct capo_fabric_job *f)
{
        if (!f)
                return;
        for (uint32_t p = 0; f->process && p < f->n_processes; p++)
                capo_fabric_free(f->process[p]);
        free(f->process);
        free(f->links);
        free(f->shares);
        free(f);
}

const char *capo_fabric_job_warning(const struct capo_fabric_job *f, const struct capo_job *job, char *text,
                                    size_t room)
{
        const struct capo_fabric_link *worst = NULL;
        const struct capo_fabric *machine;
        uint64_t slow = 0, all = 0;

        for (size_t i = 0; i < f->n_links; i++) {
                const struct capo_fabric_link *l = &f->links[i];

                machine = f->process[l->process];
                all += link_bytes(l);
                if (!capo_fabric_is_slow(l->domain->provider) || !(machine->infiniband[0] || machine->cxi[0]))
                        continue;
                slow += link_bytes(l);
                if (!worst || link_bytes(l) > link_bytes(worst))
                        worst = l;
        }
        if (!worst || slow * 10 < all || !slow)
                return NULL;
        machine = f->process[worst->process];
        snprintf(text, room, "%.0f %% of the network traffic went over %s (%s), though %s has %s %.60s",
                 100.0 * (double)slow / (double)all, worst->domain->provider, nic_of(worst->domain),
                 job->processes[worst->process].host,
                 machine->cxi[0] ? "Slingshot devices" : "InfiniBand or EFA devices",
                 machine->cxi[0] ? machine->cxi : machine->infiniband);
        return text;
}
