/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of shadows, and the list of all.
 *
 * A shadow outlives its object: a thread may be in one of our entries while another closes the
 * object. Closed endpoints and queues wait in a queue of FI_QUARANTINE before their memory is used
 * again; their counts are folded into their domain. So memory is bounded by the largest number of
 * objects open at once. */
#include "capo/msg.h"
#include "core/base/lock.h"
#include "shim/fabric/shim_fabric.h"
#include "shim/record/shim.h"

#define FI_QUARANTINE 128 /* closed shadows of a type that rest before one is used again */
#define FI_MOST_DOMAINS \
        1024 /* fabrics, domains, passive endpoints and event queues that are followed */

struct fi_object *_Atomic capo_fi_objects;
pthread_mutex_t capo_fi_lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
        struct fi_object *first, *last;
        unsigned n;
} closed[FI_TYPES];
static struct fi_object *_Atomic newest[FI_TYPES];
static uint32_t n_objects;
static unsigned n_kept[FI_TYPES];

void capo_fi_error(struct fi_errors *e, int code, uint64_t n)
{
        code = abs(code);
        for (int i = 0; i < FI_ERRORS; i++) {
                int free_row = 0;

                if (e->row[i].code == code ||
                    (atomic_compare_exchange_strong(&e->row[i].code, &free_row, code)) ||
                    free_row == code) {
                        e->row[i].count += n;
                        return;
                }
        }
        e->other += n;
}

void capo_fi_errors_add(struct fi_errors *to, const struct fi_errors *from)
{
        for (int i = 0; i < FI_ERRORS; i++) {
                if (from->row[i].code)
                        capo_fi_error(to, from->row[i].code, from->row[i].count);
        }
        to->other += from->other;
}

static void add_posts(struct fi_post_set *to, const struct fi_post_set *from)
{
        to->eagain += from->eagain;
        for (int k = 0; k < CAPO_FI_KINDS; k++) {
                to->bytes[k] += from->bytes[k];
                for (int b = 0; b < CAPO_FI_SIZES; b++)
                        to->sizes[k][b] += from->sizes[k][b];
        }
}

static void add_reads(struct fi_cq_set *to, const struct fi_cq_set *from)
{
        to->reads += from->reads;
        to->completions += from->completions;
        to->received += from->received;
        to->received_bytes += from->received_bytes;
}

void capo_fi_fold(struct fi_folded *f, const struct fi_object *o)
{
        f->objects++;
        if (o->type == FI_T_EP) {
                for (int s = 0; s < FI_SETS; s++)
                        add_posts(&f->post, &((const struct fi_ep *)o)->set[s]);
                capo_fi_blind((const struct fi_ep *)o, &f->blind, &f->blind_bytes);
        } else if (o->type == FI_T_CQ) {
                f->empty += ((const struct fi_cq *)o)->empty;
                for (int s = 0; s < FI_SETS; s++)
                        add_reads(&f->cq, &((const struct fi_cq *)o)->set[s]);
        }
        capo_fi_errors_add(&f->errors, &o->errors);
}

void capo_fi_fold_more(struct fi_folded *to, const struct fi_folded *from)
{
        to->objects += from->objects;
        add_posts(&to->post, &from->post);
        to->blind += from->blind;
        to->blind_bytes += from->blind_bytes;
        add_reads(&to->cq, &from->cq);
        to->empty += from->empty;
        capo_fi_errors_add(&to->errors, &from->errors);
}

/* Whole words become 0; who reads one of these zeros sees also what was written before. */
static void zero_words(void *from, size_t size)
{
        uint64_t *word = from;

        for (size_t i = 0; i < size / sizeof *word; i++)
                __atomic_store_n(&word[i], 0, __ATOMIC_RELEASE);
}

void *capo_fi_new(enum fi_object_type type, struct fid *fid, struct fi_domain *domain)
{
        static const struct {
                size_t size;
                bool recycles;
        } types[] = {
#define OBJECT(id, type, recycles) {sizeof(struct type), recycles},
#include "shim/fabric/ops.def"
        };
        size_t size = types[type].size;
        bool recycles = types[type].recycles;
        struct fi_object *o = NULL;

        capo_lock(&capo_fi_lock);
        if (recycles && closed[type].n > FI_QUARANTINE) {
                const size_t kept = offsetof(struct fi_object, next_closed);

                o = closed[type].first;
                closed[type].first = o->next_closed;
                closed[type].n--;
                capo_fi_fold(&o->domain->folded, o);
                o->id = 0;
                zero_words((char *)o + kept, size - kept);
        } else if (recycles || n_kept[type] < FI_MOST_DOMAINS) {
                o = capo_shim_alloc(size);
                if (o) {
                        n_kept[type]++;
                        o->type = type;
                }
        } else {
                capo_warn_once(
                        "libfabric: more than %d objects of a kind: the rest is not followed",
                        FI_MOST_DOMAINS);
        }
        if (o) {
                o->fid = fid;
                o->domain = domain;
        }
        capo_unlock(&capo_fi_lock);
        return o;
}

void capo_fi_made(struct fi_object *o)
{
        capo_lock(&capo_fi_lock);
        o->id = ++n_objects;
        if (!o->listed) {
                o->listed = true;
                o->next = capo_fi_objects;
                o->same = newest[o->type];
                atomic_store_explicit(&capo_fi_objects, o, memory_order_release);
                atomic_store_explicit(&newest[o->type], o, memory_order_release);
        }
        capo_unlock(&capo_fi_lock);
}

struct fi_object *capo_fi_find(const struct fid *fid, enum fi_object_type type)
{
        struct fi_object *o = atomic_load_explicit(&newest[type], memory_order_acquire);

        while (o && o->fid != fid)
                o = o->same;
        return o;
}

void capo_fi_closed(struct fi_object *o)
{
        capo_lock(&capo_fi_lock);
        o->fid = NULL;
        o->next_closed = NULL;
        if (closed[o->type].n++ && closed[o->type].last)
                closed[o->type].last->next_closed = o;
        else
                closed[o->type].first = o;
        closed[o->type].last = o;
        capo_unlock(&capo_fi_lock);
}

static void clear_counts(struct fi_object *o)
{
        struct fi_ep *e = (struct fi_ep *)o;
        struct fi_cq *c = (struct fi_cq *)o;
        struct fi_domain *d = (struct fi_domain *)o;
        struct fi_cntr *n = (struct fi_cntr *)o;

        memset(&o->errors, 0, sizeof o->errors);
        switch ((enum fi_object_type)o->type) {
        case FI_T_FABRIC:
        case FI_TYPES: break;
        case FI_T_DOMAIN:
                d->mr_count = d->mr_bytes = d->mr_failed = d->lost_samples = 0;
                memset(&d->mr_time, 0, sizeof d->mr_time);
                memset(&d->tx_time, 0, sizeof d->tx_time);
                memset(&d->rx_time, 0, sizeof d->rx_time);
                memset(&d->folded, 0, sizeof d->folded);
                break;
        case FI_T_EP:
                for (int s = 0; s < FI_SETS; s++) {
                        e->set[s].eagain = 0;
                        memset(e->set[s].bytes, 0, sizeof e->set[s].bytes);
                        memset(e->set[s].sizes, 0, sizeof e->set[s].sizes);
                }
                break;
        case FI_T_CQ:
                c->empty = 0;
                for (int s = 0; s < FI_SETS; s++)
                        memset(&c->set[s].reads, 0,
                               sizeof c->set[s] - offsetof(struct fi_cq_set, reads));
                break;
        case FI_T_CNTR: /* what it stood at when it was last read stays */
                n->reads = n->waits = 0;
                break;
        case FI_T_EQ: ((struct fi_eq *)o)->events = ((struct fi_eq *)o)->empty = 0; break;
        case FI_T_PEP: ((struct fi_pep *)o)->listens = ((struct fi_pep *)o)->rejects = 0; break;
        }
}

void capo_fi_forget(void)
{
        pthread_mutex_init(&capo_fi_lock, NULL);
        for (struct fi_object *o = capo_fi_objects; o; o = o->next)
                clear_counts(o);
}
