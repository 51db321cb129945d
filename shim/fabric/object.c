/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of shadows, and the list of all.
 *
 * A shadow outlives its object: a thread may be in one of our entries while another closes the object. Closed endpoints
 * and queues wait in a queue of FI_QUARANTINE before their memory is used again; their counts are folded into their
 * domain. So memory is bounded by the largest number of objects open at once.
 */
#include <stdlib.h>
#include <string.h>

#include "capo/msg.h"
#include "core/base/lock.h"
#include "shim/fabric/fabric.h"
#include "shim/record/shim.h"

#define FI_QUARANTINE   128  /* closed shadows of a type that rest before one is used again */
#define FI_MOST_DOMAINS 1024 /* fabrics, domains, passive endpoints and event queues that are followed */

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

                if (e->row[i].code == code || (atomic_compare_exchange_strong(&e->row[i].code, &free_row, code)) ||
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

void capo_fi_fold(struct fi_folded *f, const struct fi_object *o)
{
        f->objects++;
        if (o->type == FI_T_EP) {
                const struct fi_ep *e = (const struct fi_ep *)o;

                for (int s = 0; s < FI_SETS; s++) {
                        f->post.eagain += e->set[s].eagain;
                        for (int k = 0; k < CAPO_FI_KINDS; k++) {
                                f->post.bytes[k] += e->set[s].bytes[k];
                                for (int b = 0; b < CAPO_FI_SIZES; b++)
                                        f->post.sizes[k][b] += e->set[s].sizes[k][b];
                        }
                }
        } else if (o->type == FI_T_CQ) {
                const struct fi_cq *c = (const struct fi_cq *)o;

                f->empty += c->empty;
                for (int s = 0; s < FI_SETS; s++) {
                        f->cq.reads += c->set[s].reads;
                        f->cq.completions += c->set[s].completions;
                        f->cq.received += c->set[s].received;
                        f->cq.received_bytes += c->set[s].received_bytes;
                }
        }
        capo_fi_errors_add(&f->errors, &o->errors);
}

/* A stretch of whole words becomes 0; who reads one of these zeros sees also what was written before. */
static void wipe(void *from, size_t size)
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
                wipe((char *)o + kept, size - kept);
        } else if (recycles || n_kept[type] < FI_MOST_DOMAINS) {
                o = capo_shim_alloc(size);
                if (o) {
                        n_kept[type]++;
                        o->type = type;
                }
        } else {
                capo_warn_once("libfabric: more than %d objects of a kind: the rest is not followed", FI_MOST_DOMAINS);
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

void capo_fi_forget(void)
{
        pthread_mutex_init(&capo_fi_lock, NULL);
        for (struct fi_object *o = capo_fi_objects; o; o = o->next) {
                memset(&o->errors, 0, sizeof o->errors);
                if (o->type == FI_T_EP) {
                        struct fi_ep *e = (struct fi_ep *)o;

                        for (int s = 0; s < FI_SETS; s++) {
                                e->set[s].eagain = 0;
                                memset(e->set[s].bytes, 0, sizeof e->set[s].bytes);
                                memset(e->set[s].sizes, 0, sizeof e->set[s].sizes);
                        }
                } else if (o->type == FI_T_CQ) {
                        ((struct fi_cq *)o)->empty = 0;
                        for (int s = 0; s < FI_SETS; s++)
                                memset(&((struct fi_cq *)o)->set[s].reads, 0,
                                       sizeof(struct fi_cq_set) - offsetof(struct fi_cq_set, reads));
                } else if (o->type == FI_T_DOMAIN) {
                        struct fi_domain *d = (struct fi_domain *)o;

                        d->mr_count = d->mr_bytes = d->mr_failed = d->lost_samples = 0;
                        memset(&d->mr_time, 0, sizeof d->mr_time);
                        memset(&d->tx_time, 0, sizeof d->tx_time);
                        memset(&d->rx_time, 0, sizeof d->rx_time);
                        memset(&d->folded, 0, sizeof d->folded);
                }
        }
}
