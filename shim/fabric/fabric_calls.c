/* SPDX-License-Identifier: Apache-2.0 */
/* Following the objects of libfabric, from the fabric down: the entries by which objects are
 * opened, changed and closed. Those that merely stand around a provider's own are the rows of CALL
 * and OPEN in ops.def; close, bind and control have more to do. */
#include "capo/env.h"
#include "core/base/lock.h"
#include "shim/fabric/shim_fabric.h"
#include "shim/record/left.h"
#include "shim/record/shim.h"

/* Which piece of hardware a domain is: PCI address, link speed, NUMA node. First from what the
 * provider says itself (fi_info.nic, since API 1.7), else from the kernel by the domain's name,
 * which for tcp, udp and sockets is a network interface and for verbs and EFA a device of
 * /sys/class/infiniband. Read once per domain, when it is opened. */
/* The PCI address that <class>/<name>/device points to. */
static bool sysfs_pci(const char *class, const char *name, char *pci, size_t room)
{
        char path[PATH_MAX], target[PATH_MAX];
        bool found = false;

        if (snprintf(path, sizeof path, "%s/class/%s/%s/device", capo_shim_env()->sysfs, class,
                     name) >= (int)sizeof path ||
            !realpath(path, target))
                return false;
        /* the last such part of the path: a virtio device lies one below its PCI function */
        for (const char *part = target; part; part = strchr(part, '/')) {
                unsigned domain, bus, dev, fn;

                part += *part == '/';
                if (sscanf(part, "%4x:%2x:%2x.%1x", &domain, &bus, &dev, &fn) == 4) {
                        snprintf(pci, room, "%04x:%02x:%02x.%x", domain & 0xffff, bus & 0xff,
                                 dev & 0x1f, fn & 7);
                        found = true;
                }
        }
        return found;
}

/* "100 Gb/sec (4X EDR)", "2.5 Gb/sec (1X SDR)" */
static uint64_t infiniband_speed(const char *name)
{
        char path[PATH_MAX];
        _cleanup_fclose_ FILE *f = NULL;
        unsigned gb, tenths = 0; /* and not %lf, which wants the comma of the job's locale */

        if (snprintf(path, sizeof path, "%s/class/infiniband/%s/ports/1/rate",
                     capo_shim_env()->sysfs, name) >= (int)sizeof path)
                return 0;
        f = fopen(path, "re");
        return f && fscanf(f, "%u.%1u", &gb, &tenths) >= 1 ? (gb * 10ull + tenths) * 100000000 : 0;
}

/* Fill device, pci, numa and speed of @d from @info and sysfs. */
static void note_device(struct fi_domain *d, const struct fi_info *info, uint32_t api_version)
{
        static const char *const classes[] = {"net", "infiniband", "cxi"};
        const struct fid_nic *nic = NULL;
        char name[64];

        d->numa = -1;
        if (info && info->domain_attr && info->domain_attr->name)
                strncpy(d->name, info->domain_attr->name, sizeof d->name - 1);
        if (info && api_version >= FI_VERSION(1, 7)) /* older callers' fi_info ends before nic */
                nic = info->nic;
        if (nic && nic->device_attr && nic->device_attr->name)
                strncpy(d->device, nic->device_attr->name, sizeof d->device - 1);
        if (nic && nic->bus_attr && nic->bus_attr->bus_type == FI_BUS_PCI) {
                const struct fi_pci_attr *a = &nic->bus_attr->attr.pci;

                snprintf(d->pci, sizeof d->pci, "%04x:%02x:%02x.%x", a->domain_id, a->bus_id,
                         a->device_id & 0x1f, a->function_id & 7);
        }
        if (nic && nic->link_attr)
                d->speed_bps = nic->link_attr->speed;
        /* verbs and EFA name domains after the device, with a suffix such as "-rdm" or "-dgrm" */
        snprintf(name, sizeof name, "%s", d->device[0] ? d->device : d->name);
        if (!d->device[0] && strrchr(name, '-'))
                *strrchr(name, '-') = 0;
        if (!name[0] || strchr(name, '/'))
                return;
        for (size_t i = 0; i < N_ELEMENTS(classes) && !d->pci[0]; i++)
                sysfs_pci(classes[i], name, d->pci, sizeof d->pci);
        if (!d->speed_bps) {
                long mbit = capo_shim_sysfs("class/net", name, "speed", 0);

                d->speed_bps = mbit > 0 ? (uint64_t)mbit * 1000000 : infiniband_speed(name);
        }
        if (d->pci[0])
                d->numa = (int)capo_shim_sysfs("bus/pci/devices", d->pci, "numa_node", -1);
}

__thread struct fi_thread capo_fi_me __attribute__((tls_model("initial-exec")));

/* ---- close, for every type ---- */

static int ours_close(struct fid *fid);
static int ours_bind(struct fid *fid, struct fid *with, uint64_t flags);
static int ours_control(struct fid *fid, int command, void *arg);

const struct fi_ops capo_fi_base = {.close = ours_close};
const struct fi_ops capo_fi_ep_base = {
        .close = ours_close, .bind = ours_bind, .control = ours_control};

static struct fi_object *object_of(struct fid *fid)
{
        struct fi_object *o = NULL;

        if (fid->ops->close == ours_close && fi_is_ours(fid->ops))
                return container_of(fid->ops, struct fi_object, base.ops);
        for (unsigned type = 0; type < FI_TYPES && !o; type++)
                o = capo_fi_find(fid, type);
        return o;
}

bool capo_fi_left(const void *frame)
{
        const void *at;

        if (!capo_left(capo_fi_me.inside, frame, &at) && (!at || at == capo_fi_me.caller))
                return false;
        capo_fi_leave();
        return true;
}

static int ours_close(struct fid *fid)
{
        struct fi_object *o = object_of(fid);
        bool was = capo_fi_within(FI_FRAME);
        int r;

        if (!o)
                return fid->ops->close == ours_close ? -FI_ENOSYS : fid->ops->close(fid);
        if (was)
                return o->base.real->close(fid);
        capo_fi_tables(o, false);
        capo_fi_enter(FI_FRAME, FI_CALLER);
        r = fid->ops->close(fid);
        capo_fi_leave();
        /* Busy is the one refusal after which the object surely lives (fi_domain(3),
         * fi_endpoint(3)); after any other its memory is not touched again. */
        if (r == -FI_EBUSY)
                capo_fi_tables(o, true);
        else
                capo_fi_closed(o);
        return r;
}

/* ---- endpoints ---- */

static struct fi_cq *cq_of(struct fid *fid)
{
        struct fi_object *o = fid && fid->ops && fid->fclass == FI_CLASS_CQ ? object_of(fid) : NULL;

        return o && o->type == FI_T_CQ ? (struct fi_cq *)o : NULL;
}

struct fi_ep *capo_fi_ep_of(struct fid *fid)
{
        struct fi_object *o = fid && fid->ops ? object_of(fid) : NULL;

        return o && o->type == FI_T_EP ? (struct fi_ep *)o : NULL;
}

static void ep_opened(struct fi_domain *d, struct fid_ep *ep, uint64_t caps, enum fi_ep_type type,
                      bool completes, const struct fi_ep *from)
{
        struct fi_ep *e = capo_fi_new(FI_T_EP, &ep->fid, d);

        if (!e)
                return;
        e->caps = caps;
        e->ep_type = type;
        e->completes = completes;
        if (from) {
                e->cq[0] = from->cq[0];
                e->cq[1] = from->cq[1];
                e->silent = from->silent;
                e->blind = from->blind;
        }
        for (int s = 0; s < FI_SETS - 1; s++)
                e->set[s].until_sample = d->sample_every ? 1 : 0;
        capo_fi_follow(&e->o);
}

/* A queue may have got another table while an endpoint that uses it was enabled. */
static void cq_recheck(struct fi_cq *c)
{
        if (c && c->o.fid)
                capo_fi_tables(&c->o, true);
}

/* Around a call that needs the endpoint's own tables in place. */
static uint64_t enter_ep(struct fi_ep *e, const void *frame, const void *caller)
{
        capo_fi_tables(&e->o, false);
        capo_fi_enter(frame, caller);
        return 0;
}

static void leave_ep(struct fi_ep *e)
{
        capo_fi_leave();
        capo_fi_tables(&e->o, true);
        cq_recheck(e->cq[0]);
        cq_recheck(e->cq[1]);
}

static int ours_bind(struct fid *fid, struct fid *with, uint64_t flags)
{
        struct fi_ep *e = capo_fi_ep_of(fid);
        struct fi_cq *c;
        int r;

        if (!e)
                return fid->ops->bind == ours_bind ? -FI_ENOSYS : fid->ops->bind(fid, with, flags);
        if (capo_fi_within(FI_FRAME))
                return e->o.base.real->bind(fid, with, flags);
        c = with ? cq_of(with) : NULL;
        enter_ep(e, FI_FRAME, FI_CALLER);
        r = fid->ops->bind(fid, with, flags);
        leave_ep(e);
        cq_recheck(c);
        if (r == 0 && c) {
                if (flags & FI_TRANSMIT) {
                        e->cq[0] = c;
                        e->silent = flags & FI_SELECTIVE_COMPLETION && !e->completes;
                }
                if (flags & FI_RECV) {
                        e->cq[1] = c;
                        e->blind = !c->lengths;
                }
        }
        return r;
}

static int ours_control(struct fid *fid, int command, void *arg)
{
        struct fi_ep *e = capo_fi_ep_of(fid);
        int r;

        if (!e)
                return fid->ops->control == ours_control ? -FI_ENOSYS
                                                         : fid->ops->control(fid, command, arg);
        if (capo_fi_within(FI_FRAME))
                return e->o.base.real->control(fid, command, arg);
        enter_ep(e, FI_FRAME, FI_CALLER);
        r = fid->ops->control(fid, command, arg);
        leave_ep(e);
        if (r == 0 && command == FI_ALIAS && arg) {
                const struct fi_alias *alias = arg;
                int saved = errno;

                ep_opened(e->o.domain, container_of(*alias->fid, struct fid_ep, fid), e->caps,
                          e->ep_type, e->completes, e);
                errno = saved;
        }
        return r;
}

/* ---- what is around a call, by its row ---- */

static uint64_t enter_flagged(void *s, const void *frame, const void *caller)
{
        capo_fi_enter(frame, caller);
        return 0;
}

static void leave_flagged(void *s) { capo_fi_leave(); }

static uint64_t enter_timed(void *s, const void *frame, const void *caller)
{
        capo_fi_enter(frame, caller);
        return capo_fi_now();
}

static void leave_timed(void *s) { capo_fi_leave(); }

static uint64_t enter_bare(void *s, const void *frame, const void *caller) { return 0; }

static void leave_bare(void *s) {}

/* ---- what was opened ---- */

static enum fi_ep_type type_of(const struct fi_info *info)
{
        return info && info->ep_attr ? info->ep_attr->type : FI_EP_UNSPEC;
}

static bool wants_completion(const struct fi_info *info)
{
        return info && info->tx_attr && info->tx_attr->op_flags & FI_COMPLETION;
}

static uint64_t caps_of(const struct fi_domain *d, const struct fi_info *info)
{
        return info && info->caps ? info->caps : d->caps;
}

/* One of which nothing need be known but that it is there. */
static void object_opened(enum fi_object_type type, struct fid *fid, struct fi_domain *domain)
{
        struct fi_object *o = capo_fi_new(type, fid, domain);

        if (o)
                capo_fi_follow(o);
}

#define CONTEXT_OPENED(from, ep, attr)                                                            \
        ep_opened((from)->o.domain, ep,                                                           \
                  attr && attr->caps ? attr->caps & (from)->caps : (from)->caps, (from)->ep_type, \
                  attr && attr->op_flags & FI_COMPLETION, NULL)

static void cq_opened(struct fi_domain *d, struct fid_cq *cq, const struct fi_cq_attr *attr)
{
        static const uint32_t stride[] = {
                [FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
                [FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
                [FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
                [FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
        };
        struct fi_cq *c = capo_fi_new(FI_T_CQ, &cq->fid, d);

        if (!c)
                return;
        if (attr && (unsigned)attr->format < N_ELEMENTS(stride))
                c->stride = stride[attr->format];
        c->lengths = c->stride >= sizeof(struct fi_cq_msg_entry);
        capo_fi_follow(&c->o);
}

/* attr->mr_iov of a piece of a device's memory: libfabric 1.20, rdma/fi_domain.h. */
#ifndef FI_MR_DMABUF
#define FI_MR_DMABUF (1ULL << 40)
struct fi_mr_dmabuf {
        int fd;
        uint64_t offset;
        size_t len;
        void *base_addr;
};
#endif

static size_t attr_bytes(const struct fi_mr_attr *attr, uint64_t flags)
{
        const void *region = attr->mr_iov;

        if (!region)
                return 0;
        return flags & FI_MR_DMABUF ? ((const struct fi_mr_dmabuf *)region)->len
                                    : iov_bytes(attr->mr_iov, attr->iov_count);
}

static void count_registration(struct fi_domain *d, int r, size_t bytes, uint64_t t0)
{
        if (r) {
                d->mr_failed++;
                capo_fi_error(&d->o.errors, r, 1);
                return;
        }
        capo_fi_hist_add(&d->mr_time, capo_fi_now() - t0);
        d->mr_count++;
        d->mr_bytes += bytes;
}

static void domain_opened(struct fi_fabric *f, struct fid_domain *domain,
                          const struct fi_info *info)
{
        struct fi_domain *d = capo_fi_new(FI_T_DOMAIN, &domain->fid, NULL);

        if (!d)
                return;
        d->fabric = f;
        d->line = d;
        d->caps = info ? info->caps : FI_MSG;
        d->sample_every = (unsigned)capo_shim_env()->fabric_sample;
        note_device(d, info, f->api_version);
        d->ops.real = capo_fi_put_in(domain->ops, &capo_fi_calls.DOMAIN_ops,
                                     sizeof capo_fi_calls.DOMAIN_ops);
        capo_fi_follow(&d->o);
}

void capo_fi_fabric_opened(struct fid_fabric *fabric, const struct fi_fabric_attr *attr)
{
        struct fi_fabric *f = capo_fi_new(FI_T_FABRIC, &fabric->fid, NULL);

        if (!f)
                return;
        f->api_version = fabric->api_version;
        if (attr && attr->prov_name)
                strncpy(f->provider, attr->prov_name, sizeof f->provider - 1);
        if (attr && attr->name)
                strncpy(f->name, attr->name, sizeof f->name - 1);
        capo_fi_follow(&f->o);
}

/* ---- the entries ---- */

/* The shadow whose stand-in @table is, at @offset in it; or, where it is none (FI_ENTRY in
 * stand_in.h and inplace.c say when), the one of @fid by the list. */
static void *shadow_of(const void *table, size_t offset, const struct fid *fid,
                       enum fi_object_type type)
{
        bool stand_in = !capo_fi_was(table) && fi_is_ours(table);

        return stand_in ? (char *)table - offset : (void *)capo_fi_find(fid, type);
}

/* What the provider calls while it works for us passes, and what is of nobody followed. */
#define CALL(object, around, of, member, entry, params, args, afterwards)                         \
        static int object##_##member##_##entry params                                             \
        {                                                                                         \
                __typeof__(of) o = of;                                                            \
                const __typeof__(*o->member) *real = capo_fi_was(o->member);                      \
                fi_shadow_##object *s =                                                           \
                        shadow_of(o->member, FI_TABLE_AT(fi_shadow_##object, member), &o->fid,    \
                                  FI_T_##object);                                                 \
                uint64_t t0;                                                                      \
                int r, saved;                                                                     \
                                                                                                  \
                if (!real)                                                                        \
                        real = s ? s->member.real : o->member;                                    \
                if (!real || real->entry == object##_##member##_##entry)                          \
                        return -FI_ENOSYS; /* a copy of our table, on an object that is none of \
                                              ours */ \
                if (!s || capo_fi_within(FI_FRAME))                                               \
                        return real->entry args;                                                  \
                t0 = enter_##around(s, FI_FRAME, FI_CALLER);                                      \
                r = real->entry args;                                                             \
                saved = errno;                                                                    \
                leave_##around(s);                                                                \
                (void)t0;                                                                         \
                afterwards;                                                                       \
                errno = saved;                                                                    \
                return r;                                                                         \
        }
#define OPEN(object, around, of, member, entry, params, args, opened) \
        CALL(object, around, of, member, entry, params, args, if (r == 0 && out && *out) opened)
#include "shim/fabric/ops.def"

const struct fi_calls capo_fi_calls = {
#define CALL(object, around, of, member, entry, ...) \
        .object##_##member.entry = object##_##member##_##entry,
#define OPEN CALL
#include "shim/fabric/ops.def"
};
