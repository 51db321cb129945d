/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The FABRIC frames of the log: what has been counted, one line per object. docs/log-format.md describes the lines;
 * profiles/job/fabric_read.c reads them.
 *
 * Every checkpoint writes a whole new snapshot under the next number, and a reader keeps the last. The counters are
 * read while they are being written; each is a whole number, two of them may be a moment apart.
 *
 * Between checkpoints the drain thread's rounds also fill a table of windows: how much went over each domain in which
 * span of time. That is what lets the report lay network traffic of a progress thread against the collectives that were
 * under way, without a clock in the data path. The table has FI_WINDOWS places; when it is full the older half is
 * merged pairwise, so the recent past is fine-grained and the distant one coarse.
 */
#include <dirent.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "capo/msg.h"
#include "core/base/clock.h"
#include "shim/fabric/fabric.h"
#include "shim/record/shim.h"

#define FI_WINDOWS       512
#define FI_WINDOW_MIN_NS 5000000u
#define FI_LINES         256   /* endpoints, queues and counters with a line of their own; the newest */
#define FI_PIECE         32768 /* bytes of text handed over at once */
#define KEEP_EVERY_NS    250000000u
#define KEEP_ONE_IN      1000 /* of the drain thread's time at most, for making them */

/* ---- a line at a time -------------------------------------------------------------------------------------------- */

struct text {
        char room[FI_PIECE];
        size_t n;
        size_t line; /* where the line under construction began */
        uint64_t snapshot;
        void (*out)(unsigned type, const char *text, size_t size);
};

static void text_begin_piece(struct text *t)
{
        t->n = (size_t)snprintf(t->room, sizeof t->room, "snapshot\t%lu\n", (unsigned long)t->snapshot);
        t->line = t->n;
}

static void text_flush(struct text *t)
{
        if (t->line)
                t->out(CAPO_FRAME_FABRIC, t->room, t->line);
}

static void __attribute__((format(printf, 2, 3))) put(struct text *t, const char *format, ...)
{
        va_list args;
        int n;

        va_start(args, format);
        n = vsnprintf(t->room + t->n, sizeof t->room - t->n, format, args);
        va_end(args);
        if (n > 0)
                t->n += (size_t)n < sizeof t->room - t->n ? (size_t)n : sizeof t->room - t->n - 1;
}

/* A name from outside: tabs and control characters would break the line. */
static void put_name(struct text *t, const char *key, const char *value)
{
        char clean[64];
        size_t i;

        if (!value[0])
                return;
        for (i = 0; i + 1 < sizeof clean && value[i]; i++)
                clean[i] = (unsigned char)value[i] < ' ' ? ' ' : value[i];
        clean[i] = 0;
        put(t, "\t%s=%s", key, clean);
}

static void put_number(struct text *t, const char *key, uint64_t value)
{
        if (value)
                put(t, "\t%s=%lu", key, (unsigned long)value);
}

static void end_line(struct text *t)
{
        put(t, "\n");
        t->line = t->n;
        if (t->n > FI_PIECE / 2) {
                text_flush(t);
                text_begin_piece(t);
        }
}

/* Thousands of these make a snapshot, so without printf(). */
static void put_look(struct text *t, uint64_t gap, char letter)
{
        char digits[24];
        size_t n = sizeof digits;

        digits[--n] = letter;
        do
                digits[--n] = (char)('0' + gap % 10);
        while (gap /= 10);
        if (t->n + sizeof digits - n >= sizeof t->room)
                return;
        memcpy(t->room + t->n, digits + n, sizeof digits - n);
        t->n += sizeof digits - n;
}

static void put_hist(struct text *t, const char *key, const struct fi_hist *h)
{
        uint64_t n = 0;
        const char *sep = "";

        for (unsigned b = 0; b < CAPO_HIST_BUCKETS; b++)
                n += h->bucket[b];
        if (!n)
                return;
        put(t, "\t%s=%lu,%lu,%lu;", key, (unsigned long)n, (unsigned long)h->sum_ns, (unsigned long)h->max_ns);
        for (unsigned b = 0; b < CAPO_HIST_BUCKETS; b++) {
                if (h->bucket[b]) {
                        put(t, "%s%u:%u", sep, b, h->bucket[b]);
                        sep = ",";
                }
        }
}

static void put_errors(struct text *t, const struct fi_errors *e)
{
        for (int i = 0; i < FI_ERRORS; i++) {
                if (e->row[i].code && e->row[i].count) {
                        char text[64];

                        snprintf(text, sizeof text, "%d,%lu,%s", e->row[i].code, (unsigned long)e->row[i].count,
                                 capo_fi_strerror(e->row[i].code));
                        put_name(t, "error", text);
                }
        }
        put_number(t, "errors_other", e->other);
}

/* ---- one line per object ----------------------------------------------------------------------------------------- */

static void put_posts(struct text *t, const struct fi_post_set *set, unsigned n)
{
        static const char *const names[] = {
#define KIND(id, name, transmits) name,
                CAPO_FI_KIND_LIST(KIND)
#undef KIND
        };
        uint64_t eagain = 0;

        for (int k = 0; k < CAPO_FI_KINDS; k++) {
                uint64_t count = 0, bytes = 0, sizes[CAPO_FI_SIZES] = {0};
                const char *sep = "";

                for (unsigned s = 0; s < n; s++) {
                        bytes += set[s].bytes[k];
                        for (int b = 0; b < CAPO_FI_SIZES; b++) {
                                sizes[b] += set[s].sizes[k][b];
                                count += set[s].sizes[k][b];
                        }
                }
                if (!count)
                        continue;
                put(t, "\t%s=%lu,%lu;", names[k], (unsigned long)count, (unsigned long)bytes);
                for (int b = 0; b < CAPO_FI_SIZES; b++) {
                        if (sizes[b]) {
                                put(t, "%s%d:%lu", sep, b, (unsigned long)sizes[b]);
                                sep = ",";
                        }
                }
        }
        for (unsigned s = 0; s < n; s++)
                eagain += set[s].eagain;
        put_number(t, "eagain", eagain);
}

static void put_reads(struct text *t, const struct fi_cq_set *set, unsigned n, uint64_t empty)
{
        struct fi_cq_set sum;

        memset(&sum, 0, sizeof sum);

        for (unsigned s = 0; s < n; s++) {
                sum.reads += set[s].reads;
                sum.completions += set[s].completions;
                sum.received += set[s].received;
                sum.received_bytes += set[s].received_bytes;
        }
        put_number(t, "empty", empty);
        put_number(t, "reads", sum.reads);
        put_number(t, "completions", sum.completions);
        if (sum.received)
                put(t, "\treceived=%lu,%lu", (unsigned long)sum.received, (unsigned long)sum.received_bytes);
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

static void put_object(struct text *t, const struct fi_object *o)
{
        static const char *const type_names[] = {
                [FI_T_DOMAIN] = "domain", [FI_T_EP] = "ep", [FI_T_PEP] = "pep",      [FI_T_CQ] = "cq",
                [FI_T_CNTR] = "cntr",     [FI_T_EQ] = "eq", [FI_T_FABRIC] = "fabric"};
        const struct fi_domain *domain = o->domain;

        put(t, "%s\tid=%u\tdomain=%u%s", type_names[o->type], o->id, domain ? domain->o.id : 0,
            o->fid ? "" : "\tclosed=1");
        switch ((enum fi_object_type)o->type) {
        case FI_T_FABRIC: {
                const struct fi_fabric *f = (const struct fi_fabric *)o;

                put_name(t, "provider", f->provider);
                put_name(t, "name", f->name);
                put(t, "\tapi=%u.%u", FI_MAJOR(f->api_version), FI_MINOR(f->api_version));
                break;
        }
        case FI_T_DOMAIN: {
                const struct fi_domain *d = (const struct fi_domain *)o;

                put(t, "\tfabric=%u", d->fabric->o.id);
                put_name(t, "provider", d->fabric->provider);
                put_name(t, "fabric_name", d->fabric->name);
                put_name(t, "name", d->name);
                put_name(t, "device", d->device);
                put_name(t, "nic", d->pci);
                put_number(t, "speed", d->speed_bps);
                if (d->numa >= 0)
                        put(t, "\tnuma=%d", d->numa);
                if (d->mr_count)
                        put(t, "\tmr=%lu,%lu", (unsigned long)d->mr_count, (unsigned long)d->mr_bytes);
                put_number(t, "mr_failed", d->mr_failed);
                put_hist(t, "mr_ns", &d->mr_time);
                put(t, "\tsample=%u", d->sample_every);
                put_hist(t, "tx_ns", &d->tx_time);
                put_hist(t, "rx_ns", &d->rx_time);
                put_number(t, "lost_samples", d->lost_samples);
                if (d->rest.objects) {
                        put_number(t, "folded", d->rest.objects);
                        put_posts(t, &d->rest.post, 1);
                        put_reads(t, &d->rest.cq, 1, d->rest.empty);
                        put_errors(t, &d->rest.errors);
                }
                break;
        }
        case FI_T_EP: {
                const struct fi_ep *e = (const struct fi_ep *)o;

                put_name(t, "type", ep_type_name(e->ep_type));
                put_number(t, "tx_cq", e->tx_cq ? e->tx_cq->o.id : 0);
                put_number(t, "rx_cq", e->rx_cq ? e->rx_cq->o.id : 0);
                if (e->repeats[0] || e->repeats[1])
                        put(t, "\tcontexts_repeat=%s%s", e->repeats[0] ? "tx" : "", e->repeats[1] ? "rx" : "");
                put_posts(t, e->set, FI_SETS);
                break;
        }
        case FI_T_CQ: put_reads(t, ((const struct fi_cq *)o)->set, FI_SETS, ((const struct fi_cq *)o)->empty); break;
        case FI_T_CNTR:
                put_number(t, "reads", ((const struct fi_cntr *)o)->reads);
                put_number(t, "waits", ((const struct fi_cntr *)o)->waits);
                put_number(t, "value", ((const struct fi_cntr *)o)->last);
                break;
        case FI_T_EQ:
                put_number(t, "events", ((const struct fi_eq *)o)->events);
                put_number(t, "empty", ((const struct fi_eq *)o)->empty);
                break;
        case FI_T_PEP:
                put_number(t, "listens", ((const struct fi_pep *)o)->listens);
                put_number(t, "rejects", ((const struct fi_pep *)o)->rejects);
                break;
        case FI_TYPES: break;
        }
        put_errors(t, &o->errors);
        end_line(t);
}

/* ---- windows ----------------------------------------------------------------------------------------------------- */

struct window {
        uint64_t begin, end; /* CLOCK_MONOTONIC */
        uint64_t ops, tx_bytes, rx_bytes;
};

static struct window window[FI_WINDOWS];
static unsigned n_windows;
static struct window so_far; /* totals at `end` */
static unsigned n_looked_at; /* objects; adding one up takes about a microsecond, so many make the windows longer */

const bool capo_fi_transmits[CAPO_FI_KINDS] = {
#define KIND(id, name, tx) tx,
        CAPO_FI_KIND_LIST(KIND)
#undef KIND
};

static void add_post(struct window *w, const struct fi_post_set *s)
{
        for (int k = 0; k < CAPO_FI_KINDS; k++) {
                for (int b = 0; b < CAPO_FI_SIZES; b++)
                        w->ops += s->sizes[k][b];
                if (capo_fi_transmits[k])
                        w->tx_bytes += s->bytes[k];
        }
}

static struct window total(void)
{
        struct window w = {.end = capo_clock_mono()};

        n_looked_at = 0;
        for (struct fi_object *o = atomic_load_explicit(&capo_fi_objects, memory_order_acquire); o; o = o->next) {
                n_looked_at++;
                if (o->type == FI_T_EP) {
                        for (int s = 0; s < FI_SETS; s++)
                                add_post(&w, &((struct fi_ep *)o)->set[s]);
                } else if (o->type == FI_T_CQ) {
                        for (int s = 0; s < FI_SETS; s++)
                                w.rx_bytes += ((struct fi_cq *)o)->set[s].received_bytes;
                } else if (o->type == FI_T_DOMAIN) {
                        add_post(&w, &((struct fi_domain *)o)->folded.post);
                        w.rx_bytes += ((struct fi_domain *)o)->folded.cq.received_bytes;
                }
        }
        return w;
}

static void merge_older_half(void)
{
        unsigned half = FI_WINDOWS / 2, out = 0;

        for (unsigned i = 0; i < half; i += 2, out++) {
                window[out] = window[i];
                window[out].end = window[i + 1].end;
                window[out].ops += window[i + 1].ops;
                window[out].tx_bytes += window[i + 1].tx_bytes;
                window[out].rx_bytes += window[i + 1].rx_bytes;
        }
        memmove(&window[out], &window[half], (n_windows - half) * sizeof window[0]);
        n_windows -= half - out;
}

static void poll_windows(bool last)
{
        uint64_t now = capo_clock_mono();
        struct window t;

        if (now - so_far.end < FI_WINDOW_MIN_NS + n_looked_at * 100000u && !last)
                return;
        t = total();
        if (t.ops > so_far.ops || t.rx_bytes > so_far.rx_bytes) {
                if (n_windows == FI_WINDOWS)
                        merge_older_half();
                window[n_windows++] =
                        (struct window){.begin = so_far.end,
                                        .end = t.end,
                                        .ops = t.ops - so_far.ops,
                                        .tx_bytes = t.tx_bytes - so_far.tx_bytes,
                                        .rx_bytes = t.rx_bytes > so_far.rx_bytes ? t.rx_bytes - so_far.rx_bytes : 0};
        }
        so_far = t;
}

/* ---- looks ------------------------------------------------------------------------------------------------------- */

#define LOOKS_IN_LINE 1000

/* "gap" and a letter for each: microseconds since the one before, and what was seen. A line has looks of one weight. */
static void put_looks(struct text *t)
{
        static const char letters[] = "imwbIMWB"; /* by enum fi_look_state */
        uint64_t taken, late, before = 0;
        const struct fi_look *look;
        unsigned n = capo_fi_looks(&look, &taken, &late), left = 0;

        if (!n)
                return;
        put(t, "looked\ttaken=%lu\tlate=%lu\tslit=%u", (unsigned long)taken, (unsigned long)late, FI_LOOK_SLIT_NS);
        for (unsigned i = 0; i < n; before = look[i++].t_us) {
                if (left == 0 || look[i].level != look[i - 1].level) {
                        end_line(t);
                        put(t,
                            "looks\tevery=%lu\tbegin=%lu\tseen=", (unsigned long)capo_fi_look_every() << look[i].level,
                            (unsigned long)look[i].t_us * 1000);
                        before = look[i].t_us;
                        left = LOOKS_IN_LINE;
                }
                left--;
                put_look(t, look[i].t_us - before, letters[look[i].state]);
        }
        end_line(t);
}

/* ---- machine ----------------------------------------------------------------------------------------------------- */

/* Devices made for what is underneath a training job, whether or not anybody uses them. */
static void put_devices(struct text *t, const char *class)
{
        char path[PATH_MAX];
        const char *sep = "=";
        struct dirent *e;
        DIR *dir;

        if (snprintf(path, sizeof path, "%s/class/%s", capo_shim_env()->sysfs, class) >= (int)sizeof path)
                return;
        dir = opendir(path);
        while (dir && (e = readdir(dir)) && t->n < FI_PIECE / 2) {
                if (e->d_name[0] == '.')
                        continue;
                if (*sep == '=')
                        put(t, "\t%s", class);
                put(t, "%s%.48s", sep, e->d_name);
                sep = ",";
        }
        if (dir)
                closedir(dir);
}

/* Read once: snapshots are made where nothing may be allocated and no folder read, and repeat it, because a reader may
 * keep only the last of them. */
static struct text machine;

static void read_machine(void)
{
        machine.n = 0;
        put(&machine, "machine");
        put_devices(&machine, "infiniband");
        put_devices(&machine, "cxi");
        put_devices(&machine, "net");
}

static void put_machine(struct text *t)
{
        put(t, "%.*s", (int)machine.n, machine.room);
        end_line(t);
}

/* ---- the callbacks ----------------------------------------------------------------------------------------------- */

static void put_snapshot(void (*out)(unsigned type, const char *text, size_t size))
{
        static struct text t;
        static uint64_t snapshot;
        unsigned n_lines = 0;

        t.snapshot = ++snapshot;
        t.out = out;
        text_begin_piece(&t);
        put_machine(&t);
        for (struct fi_object *o = atomic_load_explicit(&capo_fi_objects, memory_order_acquire); o; o = o->next) {
                if (o->type == FI_T_DOMAIN)
                        ((struct fi_domain *)o)->rest = ((struct fi_domain *)o)->folded;
        }
        for (struct fi_object *o = atomic_load_explicit(&capo_fi_objects, memory_order_acquire); o; o = o->next) {
                struct fi_domain *domain = o->domain;

                /* newest first, so a domain comes after its endpoints and queues */
                if (domain && n_lines++ >= FI_LINES)
                        capo_fi_fold(&domain->rest, o);
                else
                        put_object(&t, o);
        }
        for (unsigned i = 0; i < n_windows; i++) {
                put(&t, "window\tbegin=%lu\tend=%lu\tops=%lu\ttx=%lu\trx=%lu", (unsigned long)window[i].begin,
                    (unsigned long)window[i].end, (unsigned long)window[i].ops, (unsigned long)window[i].tx_bytes,
                    (unsigned long)window[i].rx_bytes);
                end_line(&t);
        }
        put_looks(&t);
        for (unsigned i = 0; i < FI_INSIDE; i++) {
                const struct fi_inside *in = &capo_fi_inside[i];

                if (in->ops) {
                        put(&t, "inside\tcomm=%lu\tcall=%u\tops=%lu\tbytes=%lu", (unsigned long)in->comm_uid, in->call,
                            (unsigned long)in->ops, (unsigned long)in->bytes);
                        end_line(&t);
                }
        }
        put(&t, "complete\t%lu", (unsigned long)t.snapshot);
        end_line(&t);
        text_flush(&t);
}

static void write_snapshot(bool last)
{
        if (last)
                poll_windows(true);
        put_snapshot(capo_shim_text);
}

static uint64_t t_keep; /* CLOCK_MONOTONIC of the next one */

/*
 * Checkpoints are up to ten minutes apart. What was counted since the last one would be lost with a process that is
 * killed, so a snapshot is also kept in the segment, where it costs no writing, and renewed as often as its making is
 * cheap.
 */
static void keep_snapshot(void)
{
        uint64_t now = capo_clock_mono(), took;

        if (now < t_keep)
                return;
        took = capo_clock_thread_cpu();
        capo_shim_keep_begin();
        put_snapshot(capo_shim_keep);
        capo_shim_keep_end();
        took = capo_clock_thread_cpu() - took;
        t_keep = now + (KEEP_EVERY_NS > took * KEEP_ONE_IN ? KEEP_EVERY_NS : took * KEEP_ONE_IN);
}

_Atomic uint64_t capo_fi_in_passing_at;

void capo_fi_in_passing(void)
{
        if (capo_shim_alone() && capo_shim_env()->fabric_sample > 0) {
                keep_snapshot();
                capo_fi_in_passing_at = t_keep;
        } else { /* threads come and go; once there was a second one ours stays */
                capo_fi_in_passing_at = UINT64_MAX;
                capo_shim_thread();
        }
}

static void round_of_drain(void)
{
        poll_windows(false);
        capo_fi_look();
        keep_snapshot();
}

static atomic_flag started = ATOMIC_FLAG_INIT;
static atomic_flag fork_known = ATOMIC_FLAG_INIT;

/* After fork() the child starts from nothing: what was counted belongs to the parent. */
static void forked(void)
{
        n_windows = 0;
        memset(&so_far, 0, sizeof so_far);
        memset(capo_fi_inside, 0, sizeof capo_fi_inside);
        t_keep = 0;
        capo_fi_in_passing_at = 0;
        capo_fi_forget();
        capo_fi_look_forget();
        atomic_flag_clear(&started);
}

bool capo_fi_text_start(void)
{
        if (atomic_flag_test_and_set(&started))
                return false;
        so_far.end = capo_clock_mono();
        read_machine();
        capo_fi_look_start();
        capo_shim_at_checkpoint(write_snapshot);
        capo_shim_at_poll(round_of_drain);
        if (!atomic_flag_test_and_set(&fork_known))
                capo_shim_at_fork(forked);
        capo_fi_in_passing();
        return true;
}
