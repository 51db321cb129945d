/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libfabric.so.1 that moves nothing and behaves as badly as providers are allowed to, so that a
 * program's output with and without capo can be compared. Built with PLUGIN, it is only a provider,
 * which a real libfabric loads. FAKE holds words:
 *
 *   compare     looks whether its own tables are in place, at every call that real providers do
 *               that in, and says so
 *   constant    the table of domains cannot be written
 *   meet        stops inside the call to which it was given a struct meet for a context
 *               until it is allowed to go on
 *   enable      FI_ENABLE, setopt and bind put other tables into the endpoint
 *               (shm, cxi)
 *   inplace     ep.msg is allocated per endpoint, filled at FI_ENABLE and freed at close
 *               (verbs)
 *   reenter     reads a queue, and sends, through its own objects' tables
 *               (efa)
 *   forward     its queues' read is nothing but a jump through their own table
 *               (libfabric's util_cq.c)
 *   softcq      binding a queue fills the queue's table anew; what stood there before must not be
 *               called      (usnic)
 *   swapcq      enabling an endpoint gives its queue another table
 *               (efa)
 *   truncated   an endpoint ends behind the last table its capabilities need, at an unmapped page
 *   short       tables end early; entries are NULL
 *   size0       tables say they have no bytes;  big: more than any libfabric has
 *   busy        the first close of an object says -FI_EBUSY
 *   poison      memory of a closed object must not be touched: it is unmapped
 *   same        fi_fabric() gives the same object every time
 *   again       every third post says -FI_EAGAIN
 *   sends       what completes was sent, and nothing comes for a receive
 *   silent      queues give nothing
 *   nested      opening a domain opens another fabric through fi_fabric(), as layered providers do
 *   fail=NAME   the call of that name fails (fabric, domain, endpoint, cq, cntr, eq, pep, mr, bind,
 *               enable, send, read, close)
 */
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_prov.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/fabric/fabric_meet.h"

#define EXPORT __attribute__((visibility("default")))

#ifndef PLUGIN
int fabric_1_0(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context);
int fabric_1_1(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context);
int fabric2_1_8(struct fi_info *info, struct fid_fabric **out, uint64_t flags, void *context);
const char *fi_strerror(int code);
int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context);
__asm__(".symver fabric_1_0, fi_fabric@FABRIC_1.0");
__asm__(".symver fabric_1_1, fi_fabric@@FABRIC_1.1");
__asm__(".symver fabric2_1_8, fi_fabric2@@FABRIC_1.8");
#endif

static bool is(const char *word)
{
        const char *fake = getenv("FAKE");
        size_t n = strlen(word);

        for (const char *at = fake ? strstr(fake, word) : NULL; at; at = strstr(at + 1, word)) {
                if ((at == fake || at[-1] == ',') && (!at[n] || at[n] == ','))
                        return true;
        }
        return false;
}

/* ---- memory: an object ends at the end of its pages, so what lies behind it cannot be read
 * ----------------------- */

static void *object_new(size_t size)
{
        size_t pages = (size + 4095) & ~4095ul;
        char *p = mmap(NULL, pages + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                       0);

        mprotect(p + pages, 4096, PROT_NONE);
        return p + pages - ((size + 15) & ~15ul);
}

static void object_free(void *object)
{
        if (is("poison"))
                mprotect((void *)((uintptr_t)object & ~4095ul), 4096, PROT_NONE);
}

struct ep {
        struct fid_cq *cq; /* before the part that may be cut off */
        struct fid_domain *domain;
        unsigned posts;
        bool busy, inplace;
        struct fid_ep fid;
};
struct cq {
        unsigned ready; /* completions to hand out */
        bool soft;
        struct fi_ops_cq own; /* its table, with softcq */
        void *context[16];
        void *nothing; /* context of a peek that found no message */
        struct fid_cq fid;
};

/* ---- tables
 * ------------------------------------------------------------------------------------------------------
 */

static struct fi_ops fid_ops;
static struct fi_ops_ep ep_ops;
static struct fi_ops_cm cm_ops;
static struct fi_ops_msg msg_ops, msg_ops_enabled;
static struct fi_ops_tagged tagged_ops;
static struct fi_ops_rma rma_ops;
static struct fi_ops_atomic atomic_ops;
static struct fi_ops_domain domain_ops, *constant_ops = &domain_ops;
static struct fi_ops_mr mr_ops;
static struct fi_ops_cq cq_ops, cq_ops_enabled;
static struct fi_ops_cntr cntr_ops;
static struct fi_ops_eq eq_ops;
static struct fi_ops_fabric fabric_ops;

static void check_domain(const char *where, const struct fid_domain *domain)
{
        if (is("compare"))
                printf("provider: %s: domain %d\n", where, domain->ops == constant_ops);
}

static void meet(const char *where, const struct fid_domain *domain, void *context)
{
        struct meet *m = context;

        if (!is("meet") || !m)
                return;
        m->here = true;
        while (!m->go)
                sched_yield();
        check_domain(where, domain);
}

static void check_ep(const char *where, const struct ep *e)
{
        if (!is("compare"))
                return;
        check_domain(where, e->domain);
        printf("provider: %s: msg %d ops %d fid %d\n", where,
               e->inplace || e->fid.msg == &msg_ops || e->fid.msg == &msg_ops_enabled,
               e->fid.ops == &ep_ops, e->fid.fid.ops == &fid_ops);
}

/* ---- posting
 * -----------------------------------------------------------------------------------------------------
 */

static struct ep *of(struct fid_ep *ep)
{
        return (struct ep *)((char *)ep - offsetof(struct ep, fid));
}

static ssize_t post(struct fid_ep *ep, void *context)
{
        struct ep *e = of(ep);

        if (is("fail=send"))
                return -FI_ENOKEY;
        if (is("again") && ++e->posts % 3 == 0)
                return -FI_EAGAIN;
        if (e->cq) {
                struct cq *c = (struct cq *)((char *)e->cq - offsetof(struct cq, fid));

                if (c->ready < 16)
                        c->context[c->ready++] = context;
        }
        return 0;
}

static ssize_t msg_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t a,
                        void *context)
{
        return is("sends") ? 0 : post(ep, context);
}

static ssize_t tagged_recvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
        if (flags & FI_PEEK &&
            msg->tag == 8) { /* there is none: said at once, or in the queue of errors */
                struct cq *c = (struct cq *)((char *)of(ep)->cq - offsetof(struct cq, fid));

                c->nothing = msg->context;
                return 0;
        }
        return flags & FI_PEEK && msg->tag == 9 ? -FI_ENOMSG : post(ep, msg->context);
}

static ssize_t atomic_readwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                                   struct fi_ioc *result, void **result_desc, size_t result_count,
                                   uint64_t flags)
{
        return post(ep, msg->context);
}

static ssize_t atomic_readwritev(struct fid_ep *ep, const struct fi_ioc *ioc, void **desc,
                                 size_t count, struct fi_ioc *result, void **result_desc,
                                 size_t result_count, fi_addr_t a, uint64_t addr, uint64_t key,
                                 enum fi_datatype type, enum fi_op op, void *context)
{
        return post(ep, context);
}

static ssize_t tagged_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t a,
                           uint64_t tag, void *context)
{
        return post(ep, context);
}

static ssize_t msg_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t a,
                        void *context)
{
        if (is("reenter"))
                return ep->tagged->send(ep, buf, len, desc, a, 0, context);
        return post(ep, context);
}

static ssize_t msg_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
        return post(ep, msg->context);
}

static ssize_t msg_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t a)
{
        return is("fail=send") ? -FI_ENOKEY : 0;
}

static ssize_t rma_write(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t a,
                         uint64_t addr, uint64_t key, void *context)
{
        return post(ep, context);
}

static ssize_t rma_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t a,
                        uint64_t addr, uint64_t key, void *context)
{
        return post(ep, context);
}

static ssize_t atomic_write(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                            fi_addr_t a, uint64_t addr, uint64_t key, enum fi_datatype type,
                            enum fi_op op, void *context)
{
        return post(ep, context);
}

/* ---- completions
 * -------------------------------------------------------------------------------------------------
 */

static ssize_t cq_readfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *from)
{
        struct cq *c = (struct cq *)((char *)cq - offsetof(struct cq, fid));
        struct fi_cq_msg_entry *entry = buf;
        size_t n = 0;

        if (is("fail=read") || c->nothing)
                return -FI_EAVAIL;
        for (; c->ready && n < count && !is("silent"); n++) {
                entry[n] = (struct fi_cq_msg_entry){.op_context = c->context[--c->ready],
                                                    .flags = is("sends") ? FI_SEND : FI_RECV,
                                                    .len = 100};
                if (from)
                        from[n] = 7;
        }
        return n ? (ssize_t)n : -FI_EAGAIN;
}

static ssize_t cq_read(struct fid_cq *cq, void *buf, size_t count)
{
        if (is("reenter"))
                return cq->ops->readfrom(cq, buf, count, NULL);
        return cq_readfrom(cq, buf, count, NULL);
}

static ssize_t cq_read_soft(struct fid_cq *cq, void *buf, size_t count)
{
        return cq_readfrom(cq, buf, count, NULL);
}

static ssize_t cq_read_hard(struct fid_cq *cq, void *buf, size_t count)
{
        if (((struct cq *)((char *)cq - offsetof(struct cq, fid)))->soft)
                puts("provider: the read of before");
        return cq_read_soft(cq, buf, count);
}

static ssize_t cq_read_forward(struct fid_cq *cq, void *buf, size_t count)
{
        return cq->ops->readfrom(cq, buf, count, NULL);
}

static ssize_t cq_read_enabled(struct fid_cq *cq, void *buf, size_t count)
{
        return cq_readfrom(cq, buf, count, NULL);
}

static ssize_t cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *buf, uint64_t flags)
{
        struct cq *c = (struct cq *)((char *)cq - offsetof(struct cq, fid));

        if (c->nothing) {
                *buf = (struct fi_cq_err_entry){.op_context = c->nothing, .err = FI_ENOMSG};
                c->nothing = NULL;
                return 1;
        }
        if (!is("fail=read"))
                return -FI_EAGAIN;
        *buf = (struct fi_cq_err_entry){.err = FI_EOVERRUN, .prov_errno = 5};
        return 1;
}

static uint64_t cntr_read(struct fid_cntr *cntr) { return 42; }

static ssize_t eq_read(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
        return -FI_EAGAIN;
}

/* ---- control
 * -----------------------------------------------------------------------------------------------------
 */

static int fid_close(struct fid *fid)
{
        struct ep *e = fid->fclass == FI_CLASS_EP ? of((struct fid_ep *)fid) : NULL;

        if (e)
                check_ep("close", e);
        if (is("busy") && fid->context != (void *)1) {
                fid->context = (void *)1;
                return -FI_EBUSY;
        }
        if (is("fail=close")) {
                object_free(fid);
                return -FI_EIO;
        }
        if (e && e->inplace)
                free(e->fid.msg);
        if (!is("same") || fid->fclass != FI_CLASS_FABRIC)
                object_free(fid);
        return 0;
}

static void tables_after(struct ep *e)
{
        if (is("enable"))
                e->fid.msg = e->fid.msg == &msg_ops ? &msg_ops_enabled : &msg_ops;
}

static int fid_bind(struct fid *fid, struct fid *with, uint64_t flags)
{
        struct ep *e = of((struct fid_ep *)fid);

        if (is("fail=bind"))
                return -FI_EINVAL;
        check_ep("bind", e);
        if (with->fclass == FI_CLASS_CQ)
                e->cq = (struct fid_cq *)with;
        if (with->fclass == FI_CLASS_CQ && is("softcq")) {
                struct cq *c = (struct cq *)((char *)with - offsetof(struct cq, fid));

                c->soft = true;
                c->own.read = cq_read_soft;
        }
        tables_after(e);
        return 0;
}

static int fid_control(struct fid *fid, int command, void *arg)
{
        struct ep *e = of((struct fid_ep *)fid);

        if (fid->fclass != FI_CLASS_EP)
                return -FI_ENOSYS;
        check_ep("control", e);
        meet("control", e->domain, fid->context);
        if (command == FI_ALIAS) {
                struct fi_alias *alias = arg;
                struct ep *copy = object_new(sizeof *copy);

                *copy = *e;
                copy->inplace = false;
                *alias->fid = &copy->fid.fid;
                printf("provider: alias has my tables: %d\n",
                       copy->fid.msg == &msg_ops || e->inplace);
                return 0;
        }
        if (is("fail=enable"))
                return -FI_EOPBADSTATE;
        if (e->inplace)
                *e->fid.msg = msg_ops_enabled;
        if (is("swapcq") && e->cq)
                e->cq->ops = &cq_ops_enabled;
        tables_after(e);
        return 0;
}

static int ep_setopt(fid_t fid, int level, int name, const void *value, size_t size)
{
        check_ep("setopt", of((struct fid_ep *)fid));
        tables_after(of((struct fid_ep *)fid));
        return 0;
}

static int cm_connect(struct fid_ep *ep, const void *addr, const void *param, size_t size)
{
        check_ep("connect", of(ep));
        return 0;
}

/* ---- opening
 * -----------------------------------------------------------------------------------------------------
 */

static int domain_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **out,
                           void *context)
{
        size_t size = sizeof(struct ep);
        struct ep *e;

        check_domain("endpoint", domain);
        meet("endpoint", domain, context);
        if (is("fail=endpoint"))
                return -FI_ENOMEM;
        if (is("truncated"))
                size = offsetof(struct ep, fid) + (info->caps & FI_TAGGED
                                                           ? offsetof(struct fid_ep, atomic)
                                                           : offsetof(struct fid_ep, rma));
        e = object_new(size);
        e->cq = NULL;
        e->domain = domain;
        e->posts = 0;
        e->inplace = is("inplace");
        e->fid.fid = (struct fid){.fclass = FI_CLASS_EP, .context = context, .ops = &fid_ops};
        e->fid.ops = &ep_ops;
        e->fid.cm = &cm_ops;
        e->fid.msg = e->inplace ? calloc(1, sizeof *e->fid.msg) : &msg_ops;
        if (size == sizeof *e || info->caps & FI_TAGGED) {
                e->fid.rma = &rma_ops;
                e->fid.tagged = &tagged_ops;
        }
        if (size == sizeof *e)
                e->fid.atomic = &atomic_ops;
        *out = &e->fid;
        return 0;
}

static int domain_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **out,
                          void *context)
{
        struct cq *c = object_new(sizeof *c);

        if (is("fail=cq"))
                return -FI_ENOMEM;
        c->ready = 0;
        c->nothing = NULL;
        c->fid =
                (struct fid_cq){.fid = {.fclass = FI_CLASS_CQ, .context = context, .ops = &fid_ops},
                                .ops = &cq_ops};
        if (is("softcq")) {
                c->own = cq_ops;
                c->own.read = cq_read_hard;
                c->fid.ops = &c->own;
        }
        *out = &c->fid;
        return 0;
}

static int domain_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr,
                            struct fid_cntr **out, void *context)
{
        struct fid_cntr *c = object_new(sizeof *c);

        if (is("fail=cntr"))
                return -FI_ENOMEM;
        *c = (struct fid_cntr){
                .fid = {.fclass = FI_CLASS_CNTR, .context = context, .ops = &fid_ops},
                .ops = &cntr_ops};
        *out = c;
        return 0;
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
                  uint64_t key, uint64_t flags, struct fid_mr **mr, void *context)
{
        struct fid_mr *m = object_new(sizeof *m);

        if (is("fail=mr"))
                return -FI_ENOKEY;
        if (is("leave"))
                raise(SIGUSR2);
        *m = (struct fid_mr){.fid = {.fclass = FI_CLASS_MR, .context = context, .ops = &fid_ops},
                             .key = 99};
        *mr = m;
        return 0;
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                      struct fid_mr **mr)
{
        return mr_reg(fid, NULL, 0, 0, 0, 0, flags, mr, attr->context);
}

static int fabric_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **out,
                         void *context)
{
        struct fid_domain *d = object_new(sizeof *d);

        if (is("fail=domain"))
                return -FI_EBUSY;
        if (is("nested")) {
                struct fid_fabric *below;

                fi_fabric(info->fabric_attr, &below, NULL);
                printf("provider: fabric below has my tables: %d\n", below->ops == &fabric_ops);
        }
        *d = (struct fid_domain){
                .fid = {.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &fid_ops},
                .ops = constant_ops,
                .mr = &mr_ops};
        *out = d;
        return 0;
}

static int fabric_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **out,
                             void *context)
{
        struct fid_pep *p = object_new(sizeof *p);

        if (is("fail=pep"))
                return -FI_ENOMEM;
        *p = (struct fid_pep){.fid = {.fclass = FI_CLASS_PEP, .context = context, .ops = &fid_ops},
                              .ops = &ep_ops,
                              .cm = &cm_ops};
        *out = p;
        return 0;
}

static int fabric_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **out,
                          void *context)
{
        struct fid_eq *q = object_new(sizeof *q);

        if (is("fail=eq"))
                return -FI_ENOMEM;
        *q = (struct fid_eq){.fid = {.fclass = FI_CLASS_EQ, .context = context, .ops = &fid_ops},
                             .ops = &eq_ops};
        *out = q;
        return 0;
}

static int pep_listen(struct fid_pep *pep) { return 0; }

/* Every table is as long as this build's headers say, or shorter, or nonsense. */
#define SIZE(table, last_entry)                                  \
        (is("size0")   ? 0                                       \
         : is("big")   ? 400                                     \
         : is("short") ? offsetof(__typeof__(table), last_entry) \
                       : sizeof(table))

static void tables(void)
{
        fid_ops = (struct fi_ops){.size = is("short") ? offsetof(struct fi_ops, tostr)
                                                      : sizeof fid_ops,
                                  .close = fid_close,
                                  .bind = fid_bind,
                                  .control = fid_control};
        ep_ops = (struct fi_ops_ep){.size = SIZE(ep_ops, tx_ctx), .setopt = ep_setopt};
        cm_ops = (struct fi_ops_cm){
                .size = SIZE(cm_ops, accept), .connect = cm_connect, .listen = pep_listen};
        msg_ops = (struct fi_ops_msg){.size = SIZE(msg_ops, senddata),
                                      .recv = msg_recv,
                                      .send = msg_send,
                                      .sendmsg = msg_sendmsg,
                                      .inject = msg_inject};
        msg_ops_enabled = msg_ops;
        tagged_ops = (struct fi_ops_tagged){
                .size = SIZE(tagged_ops, sendv), .send = tagged_send, .recvmsg = tagged_recvmsg};
        rma_ops = (struct fi_ops_rma){
                .size = SIZE(rma_ops, writev), .read = rma_read, .write = rma_write};
        atomic_ops = (struct fi_ops_atomic){.size = SIZE(atomic_ops, writev),
                                            .write = atomic_write,
                                            .readwritev = atomic_readwritev,
                                            .readwritemsg = atomic_readwritemsg};
        domain_ops = (struct fi_ops_domain){.size = SIZE(domain_ops, poll_open),
                                            .endpoint = domain_endpoint,
                                            .cq_open = domain_cq_open,
                                            .cntr_open = domain_cntr_open};
        if (is("constant") && constant_ops == &domain_ops) {
                constant_ops = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                                    -1, 0);
                *constant_ops = domain_ops;
                mprotect(constant_ops, 4096, PROT_READ);
        }
        mr_ops = (struct fi_ops_mr){
                .size = SIZE(mr_ops, regv), .reg = mr_reg, .regattr = mr_regattr};
        cq_ops = (struct fi_ops_cq){.size = SIZE(cq_ops, sread),
                                    .read = is("forward") ? cq_read_forward : cq_read,
                                    .readfrom = cq_readfrom,
                                    .readerr = cq_readerr};
        cq_ops_enabled = cq_ops;
        cq_ops_enabled.read = cq_read_enabled;
        cntr_ops = (struct fi_ops_cntr){.size = SIZE(cntr_ops, add), .read = cntr_read};
        eq_ops = (struct fi_ops_eq){.size = SIZE(eq_ops, readerr), .read = eq_read};
        fabric_ops = (struct fi_ops_fabric){.size = SIZE(fabric_ops, wait_open),
                                            .domain = fabric_domain,
                                            .passive_ep = fabric_passive_ep,
                                            .eq_open = fabric_eq_open};
}

static int fabric_open(const char *version, struct fid_fabric **out, void *context)
{
        static struct fid_fabric *same;
        struct fid_fabric *f;

        printf("provider: fi_fabric %s\n", version);
        if (is("fail=fabric"))
                return -FI_ENODATA;
        tables();
        if (is("same") && same) {
                *out = same;
                return 0;
        }
        f = same = object_new(sizeof *f);
        *f = (struct fid_fabric){
                .fid = {.fclass = FI_CLASS_FABRIC, .context = context, .ops = &fid_ops},
                .ops = &fabric_ops,
                .api_version = FI_VERSION(1, 17)};
        *out = f;
        return 0;
}

#ifdef PLUGIN
static int plugin_fabric(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context)
{
        return fabric_open("of a plugin", out, context);
}

static int plugin_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                          const struct fi_info *hints, struct fi_info **info)
{
        return -FI_ENODATA; /* for those who ask for it by name only */
}

struct fi_provider *fi_prov_ini(void);

static void plugin_cleanup(void) {}

EXPORT struct fi_provider *fi_prov_ini(void)
{
        static struct fi_provider me = {.name = "fake",
                                        .getinfo = plugin_getinfo,
                                        .fabric = plugin_fabric,
                                        .cleanup = plugin_cleanup};

        me.version = me.fi_version =
                fi_version(); /* libfabric takes none of another major version */
        return &me;
}
#else
EXPORT int fabric_1_0(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context)
{
        return fabric_open("1.0", out, context);
}

EXPORT int fabric_1_1(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context)
{
        return fabric_open("1.1", out, context);
}

EXPORT int fabric2_1_8(struct fi_info *info, struct fid_fabric **out, uint64_t flags, void *context)
{
        printf("provider: fi_fabric2\n");
        return fi_fabric(info->fabric_attr, out,
                         context); /* as libfabric does it: through the PLT, back through capo */
}

EXPORT const char *fi_strerror(int code)
{
        return code == FI_EOVERRUN ? "Queue has been overrun"
               : code == FI_ENOKEY ? "Required key not available"
                                   : "fake";
}
#endif
