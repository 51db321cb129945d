/* SPDX-License-Identifier: Apache-2.0 */
/* The FABRIC frames of the log: what has been counted, one line per object. core/log/fabric_frame.h
 * knows the lines; here they are filled.
 *
 * Every checkpoint writes a whole new snapshot under the next number, and a reader keeps the last.
 * The counters are read while they are being written; each is whole, two may be a moment apart. */
#include <dirent.h>

#include "capo/env.h"
#include "core/base/text.h"
#include "shim/fabric/shim_fabric.h"
#include "shim/record/shim.h"

/* What was posted to leave and has not completed, of each queue: what capo hang asks.
 *
 * The drain thread works it out from the counters that are there anyway: posts less completions.
 * Completions that belong to no transmit (receives, remote writes with data) are known by their
 * flags, and injects make none. The two counts do not fit where a queue's format has no flags and
 * receives come to it, where an endpoint asks for silence (FI_SELECTIVE_COMPLETION without
 * FI_COMPLETION), and where it completes into counters only. There the number is not known. */
#define EVERY_NS    20000000u
#define COST_ONE_IN 400 /* a count takes at most one 400th of a core: else counts are rarer */
#define QUIET_NS \
        1000000000u /* a queue that has been still for so long has nothing outstanding but what is \
                       lost */
#define BELOW_ZERO    (-8) /* a post is counted after it was made: a few may complete earlier */
#define BEYOND_BELIEF (1 << 20) /* operations no transmit queue holds */

static uint64_t counted_ns;   /* CLOCK_MONOTONIC of the last count; 0 none yet */
static uint64_t next_ns;      /* of the next one */
static bool unknown_for_good; /* in this process the two counts do not fit */

static uint64_t count_posts(const struct fi_ep *e)
{
        uint64_t n = 0;

        for (int s = 0; s < FI_SETS; s++) {
                /* the sets fill in order, and the shared one only after all others are taken */
                if (!e->set[s < FI_SETS - 1 ? s : s - 1].owner)
                        break;
                for (int k = 0; k < CAPO_FI_KINDS; k++) {
                        if (!capo_fi_transmits[k] || k == CAPO_FI_INJECT)
                                continue;
                        for (int b = 0; b < CAPO_FI_SIZES; b++)
                                n += e->set[s].sizes[k][b];
                }
        }
        return n;
}

static uint64_t count_errors(const struct fi_errors *e)
{
        uint64_t n = e->other;

        for (int i = 0; i < FI_ERRORS; i++)
                n += e->row[i].count;
        return n;
}

/* This object's last count; all 0 if it was not there then. NULL: it is being made. */
static struct fi_noted *find_notes(struct fi_object *o)
{
        uint32_t id = o->id;

        if (o->noted.id != id)
                o->noted = (struct fi_noted){.id = id};
        return id ? &o->noted : NULL;
}

static void read_queue(struct fi_cq *c, uint64_t now)
{
        struct fi_noted *noted = find_notes(&c->o);
        uint64_t completions = 0, received = 0, errors = count_errors(&c->o.errors);

        for (int s = 0; s < FI_SETS; s++) {
                received += c->set[s].received + c->set[s].unposted;
                completions += c->set[s].completions;
        }
        if (!noted || c->o.id != noted->id)
                return;
        if (completions != noted->cq.completions || errors != noted->cq.errors)
                noted->cq.t_moved = now;
        if (completions != noted->cq.completions) {
                noted->cq.t_completed = now;
                noted->cq.forgotten = false;
        }
        if (errors != noted->cq.errors) /* of a transmit or of a receive: nobody noted */
                noted->cq.unsure = true;
        noted->cq.outstanding -=
                (int64_t)(completions - noted->cq.completions - (received - noted->cq.received));
        noted->cq.completions = completions;
        noted->cq.received = received;
        noted->cq.errors = errors;
        noted->cq.open = 0;
        noted->cq.receives = false;
}

static void read_endpoint(struct fi_ep *e, uint64_t now)
{
        struct fi_noted *noted = find_notes(&e->o), *tx, *rx;
        uint64_t posts = count_posts(e);
        struct fi_cq *sends = e->cq[0], *receives = e->cq[1];
        bool open = e->o.fid, silent = e->silent;

        if (!noted || e->o.id != noted->id)
                return;
        tx = sends ? find_notes(&sends->o) : NULL;
        rx = receives ? find_notes(&receives->o) : NULL;
        if (posts != noted->ep.posts && tx) {
                tx->cq.outstanding += (int64_t)(posts - noted->ep.posts);
                tx->cq.t_moved = now;
        }
        if (posts && (!sends || silent))
                unknown_for_good = true;
        noted->ep.posts = posts;
        if (open && tx)
                tx->cq.open++;
        if (open && rx)
                rx->cq.receives = true;
        if (!open && noted->ep.open && tx &&
            tx->cq.outstanding > 0) /* of this endpoint, or of another? */
                tx->cq.unsure = true;
        noted->ep.open = open;
}

static void judge_queue(struct fi_cq *c, uint64_t now)
{
        struct fi_noted *noted = find_notes(&c->o);
        bool there = c->o.fid;

        if (!noted)
                return;
        if (!there || !noted->cq.open || (noted->cq.unsure && now - noted->cq.t_moved > QUIET_NS)) {
                noted->cq.forgotten |= there && noted->cq.unsure && noted->cq.outstanding;
                noted->cq.outstanding = 0;
                noted->cq.unsure = false;
        }
        if ((!c->lengths && noted->cq.receives && noted->cq.open && noted->cq.completions) ||
            noted->cq.outstanding < BELOW_ZERO || noted->cq.outstanding > BEYOND_BELIEF)
                unknown_for_good = true;
}

/* Count anew, at most every 20 ms; the drain thread's rounds call this. */
static void count_outstanding(void)
{
        struct fi_object *all = atomic_load_explicit(&capo_fi_objects, memory_order_acquire);
        uint64_t now = capo_clock_mono(), took;

        if (now < next_ns)
                return;
        /* Completions before posts: an operation that comes and goes meanwhile is then outstanding
         * rather than less than none. */
        for (struct fi_object *o = all; o; o = o->next) {
                if (o->type == FI_T_CQ)
                        read_queue((struct fi_cq *)o, now);
        }
        for (struct fi_object *o = all; o; o = o->next) {
                if (o->type == FI_T_EP)
                        read_endpoint((struct fi_ep *)o, now);
        }
        for (struct fi_object *o = all; o; o = o->next) {
                if (o->type == FI_T_CQ)
                        judge_queue((struct fi_cq *)o, now);
        }
        counted_ns = now;
        took = capo_clock_mono() - now;
        next_ns = now + (took * COST_ONE_IN > EVERY_NS ? took * COST_ONE_IN : EVERY_NS);
}

/* What was posted to leave and had not completed on @c at the last count;
 * @unsure: that is not known, 0. */
static uint64_t outstanding_of(const struct fi_cq *c, bool *unsure)
{
        const struct fi_noted *noted = &c->o.noted;
        bool valid = noted->id == c->o.id;

        *unsure = counted_ns &&
                  ((valid && (noted->cq.unsure || noted->cq.forgotten)) || unknown_for_good);
        return valid && !*unsure && noted->cq.outstanding > 0 ? (uint64_t)noted->cq.outstanding : 0;
}

/* A snapshot must fit into what is kept of it in the segment, CAPO_KEPT_HALF: its windows take up
 * to 50 KB. What has no line of its own is counted in its domain's. */
#define FI_LINES \
        256 /* endpoints, queues and counters with a line of their own at most; the newest */
#define FI_LINES_SIZE 40960 /* bytes of these */
#define FI_CLOSED_LINES \
        64 /* of objects of the other types the newest so many have a line also when they are \
              closed */
#define KEEP_EVERY_NS 250000000u
#define KEEP_ONE_IN   1000 /* of the drain thread's time at most, for making them */

/* ---- one line per object ---- */

const char *(*capo_fi_strerror)(int code);

static void sum_posts(struct capo_fabric_counts *to, const struct fi_post_set *set, unsigned n)
{
        for (unsigned s = 0; s < n; s++) {
                for (int k = 0; k < CAPO_FI_KINDS; k++) {
                        to->kind[k].bytes += set[s].bytes[k];
                        for (int b = 0; b < CAPO_FI_SIZES; b++) {
                                uint64_t posts = set[s].sizes[k][b];

                                to->kind[k].sizes[b] += posts;
                                to->kind[k].count += posts;
                        }
                }
                to->eagain += set[s].eagain;
        }
}

static void sum_reads(struct capo_fabric_counts *to, const struct fi_cq_set *set, unsigned n,
                      uint64_t empty)
{
        to->empty = empty;
        for (unsigned s = 0; s < n; s++) {
                to->reads += set[s].reads;
                to->completions += set[s].completions;
                to->received += set[s].received;
                to->received_bytes += set[s].received_bytes;
        }
}

static_assert(FI_ERRORS <= CAPO_FABRIC_ERRORS, "rows");

static void name_errors(struct capo_fabric_counts *to, const struct fi_errors *e)
{
        struct capo_fabric_error *row = to->error;

        for (int i = 0; i < FI_ERRORS; i++) {
                if (e->row[i].code && e->row[i].count) {
                        row->code = e->row[i].code;
                        row->count = e->row[i].count;
                        snprintf(row->text, sizeof row->text, "%s",
                                 capo_fi_strerror ? capo_fi_strerror(row->code) : "");
                        row++;
                }
        }
        to->errors_other = e->other;
}

static void add_times(struct capo_fabric_hist *to, const struct fi_hist *h)
{
        uint64_t max_ns = h->max_ns;

        to->sum_ns += h->sum_ns;
        to->max_ns = max_ns > to->max_ns ? max_ns : to->max_ns;
        for (unsigned b = 0; b < CAPO_HIST_BUCKETS; b++) {
                uint32_t n = h->bucket[b];

                to->bucket[b] += n;
                to->count += n;
        }
}

static const char *ep_type_name(unsigned type)
{
        switch (type) {
        case FI_EP_MSG: return "msg";
        case FI_EP_DGRAM: return "dgram";
        case FI_EP_RDM: return "rdm";
        default: return "other";
        }
}

#define COPY_NAME(to, from) snprintf(to, sizeof(to), "%s", from)

static void put_fabric(struct capo_fabric_text *t, const struct fi_fabric *f)
{
        static struct capo_fabric_root line;

        line = (struct capo_fabric_root){.id = f->o.id, .closed = !f->o.fid, .api = f->api_version};
        COPY_NAME(line.provider, f->provider);
        COPY_NAME(line.name, f->name);
        name_errors(&line.n, &f->o.errors);
        capo_fabric_put(t, CAPO_FABRIC_FABRIC, &line);
}

/* Is what stands in their lines beside numbers the same? */
static bool domains_match(const struct fi_domain *a, const struct fi_domain *b)
{
        return !strcmp(a->name, b->name) && !strcmp(a->pci, b->pci) &&
               !strcmp(a->device, b->device) && !strcmp(a->fabric->provider, b->fabric->provider) &&
               !strcmp(a->fabric->name, b->fabric->name) && !a->ops.real == !b->ops.real;
}

/* @all: of the objects, for other domains whose line it is. */
static void put_domain(struct capo_fabric_text *t, struct fi_domain *d, const struct fi_object *all)
{
        static struct capo_fabric_domain line;

        line = (struct capo_fabric_domain){.id = d->o.id,
                                           .closed = !d->o.fid,
                                           .fabric_id = d->fabric->o.id,
                                           .numa = d->numa,
                                           .unseen = !d->ops.real,
                                           .speed_bps = d->speed_bps,
                                           .sample = d->sample_every,
                                           .folded = d->rest.objects};
        COPY_NAME(line.provider, d->fabric->provider);
        COPY_NAME(line.fabric, d->fabric->name);
        COPY_NAME(line.name, d->name);
        COPY_NAME(line.device, d->device);
        COPY_NAME(line.nic, d->pci);
        for (const struct fi_object *o = all; o; o = o->next) {
                const struct fi_domain *in = (const struct fi_domain *)o;

                if (o->type != FI_T_DOMAIN || in->line != d)
                        continue;
                line.lost_samples += in->lost_samples;
                line.mr_count += in->mr_count;
                line.mr_bytes += in->mr_bytes;
                line.mr_failed += in->mr_failed;
                add_times(&line.mr, &in->mr_time);
                add_times(&line.tx, &in->tx_time);
                add_times(&line.rx, &in->rx_time);
                capo_fi_errors_add(&d->rest.errors, &o->errors);
        }
        sum_posts(&line.n, &d->rest.post, 1);
        line.n.blind = d->rest.blind;
        line.n.blind_bytes = d->rest.blind_bytes;
        sum_reads(&line.n, &d->rest.cq, 1, d->rest.empty);
        name_errors(&line.n, &d->rest.errors);
        capo_fabric_put(t, CAPO_FABRIC_DOMAIN, &line);
}

/* What is the type's own of an endpoint, queue or counter. */
static void fill_type_fields(struct capo_fabric_object *line, const struct fi_object *o)
{
        const struct fi_ep *e = (const struct fi_ep *)o;
        const struct fi_cq *c = (const struct fi_cq *)o, *tx, *rx;
        const struct fi_cntr *n = (const struct fi_cntr *)o;

        switch (o->type) {
        case FI_T_EP:
                COPY_NAME(line->type, ep_type_name(e->ep_type));
                tx = e->cq[0];
                rx = e->cq[1];
                line->tx_cq = tx ? tx->o.id : 0;
                line->rx_cq = rx ? rx->o.id : 0;
                snprintf(line->contexts_repeat, sizeof line->contexts_repeat, "%s%s",
                         e->repeats[0] ? "tx" : "", e->repeats[1] ? "rx" : "");
                sum_posts(&line->n, e->set, FI_SETS);
                capo_fi_blind(e, &line->n.blind, &line->n.blind_bytes);
                break;
        case FI_T_CQ:
                sum_reads(&line->n, c->set, FI_SETS, c->empty);
                line->outstanding = outstanding_of(c, &line->unsure);
                line->completed_ns = o->noted.id == line->id ? o->noted.cq.t_completed : 0;
                break;
        case FI_T_CNTR:
                line->n.reads = n->reads;
                line->waits = n->waits;
                line->value = n->last;
                break;
        case FI_T_EQ:
                line->events = ((const struct fi_eq *)o)->events;
                line->n.empty = ((const struct fi_eq *)o)->empty;
                break;
        case FI_T_PEP:
                line->listens = ((const struct fi_pep *)o)->listens;
                line->rejects = ((const struct fi_pep *)o)->rejects;
                break;
        }
}

static void put_object(struct capo_fabric_text *t, struct fi_object *o)
{
        static const uint8_t lines[FI_TYPES] = {
#define OBJECT(id, type, recycles) [FI_T_##id] = CAPO_FABRIC_##id,
#include "shim/fabric/ops.def"
        };
        static struct capo_fabric_object line;

        if (o->type == FI_T_FABRIC) {
                put_fabric(t, (const struct fi_fabric *)o);
        } else {
                const struct fi_domain *d = o->domain;

                line = (struct capo_fabric_object){
                        .id = o->id, .domain = d ? d->line->o.id : 0, .closed = !o->fid};
                fill_type_fields(&line, o);
                name_errors(&line.n, &o->errors);
                if (line.id && o->id == line.id) /* else the memory is another object's by now */
                        capo_fabric_put(t, lines[o->type], &line);
        }
}

/* ---- machine ---- */

/* Devices made for a training job's network, used or not: as many as fit. */
static void read_devices(const char *class, char *list, size_t room)
{
        char path[PATH_MAX];
        struct dirent *e;
        DIR *dir;

        list[0] = 0;
        if (snprintf(path, sizeof path, "%s/class/%s", capo_shim_env()->sysfs, class) >=
            (int)sizeof path)
                return;
        dir = opendir(path);
        while (dir && (e = readdir(dir)) && strlen(list) + 50 < room) {
                if (e->d_name[0] != '.')
                        capo_append(list, room, "%s%.48s", *list ? "," : "", e->d_name);
        }
        if (dir)
                closedir(dir);
}

/* Read once: snapshots are made where nothing may be allocated and no folder read, and repeat it,
 * because a reader may keep only the last of them. */
static struct capo_fabric_machine machine;

/* ---- the callbacks ---- */

/* Word by word, as other threads add to it. */
static void copy_folded(struct fi_folded *to, const struct fi_folded *from)
{
        static_assert(sizeof *to % sizeof(uint64_t) == 0, "whole words");
        for (size_t i = 0; i < sizeof *to / sizeof(uint64_t); i++)
                ((uint64_t *)to)[i] = __atomic_load_n((const uint64_t *)from + i, __ATOMIC_RELAXED);
}

/* Which domain is in whose line. A program that opens one after another on the same NIC for hours
 * would have a line for each: of those that are closed the older ones share one. */
static void share_lines(struct fi_object *all)
{
        unsigned n = 0;

        for (struct fi_object *o = all; o; o = o->next) {
                struct fi_domain *d = (struct fi_domain *)o;

                if (o->type != FI_T_DOMAIN)
                        continue;
                d->line = d;
                memset(&d->rest, 0, sizeof d->rest);
                if (n++ < FI_CLOSED_LINES || o->fid)
                        continue;
                for (struct fi_object *k = all; k != o; k = k->next) {
                        struct fi_domain *newer = (struct fi_domain *)k;

                        if (k->type == FI_T_DOMAIN && !k->fid && newer->line == newer &&
                            domains_match(newer, d)) {
                                d->line = newer;
                                break;
                        }
                }
        }
}

static void put_snapshot(void (*out)(unsigned type, const char *text, size_t size))
{
        static struct capo_fabric_text t;
        static struct fi_folded folded;
        static uint64_t snapshot;
        struct fi_object *all = atomic_load_explicit(&capo_fi_objects, memory_order_acquire);
        unsigned n_lines = 0, n_others = 0;
        size_t before;

        capo_fabric_begin(&t, ++snapshot, out);
        capo_fabric_put(&t, CAPO_FABRIC_MACHINE, &machine);
        before = t.lines_size;
        share_lines(all);
        for (struct fi_object *o = all; o; o = o->next) {
                if (o->type == FI_T_DOMAIN) {
                        copy_folded(&folded, &((struct fi_domain *)o)->folded);
                        capo_fi_fold_more(&((struct fi_domain *)o)->line->rest, &folded);
                }
        }
        for (struct fi_object *o = all; o;
             o = o->next) { /* newest first; memory used again is where it was */
                struct fi_domain *domain = o->domain;

                if (domain && (n_lines == FI_LINES || t.lines_size - before > FI_LINES_SIZE)) {
                        capo_fi_fold(&domain->line->rest, o);
                } else if (domain) {
                        n_lines++;
                        put_object(&t, o);
                } else if (o->type != FI_T_DOMAIN && (n_others++ < FI_CLOSED_LINES || o->fid)) {
                        put_object(&t, o);
                }
        }
        for (struct fi_object *o = all; o; o = o->next) { /* now that all is counted in them */
                if (o->type == FI_T_DOMAIN &&
                    ((struct fi_domain *)o)->line == (struct fi_domain *)o)
                        put_domain(&t, (struct fi_domain *)o, all);
        }
        capo_fi_windows_put(&t);
        if (counted_ns)
                capo_fabric_put(&t, CAPO_FABRIC_LOOKED,
                                &(struct capo_fabric_last_count){.at_ns = counted_ns});
        for (unsigned i = 0; i <= FI_INSIDE; i++) {
                const struct fi_inside *in = &capo_fi_inside[i];
                struct capo_fabric_inside line = {.comm_uid = in->comm_uid,
                                                  .call = in->call,
                                                  .ops = in->ops,
                                                  .bytes = in->bytes};

                if (line.ops)
                        capo_fabric_put(&t, CAPO_FABRIC_INSIDE, &line);
        }
        capo_fabric_end(&t);
}

static uint64_t t_keep; /* CLOCK_MONOTONIC of the next one that is kept */

static void write_snapshot(bool last)
{
        if (last)
                capo_fi_windows_poll(true);
        put_snapshot(capo_shim_text);
        /* Who looks at the segment knows no less than the log: of a hang it is asked at once
         * (shim/record/hang_record.c). */
        t_keep = 0;
}

/* Checkpoints are up to ten minutes apart. What was counted since the last one would be lost with a
 * process that is killed, so a snapshot is also kept in the segment, where it costs no writing, and
 * renewed as often as its making is cheap. */
static void keep_snapshot(void)
{
        uint64_t now = capo_clock_mono(), took;

        if (now < t_keep)
                return;
        took = capo_clock_of(CLOCK_THREAD_CPUTIME_ID);
        capo_shim_keep_begin();
        put_snapshot(capo_shim_keep);
        capo_shim_keep_end();
        took = capo_clock_of(CLOCK_THREAD_CPUTIME_ID) - took;
        t_keep = now + (KEEP_EVERY_NS > took * KEEP_ONE_IN ? KEEP_EVERY_NS : took * KEEP_ONE_IN);
}

_Atomic uint64_t capo_fi_in_passing_at;

void capo_fi_in_passing(void)
{
        int saved = errno;

        if (capo_shim_alone() && capo_shim_env()->fabric_sample > 0) {
                keep_snapshot();
                capo_fi_in_passing_at = t_keep;
        } else { /* threads come and go; once there was a second one ours stays */
                capo_fi_in_passing_at = UINT64_MAX;
                capo_shim_thread();
        }
        errno = saved;
}

static void round_of_drain(void)
{
        capo_fi_windows_poll(false);
        count_outstanding();
        keep_snapshot();
}

static atomic_flag started;

/* After fork() the child starts from nothing: what was counted belongs to the parent. */
static void reset_after_fork(void)
{
        memset(capo_fi_inside, 0, sizeof capo_fi_inside);
        t_keep = 0;
        capo_fi_in_passing_at = 0;
        capo_fi_forget();
        counted_ns = next_ns = 0;
        unknown_for_good = false;
        for (struct fi_object *o = capo_fi_objects; o; o = o->next)
                o->noted = (struct fi_noted){0};
        atomic_flag_clear(&started);
}

bool capo_fi_text_start(void)
{
        static const struct capo_shim_part part = {write_snapshot, round_of_drain,
                                                   reset_after_fork};

        if (atomic_flag_test_and_set(&started))
                return false;
        capo_fi_windows_start();
        read_devices("infiniband", machine.infiniband, sizeof machine.infiniband);
        read_devices("cxi", machine.cxi, sizeof machine.cxi);
        read_devices("net", machine.net, sizeof machine.net);
        capo_shim_join(&part);
        capo_fi_in_passing();
        return true;
}
