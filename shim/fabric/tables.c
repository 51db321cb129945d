/* SPDX-License-Identifier: Apache-2.0 */
/* Our tables in the place of an object's own, and back.
 *
 * The rule that keeps every provider content: around a call in which a provider may look at,
 * replace, fill in place or free a table of an object, the object has its own tables back. Those
 * calls are close, and bind, control (enable above all), setopt, connect, accept on endpoints.
 * libfabric demands that such calls on an endpoint are serialised against all others
 * (fi_endpoint.h, comment at struct fid_ep), so nobody jumps through the table meanwhile; if
 * somebody does, he merely is not counted. Domains are used by many threads at once: inplace.c. Who
 * needs this:
 *
 *   shm, sm2, rxm    compare ep.msg with a table of theirs at enable and close (smr_ep.c, sm2_ep.c,
 *                    rxm_ep.c)
 *   verbs            fills the table in place at enable and frees ep.msg at close (verbs_ep.c)
 *   cxi, shm         choose other tables at enable (cxip_ep.c, smr_ep.c)
 *   efa 2.x          gives a completion queue another table when an endpoint with it is enabled
 *                    (efa_base_ep.c), and
 *   usnic            fills that of a queue anew when it is bound (usdf_cq_make_soft()): bound
 *                    queues are looked at again
 *   sockets, psm     FI_ALIAS copies the whole struct fid_ep (sock_ep.c): the copy gets a shadow of
 *                    its own
 *
 * fid_mr, address vectors, poll and wait sets, stx contexts are left alone: their calls are rare or
 * read the object's fields inline (fi_mr_key), and registrations are counted where they are made,
 * on the domain. What is posted by FI_QUEUE_WORK or by a GPU itself (FI_EFA_GDA_OPS) makes no call
 * that could be seen. */

#include "shim/fabric/shim_fabric.h"
#include "shim/find/object.h"

void capo_fi_shadow(void *slot, void *table, const void *ours, size_t ours_size)
{
        struct {
                const size_t *real;
                const void *self;
                size_t word[FI_TABLE_ROOM / 8];
                size_t was[FI_TABLE_ROOM / 8];
        } *t = table;
        size_t **at = slot;
        const size_t *real = *at, *mine = ours;
        size_t bytes, n, n_ours = ours_size / sizeof(size_t);

        if (!real)
                return;
        if (real == t->word)
                real = t->real; /* which the provider may have filled anew */
        bytes = real[0];
        if (bytes < 2 * sizeof(size_t) || bytes > FI_TABLE_ROOM)
                return;
        n = bytes / sizeof(size_t);
        for (size_t i = 1; i < n && i < n_ours; i++) {
                if (mine[i] && real[i] == mine[i])
                        return; /* another shadow's copy: the object is followed already */
        }
        t->real = real;
        t->self = t->word;
        t->word[0] = t->was[0] = bytes;
        for (size_t i = 1; i < n; i++) { /* word by word: a thread may be jumping through it */
                __atomic_store_n(&t->was[i], real[i], __ATOMIC_RELAXED);
                __atomic_store_n(&t->word[i], i < n_ours && mine[i] && real[i] ? mine[i] : real[i],
                                 __ATOMIC_RELEASE);
        }
        __atomic_store_n(at, t->word, __ATOMIC_RELEASE);
}

void capo_fi_restore(void *slot, void *table)
{
        struct {
                const size_t *real;
                const void *self;
                size_t word[FI_TABLE_ROOM / 8];
        } *t = table;
        const size_t **at = slot;

        if (*at == t->word)
                __atomic_store_n(at, t->real, __ATOMIC_RELEASE);
}

/* ---- all tables of an object ---- */

void capo_fi_tables(struct fi_object *o, bool ours)
{
        struct fid *fid = o->fid;

/* A table that was never ours need not exist: see TABLE in ops.def. */
#define TABLE(object, fid_type, member, exists, entries)                        \
        if (o->type == FI_T_##object) {                                         \
                struct fid_type *obj = container_of(fid, struct fid_type, fid); \
                fi_shadow_##object *s = (fi_shadow_##object *)o;                \
                                                                                \
                if (!ours && s->member.real)                                    \
                        fi_restore(obj->member, s->member);                     \
                else if (ours && (exists))                                      \
                        fi_shadow(obj->member, s->member, entries);             \
        }
#include "shim/fabric/ops.def"
        if (!ours)
                fi_restore(fid->ops, o->base);
        else if (o->type == FI_T_EP)
                fi_shadow(fid->ops, o->base, capo_fi_ep_base);
        else
                fi_shadow(fid->ops, o->base, capo_fi_base);
}

void capo_fi_follow(struct fi_object *o)
{
        const struct fid *fid = o->fid;
        struct capo_object made_by;

        capo_object_of((const void *)fid->ops->close, &made_by);
        o->text = made_by.begin;
        o->text_size = made_by.size;
        capo_fi_made(o);
        capo_fi_tables(o, true);
        if ((void *)fid->ops != o->base.word) {
                capo_fi_tables(o, false);
                capo_fi_closed(o);
        }
}
