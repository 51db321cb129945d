/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Following the objects of libfabric, from the fabric down, by shadowing their tables.
 *
 * The rule that keeps every provider content: around a call in which a provider may look at, replace, fill in place or
 * free a table of an object, the object has its own tables back. Those calls are close, bind, control (enable above
 * all), setopt, connect, accept on endpoints, and the opening of endpoints on domains. libfabric demands that such
 * calls on an endpoint are serialised against all others (fi_endpoint.h, comment at struct fid_ep), so nobody jumps
 * through the table meanwhile; if somebody does, he merely is not counted. Who needs this:
 *
 *   shm, sm2, rxm    compare ep.msg with a table of theirs at enable and close (smr_ep.c, sm2_ep.c, rxm_ep.c)
 *   tcp 2.x          compares domain.ops while an endpoint is opened (xnet_domain.c, xnet_domain_multiplexed())
 *   verbs            fills the table in place at enable and frees ep.msg at close (verbs_ep.c)
 *   cxi, shm         choose other tables at enable (cxip_ep.c, smr_ep.c)
 *   efa 2.x          gives a completion queue another table when an endpoint with it is enabled (efa_base_ep.c): bound
 *                    queues are looked at again after enable
 *   sockets, psm     FI_ALIAS copies the whole struct fid_ep (sock_ep.c): the copy gets a shadow of its own
 *
 * A shadow outlives its object: a thread may be in one of our entries while another closes the object. Closed endpoints
 * and queues wait in a queue of FI_QUARANTINE before their memory is used again; their counts are folded into their
 * domain. So memory is bounded by the largest number of objects open at once.
 *
 * fid_mr, address vectors, poll and wait sets, stx contexts are left alone: their calls are rare or read the object's
 * fields inline (fi_mr_key), and registrations are counted where they are made, on the domain. What is posted by
 * FI_QUEUE_WORK or by a GPU itself (FI_EFA_GDA_OPS) makes no call that could be seen.
 */
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "capo/msg.h"
#include "shim/fabric/fabric.h"
#include "shim/record/shim.h"

#define FI_QUARANTINE   128  /* closed shadows of a type that rest before one is used again */
#define FI_MOST_DOMAINS 1024 /* fabrics, domains, passive endpoints and event queues that are followed */

__thread struct fi_thread capo_fi_me __attribute__((tls_model("initial-exec")));
struct fi_object *_Atomic capo_fi_objects;

static pthread_mutex_t fi_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
        struct fi_object *first, *last;
        unsigned n;
} closed[FI_TYPES];
static uint32_t n_objects;
static unsigned n_kept[FI_TYPES];

void capo_fi_shadow(void *slot, void *table, const void *ours, size_t ours_size)
{
        struct {
                const size_t *real;
                size_t word[FI_TABLE_ROOM / 8];
                size_t was[FI_TABLE_ROOM / 8];
        } *t = table;
        size_t **at = slot;
        const size_t *real = *at, *mine = ours;
        size_t bytes, n, n_ours = ours_size / sizeof(size_t);

        if (!real || real == t->word)
                return;
        bytes = real[0];
        if (bytes < 2 * sizeof(size_t) || bytes > FI_TABLE_ROOM)
                return;
        n = bytes / sizeof(size_t);
        for (size_t i = 1; i < n && i < n_ours; i++) {
                if (mine[i] && real[i] == mine[i])
                        return; /* another shadow's copy: the object is followed already */
        }
        t->real = real;
        t->word[0] = t->was[0] = bytes;
        for (size_t i = 1; i < n; i++) { /* word by word: a thread may be jumping through it */
                __atomic_store_n(&t->was[i], real[i], __ATOMIC_RELAXED);
                __atomic_store_n(&t->word[i], i < n_ours && mine[i] && real[i] ? mine[i] : real[i], __ATOMIC_RELEASE);
        }
        __atomic_store_n(at, t->word, __ATOMIC_RELEASE);
}

void capo_fi_restore(void *slot, void *table)
{
        struct {
                const size_t *real;
                size_t word[FI_TABLE_ROOM / 8];
        } *t = table;
        const size_t **at = slot;

        if (*at == t->word)
                __atomic_store_n(at, t->real, __ATOMIC_RELEASE);
}

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

/* ---- memory of shadows ------------------------------------------------------------------------------------------- */

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
        for (int i = 0; i < FI_ERRORS; i++) {
                if (o->errors.row[i].code)
                        capo_fi_error(&f->errors, o->errors.row[i].code, o->errors.row[i].count);
        }
        f->errors.other += o->errors.other;
}

/* A zeroed shadow that is in the list of all, or NULL. */
static void *object_new(enum fi_object_type type, size_t size, struct fid *fid, struct fi_domain *domain)
{
        bool recycles = type == FI_T_EP || type == FI_T_CQ || type == FI_T_CNTR;
        struct fi_object *o = NULL;

        pthread_mutex_lock(&fi_lock);
        if (recycles && closed[type].n > FI_QUARANTINE) {
                struct fi_object *next;

                o = closed[type].first;
                closed[type].first = o->next_closed;
                closed[type].n--;
                capo_fi_fold(&o->domain->folded, o);
                next = o->next;
                memset((char *)o + sizeof(o->next), 0, size - sizeof(o->next));
                o->next = next;
        } else if (recycles || n_kept[type] < FI_MOST_DOMAINS) {
                o = capo_shim_alloc(size);
                if (o) {
                        n_kept[type]++;
                        o->next = capo_fi_objects;
                }
        } else {
                capo_warn_once("libfabric: more than %d objects of a kind: the rest is not followed", FI_MOST_DOMAINS);
        }
        if (o) {
                o->fid = fid;
                o->domain = domain;
                o->id = ++n_objects;
                o->type = type;
                if (o->next == capo_fi_objects)
                        atomic_store_explicit(&capo_fi_objects, o, memory_order_release);
        }
        pthread_mutex_unlock(&fi_lock);
        return o;
}

struct fi_object *capo_fi_find(const struct fid *fid, enum fi_object_type type)
{
        struct fi_object *o = atomic_load_explicit(&capo_fi_objects, memory_order_acquire);

        while (o && (o->fid != fid || o->type != type))
                o = o->next;
        return o;
}

static void object_closed(struct fi_object *o)
{
        pthread_mutex_lock(&fi_lock);
        o->fid = NULL;
        o->next_closed = NULL;
        if (closed[o->type].n++ && closed[o->type].last)
                closed[o->type].last->next_closed = o;
        else
                closed[o->type].first = o;
        closed[o->type].last = o;
        pthread_mutex_unlock(&fi_lock);
}

/* ---- close, for every type --------------------------------------------------------------------------------------- */

/* The shadow of @object, whose @entry of @table was called: by the table, or by the list (FI_ENTRY in fi.h says when).
 */
#define SHADOW_OF(shadow_type, object_type, object, table, field, entry)                            \
        ((object)->table->entry == ours_##entry ? container_of((object)->table, shadow_type, field) \
                                                : (shadow_type *)capo_fi_find(&(object)->fid, object_type))

static int ours_close(struct fid *fid);
static int ours_bind(struct fid *fid, struct fid *with, uint64_t flags);
static int ours_control(struct fid *fid, int command, void *arg);

static const struct fi_ops table_base = {.close = ours_close};
static const struct fi_ops table_ep_base = {.close = ours_close, .bind = ours_bind, .control = ours_control};

static struct fi_object *object_of(struct fid *fid)
{
        return fid->ops->close == ours_close
                       ? (struct fi_object *)((char *)fid->ops - offsetof(struct fi_object, base.ops))
                       : NULL;
}

static const struct fi_ops_fabric table_fabric;
static const struct fi_ops_domain table_domain;
static const struct fi_ops_mr table_mr;
static const struct fi_ops_ep table_ep;
static const struct fi_ops_cm table_ep_cm, table_pep_cm;

static void ep_restore(struct fi_ep *e)
{
        struct fid_ep *ep = container_of(e->o.fid, struct fid_ep, fid);

        fi_restore(ep->fid.ops, e->o.base);
        fi_restore(ep->ops, e->ops);
        fi_restore(ep->cm, e->cm);
        if (e->msg.real)
                fi_restore(ep->msg, e->msg);
        if (e->rma.real)
                fi_restore(ep->rma, e->rma);
        if (e->tagged.real)
                fi_restore(ep->tagged, e->tagged);
        if (e->atomic.real)
                fi_restore(ep->atomic, e->atomic);
}

/*
 * "A provider may allocate the minimal size structure needed to support the ops requested by the user"
 * (fi_endpoint.h): a table pointer exists only if its capability, or that of a later table, was asked for.
 */
void capo_fi_ep_patch(struct fi_ep *e)
{
        struct fid_ep *ep = container_of(e->o.fid, struct fid_ep, fid);

        fi_shadow(ep->fid.ops, e->o.base, table_ep_base);
        fi_shadow(ep->ops, e->ops, table_ep);
        fi_shadow(ep->cm, e->cm, table_ep_cm);
        if (e->caps & (FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC))
                fi_shadow(ep->msg, e->msg, capo_fi_tables.msg);
        if (e->caps & FI_RMA)
                fi_shadow(ep->rma, e->rma, capo_fi_tables.rma);
        if (e->caps & FI_TAGGED)
                fi_shadow(ep->tagged, e->tagged, capo_fi_tables.tagged);
        if (e->caps & FI_ATOMIC)
                fi_shadow(ep->atomic, e->atomic, capo_fi_tables.atomic);
}

/* Put all tables of an object back, or ours in. */
static void object_tables(struct fi_object *o, bool ours)
{
        struct fid *fid = o->fid;

        switch ((enum fi_object_type)o->type) {
        case FI_T_EP:
                if (ours)
                        capo_fi_ep_patch((struct fi_ep *)o);
                else
                        ep_restore((struct fi_ep *)o);
                return;
#define TABLE(type, shadow, member, field, table)                        \
        do {                                                             \
                struct type *obj_ = container_of(fid, struct type, fid); \
                struct shadow *s_ = (struct shadow *)o;                  \
                                                                         \
                if (ours)                                                \
                        fi_shadow(obj_->member, s_->field, table);       \
                else                                                     \
                        fi_restore(obj_->member, s_->field);             \
        } while (0)
        case FI_T_FABRIC: TABLE(fid_fabric, fi_fabric, ops, ops, table_fabric); break;
        case FI_T_DOMAIN:
                TABLE(fid_domain, fi_domain, ops, ops, table_domain);
                TABLE(fid_domain, fi_domain, mr, mr, table_mr);
                break;
        case FI_T_CQ: TABLE(fid_cq, fi_cq, ops, ops, *capo_fi_cq_entries(obj_->ops)); break;
        case FI_T_CNTR: TABLE(fid_cntr, fi_cntr, ops, ops, capo_fi_cntr); break;
        case FI_T_EQ: TABLE(fid_eq, fi_eq, ops, ops, capo_fi_eq); break;
        case FI_T_PEP: TABLE(fid_pep, fi_pep, cm, cm, table_pep_cm); break;
#undef TABLE
        case FI_TYPES: break;
        }
        if (ours)
                fi_shadow(fid->ops, o->base, table_base);
        else
                fi_restore(fid->ops, o->base);
}

struct segment {
        uintptr_t address, begin, size;
};

static int find_segment(struct dl_phdr_info *info, size_t size, void *out)
{
        struct segment *s = out;

        for (int i = 0; i < info->dlpi_phnum; i++) {
                const ElfW(Phdr) *p = &info->dlpi_phdr[i];

                if (p->p_type == PT_LOAD && s->address - (info->dlpi_addr + p->p_vaddr) < p->p_memsz) {
                        s->begin = info->dlpi_addr + p->p_vaddr;
                        s->size = p->p_memsz;
                        return 1;
                }
        }
        return 0;
}

/* Begin to follow: all tables, or none when the close of the object could not be seen. */
static void follow(struct fi_object *o)
{
        struct segment s = {.address = (uintptr_t)o->fid->ops->close};

        dl_iterate_phdr(find_segment, &s);
        o->text = s.begin;
        o->text_size = s.size;
        object_tables(o, true);
        if ((void *)o->fid->ops != o->base.word) {
                object_tables(o, false);
                object_closed(o);
        }
}

static int ours_close(struct fid *fid)
{
        struct fi_object *o = object_of(fid);
        bool was = capo_fi_me.inside;
        int r;

        if (!o)
                return fid->ops->close(fid);
        if (was)
                return o->base.real->close(fid);
        object_tables(o, false);
        capo_fi_me.inside = true;
        r = fid->ops->close(fid);
        capo_fi_me.inside = false;
        /*
         * Busy is the one refusal after which the object surely lives (fi_domain(3), fi_endpoint(3)); after any other
         * its memory is not touched again.
         */
        if (r == -FI_EBUSY)
                object_tables(o, true);
        else
                object_closed(o);
        return r;
}

/* ---- endpoints --------------------------------------------------------------------------------------------------- */

struct fi_cq *capo_fi_cq_of(struct fid *fid)
{
        struct fi_object *o = fid && fid->ops ? object_of(fid) : NULL;

        return o && o->type == FI_T_CQ ? (struct fi_cq *)o : NULL;
}

struct fi_ep *capo_fi_ep_of(struct fid *fid)
{
        struct fi_object *o = fid && fid->ops ? object_of(fid) : NULL;

        return o && o->type == FI_T_EP ? (struct fi_ep *)o : NULL;
}

static void ep_opened(struct fi_domain *d, struct fid_ep *ep, uint64_t caps, enum fi_ep_type type, bool completes,
                      const struct fi_ep *from)
{
        struct fi_ep *e = object_new(FI_T_EP, sizeof *e, &ep->fid, d);

        if (!e)
                return;
        e->caps = caps;
        e->ep_type = type;
        e->completes = completes;
        if (from) {
                e->tx_cq = from->tx_cq;
                e->rx_cq = from->rx_cq;
                e->silent = from->silent;
        }
        for (int s = 0; s < FI_SETS - 1; s++)
                e->set[s].until_sample = d->sample_every ? 1 : 0;
        follow(&e->o);
}

/* A queue may have got another table while an endpoint that uses it was enabled. */
static void cq_look_again(struct fi_cq *c)
{
        if (c && c->o.fid)
                object_tables(&c->o, true);
}

/* Run @call with the endpoint's own tables in place. */
#define EP_WITHOUT_US(e, call)             \
        ({                                 \
                int r_;                    \
                                           \
                ep_restore(e);             \
                capo_fi_me.inside = true;  \
                r_ = (call);               \
                capo_fi_me.inside = false; \
                capo_fi_ep_patch(e);       \
                cq_look_again((e)->tx_cq); \
                cq_look_again((e)->rx_cq); \
                r_;                        \
        })

static int ours_bind(struct fid *fid, struct fid *with, uint64_t flags)
{
        struct fi_ep *e = capo_fi_ep_of(fid);
        struct fi_cq *c;
        int r;

        if (!e)
                return fid->ops->bind(fid, with, flags);
        if (capo_fi_me.inside)
                return e->o.base.real->bind(fid, with, flags);
        c = with ? capo_fi_cq_of(with) : NULL;
        r = EP_WITHOUT_US(e, fid->ops->bind(fid, with, flags));
        if (r == 0 && c) {
                if (flags & FI_TRANSMIT) {
                        e->tx_cq = c;
                        e->silent = flags & FI_SELECTIVE_COMPLETION && !e->completes;
                }
                if (flags & FI_RECV)
                        e->rx_cq = c;
        }
        return r;
}

static int ours_control(struct fid *fid, int command, void *arg)
{
        struct fi_ep *e = capo_fi_ep_of(fid);
        int r;

        if (!e)
                return fid->ops->control(fid, command, arg);
        if (capo_fi_me.inside)
                return e->o.base.real->control(fid, command, arg);
        r = EP_WITHOUT_US(e, fid->ops->control(fid, command, arg));
        if (r == 0 && command == FI_ALIAS && arg) {
                const struct fi_alias *alias = arg;

                ep_opened(e->o.domain, container_of(*alias->fid, struct fid_ep, fid), e->caps, e->ep_type, e->completes,
                          e);
        }
        return r;
}

static int ours_setopt(fid_t fid, int level, int name, const void *value, size_t size)
{
        struct fid_ep *ep = container_of(fid, struct fid_ep, fid);
        struct fi_ep *e = SHADOW_OF(struct fi_ep, FI_T_EP, ep, ops, ops.ops, setopt);

        if (!e)
                return ep->ops->setopt(fid, level, name, value, size);
        if (capo_fi_me.inside)
                return e->ops.real->setopt(fid, level, name, value, size);
        return EP_WITHOUT_US(e, ep->ops->setopt(fid, level, name, value, size));
}

#define CONTEXT_OPEN(dir)                                                                                             \
        static int ours_##dir##_ctx(struct fid_ep *sep, int index, struct fi_##dir##_attr *attr, struct fid_ep **out, \
                                    void *context)                                                                    \
        {                                                                                                             \
                struct fi_ep *e = SHADOW_OF(struct fi_ep, FI_T_EP, sep, ops, ops.ops, dir##_ctx);                     \
                int r;                                                                                                \
                                                                                                                      \
                if (!e)                                                                                               \
                        return sep->ops->dir##_ctx(sep, index, attr, out, context);                                   \
                if (capo_fi_me.inside)                                                                                \
                        return e->ops.real->dir##_ctx(sep, index, attr, out, context);                                \
                r = EP_WITHOUT_US(e, sep->ops->dir##_ctx(sep, index, attr, out, context));                            \
                if (r == 0 && out && *out)                                                                            \
                        ep_opened(e->o.domain, *out, attr && attr->caps ? attr->caps & e->caps : e->caps, e->ep_type, \
                                  attr && attr->op_flags & FI_COMPLETION, NULL);                                      \
                return r;                                                                                             \
        }
CONTEXT_OPEN(tx)
CONTEXT_OPEN(rx)

static const struct fi_ops_ep table_ep = {.setopt = ours_setopt, .tx_ctx = ours_tx_ctx, .rx_ctx = ours_rx_ctx};

static int ours_connect(struct fid_ep *ep, const void *addr, const void *param, size_t size)
{
        struct fi_ep *e = SHADOW_OF(struct fi_ep, FI_T_EP, ep, cm, cm.ops, connect);

        if (!e)
                return ep->cm->connect(ep, addr, param, size);
        if (capo_fi_me.inside)
                return e->cm.real->connect(ep, addr, param, size);
        return EP_WITHOUT_US(e, ep->cm->connect(ep, addr, param, size));
}

static int ours_accept(struct fid_ep *ep, const void *param, size_t size)
{
        struct fi_ep *e = SHADOW_OF(struct fi_ep, FI_T_EP, ep, cm, cm.ops, accept);

        if (!e)
                return ep->cm->accept(ep, param, size);
        if (capo_fi_me.inside)
                return e->cm.real->accept(ep, param, size);
        return EP_WITHOUT_US(e, ep->cm->accept(ep, param, size));
}

static const struct fi_ops_cm table_ep_cm = {.connect = ours_connect, .accept = ours_accept};

/* ---- passive endpoints ------------------------------------------------------------------------------------------- */

static int ours_listen(struct fid_pep *pep)
{
        struct fi_pep *p = SHADOW_OF(struct fi_pep, FI_T_PEP, pep, cm, cm.ops, listen);

        if (!p)
                return pep->cm->listen(pep);
        if (!capo_fi_me.inside)
                p->listens++;
        return p->cm.real->listen(pep);
}

static int ours_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t size)
{
        struct fi_pep *p = SHADOW_OF(struct fi_pep, FI_T_PEP, pep, cm, cm.ops, reject);

        if (!p)
                return pep->cm->reject(pep, handle, param, size);
        if (!capo_fi_me.inside)
                p->rejects++;
        return p->cm.real->reject(pep, handle, param, size);
}

static const struct fi_ops_cm table_pep_cm = {.listen = ours_listen, .reject = ours_reject};

/* ---- domains ----------------------------------------------------------------------------------------------------- */

static int real_call_begin(struct fi_domain *d, struct fid_domain *domain)
{
        pthread_mutex_lock(&fi_lock);
        if (d->opening++ == 0)
                fi_restore(domain->ops, d->ops);
        pthread_mutex_unlock(&fi_lock);
        capo_fi_me.inside = true;
        return 0;
}

static void real_call_end(struct fi_domain *d, struct fid_domain *domain)
{
        capo_fi_me.inside = false;
        pthread_mutex_lock(&fi_lock);
        if (--d->opening == 0)
                fi_shadow(domain->ops, d->ops, table_domain);
        pthread_mutex_unlock(&fi_lock);
}

/*
 * The opens of a domain. While one is under way the domain has its own table, so an object that another thread opens
 * on it in the same moment may go unfollowed; nothing else is lost by it.
 */
#define DOMAIN_OPEN(entry, params, args, out, opened)                                                        \
        static int ours_##entry params                                                                       \
        {                                                                                                    \
                struct fi_domain *d = SHADOW_OF(struct fi_domain, FI_T_DOMAIN, domain, ops, ops.ops, entry); \
                int r;                                                                                       \
                                                                                                             \
                if (!d)                                                                                      \
                        return domain->ops->entry args;                                                      \
                if (capo_fi_me.inside)                                                                       \
                        return d->ops.real->entry args;                                                      \
                real_call_begin(d, domain);                                                                  \
                r = d->ops.real->entry args;                                                                 \
                real_call_end(d, domain);                                                                    \
                if (r == 0 && out && *out)                                                                   \
                        opened;                                                                              \
                return r;                                                                                    \
        }

static enum fi_ep_type type_of(const struct fi_info *info)
{
        return info && info->ep_attr ? info->ep_attr->type : FI_EP_UNSPEC;
}

static bool completes(const struct fi_info *info)
{
        return info && info->tx_attr && info->tx_attr->op_flags & FI_COMPLETION;
}

static uint64_t caps_of(const struct fi_domain *d, const struct fi_info *info)
{
        return info && info->caps ? info->caps : d->caps;
}

static void cq_opened(struct fi_domain *d, struct fid_cq *cq, const struct fi_cq_attr *attr)
{
        static const uint32_t stride[] = {
                [FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
                [FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
                [FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
                [FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
        };
        struct fi_cq *c = object_new(FI_T_CQ, sizeof *c, &cq->fid, d);

        if (!c)
                return;
        if (attr && (unsigned)attr->format < N_ELEMENTS(stride))
                c->stride = stride[attr->format];
        c->lengths = c->stride >= sizeof(struct fi_cq_msg_entry);
        follow(&c->o);
}

static void cntr_opened(struct fi_domain *d, struct fid_cntr *cntr)
{
        struct fi_cntr *c = object_new(FI_T_CNTR, sizeof *c, &cntr->fid, d);

        if (c)
                follow(&c->o);
}

DOMAIN_OPEN(endpoint, (struct fid_domain * domain, struct fi_info *info, struct fid_ep **out, void *context),
            (domain, info, out, context), out,
            ep_opened(d, *out, caps_of(d, info), type_of(info), completes(info), NULL))
DOMAIN_OPEN(endpoint2,
            (struct fid_domain * domain, struct fi_info *info, struct fid_ep **out, uint64_t flags, void *context),
            (domain, info, out, flags, context), out,
            ep_opened(d, *out, caps_of(d, info), type_of(info), completes(info), NULL))
DOMAIN_OPEN(scalable_ep, (struct fid_domain * domain, struct fi_info *info, struct fid_ep **out, void *context),
            (domain, info, out, context), out,
            ep_opened(d, *out, caps_of(d, info), type_of(info), completes(info), NULL))
DOMAIN_OPEN(srx_ctx, (struct fid_domain * domain, struct fi_rx_attr *attr, struct fid_ep **out, void *context),
            (domain, attr, out, context), out,
            ep_opened(d, *out, (attr && attr->caps ? attr->caps & d->caps : d->caps) & (FI_MSG | FI_TAGGED),
                      FI_EP_UNSPEC, false, NULL))
DOMAIN_OPEN(cq_open, (struct fid_domain * domain, struct fi_cq_attr *attr, struct fid_cq **out, void *context),
            (domain, attr, out, context), out, cq_opened(d, *out, attr))
DOMAIN_OPEN(cntr_open, (struct fid_domain * domain, struct fi_cntr_attr *attr, struct fid_cntr **out, void *context),
            (domain, attr, out, context), out, cntr_opened(d, *out))

static const struct fi_ops_domain table_domain = {.endpoint = ours_endpoint,
                                                  .endpoint2 = ours_endpoint2,
                                                  .scalable_ep = ours_scalable_ep,
                                                  .srx_ctx = ours_srx_ctx,
                                                  .cq_open = ours_cq_open,
                                                  .cntr_open = ours_cntr_open};

static size_t iov_bytes(const struct iovec *iov, size_t n)
{
        size_t bytes = 0;

        while (n--)
                bytes += iov[n].iov_len;
        return bytes;
}

/* Registrations run beside everything else on the domain: the table stays ours. */
#define REGISTRATION(entry, params, args, size)                                                            \
        static int ours_##entry params                                                                     \
        {                                                                                                  \
                struct fid_domain *domain = container_of(fid, struct fid_domain, fid);                     \
                struct fi_domain *d = SHADOW_OF(struct fi_domain, FI_T_DOMAIN, domain, mr, mr.ops, entry); \
                uint64_t t0;                                                                               \
                int r;                                                                                     \
                                                                                                           \
                if (!d)                                                                                    \
                        return domain->mr->entry args;                                                     \
                if (capo_fi_me.inside)                                                                     \
                        return d->mr.real->entry args;                                                     \
                t0 = capo_fi_now();                                                                        \
                capo_fi_me.inside = true;                                                                  \
                r = d->mr.real->entry args;                                                                \
                capo_fi_me.inside = false;                                                                 \
                if (r) {                                                                                   \
                        d->mr_failed++;                                                                    \
                        capo_fi_error(&d->o.errors, r, 1);                                                 \
                } else {                                                                                   \
                        capo_fi_hist_add(&d->mr_time, capo_fi_now() - t0);                                 \
                        d->mr_count++;                                                                     \
                        d->mr_bytes += (size);                                                             \
                }                                                                                          \
                return r;                                                                                  \
        }

REGISTRATION(reg,
             (struct fid * fid, const void *buf, size_t len, uint64_t access, uint64_t offset, uint64_t key,
              uint64_t flags, struct fid_mr **mr, void *context),
             (fid, buf, len, access, offset, key, flags, mr, context), len)
REGISTRATION(regv,
             (struct fid * fid, const struct iovec *iov, size_t count, uint64_t access, uint64_t offset, uint64_t key,
              uint64_t flags, struct fid_mr **mr, void *context),
             (fid, iov, count, access, offset, key, flags, mr, context), iov_bytes(iov, count))
REGISTRATION(regattr, (struct fid * fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **mr),
             (fid, attr, flags, mr), attr->mr_iov ? iov_bytes(attr->mr_iov, attr->iov_count) : 0)

static const struct fi_ops_mr table_mr = {.reg = ours_reg, .regv = ours_regv, .regattr = ours_regattr};

/* ---- fabrics ----------------------------------------------------------------------------------------------------- */

#define FABRIC_OPEN(entry, params, args, out, opened)                                                        \
        static int ours_##entry params                                                                       \
        {                                                                                                    \
                struct fi_fabric *f = SHADOW_OF(struct fi_fabric, FI_T_FABRIC, fabric, ops, ops.ops, entry); \
                int r;                                                                                       \
                                                                                                             \
                if (!f)                                                                                      \
                        return fabric->ops->entry args;                                                      \
                if (capo_fi_me.inside)                                                                       \
                        return f->ops.real->entry args;                                                      \
                capo_fi_me.inside = true;                                                                    \
                r = f->ops.real->entry args;                                                                 \
                capo_fi_me.inside = false;                                                                   \
                if (r == 0 && out && *out)                                                                   \
                        opened;                                                                              \
                return r;                                                                                    \
        }

static void domain_opened(struct fi_fabric *f, struct fid_domain *domain, const struct fi_info *info)
{
        struct fi_domain *d = object_new(FI_T_DOMAIN, sizeof *d, &domain->fid, NULL);

        if (!d)
                return;
        d->fabric = f;
        d->caps = info ? info->caps : FI_MSG;
        d->sample_every = (unsigned)capo_shim_env()->fabric_sample;
        capo_fi_device(d, info, f->api_version);
        follow(&d->o);
}

static void eq_opened(struct fid_eq *eq)
{
        struct fi_eq *q = object_new(FI_T_EQ, sizeof *q, &eq->fid, NULL);

        if (q)
                follow(&q->o);
}

static void pep_opened(struct fid_pep *pep)
{
        struct fi_pep *p = object_new(FI_T_PEP, sizeof *p, &pep->fid, NULL);

        if (p)
                follow(&p->o);
}

FABRIC_OPEN(domain, (struct fid_fabric * fabric, struct fi_info *info, struct fid_domain **out, void *context),
            (fabric, info, out, context), out, domain_opened(f, *out, info))
FABRIC_OPEN(domain2,
            (struct fid_fabric * fabric, struct fi_info *info, struct fid_domain **out, uint64_t flags, void *context),
            (fabric, info, out, flags, context), out, domain_opened(f, *out, info))
FABRIC_OPEN(passive_ep, (struct fid_fabric * fabric, struct fi_info *info, struct fid_pep **out, void *context),
            (fabric, info, out, context), out, pep_opened(*out))
FABRIC_OPEN(eq_open, (struct fid_fabric * fabric, struct fi_eq_attr *attr, struct fid_eq **out, void *context),
            (fabric, attr, out, context), out, eq_opened(*out))

static const struct fi_ops_fabric table_fabric = {
        .domain = ours_domain, .domain2 = ours_domain2, .passive_ep = ours_passive_ep, .eq_open = ours_eq_open};

void capo_fi_fabric_opened(struct fid_fabric *fabric, const struct fi_fabric_attr *attr)
{
        struct fi_fabric *f = object_new(FI_T_FABRIC, sizeof *f, &fabric->fid, NULL);

        if (!f)
                return;
        f->api_version = fabric->api_version;
        if (attr && attr->prov_name)
                strncpy(f->provider, attr->prov_name, sizeof f->provider - 1);
        if (attr && attr->name)
                strncpy(f->name, attr->name, sizeof f->name - 1);
        follow(&f->o);
}

void capo_fi_forget(void)
{
        pthread_mutex_init(&fi_lock, NULL);
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
