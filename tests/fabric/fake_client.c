/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks through every object of the fake provider and prints every result, and errno where a call
 * has changed it. Run bare and under capo, the two outputs must be the same to the byte. Usage:
 * fake_client [1.0|1.1|2]: the version of fi_fabric() to enter by. Built with OLD, it is not bound
 * to fi_fabric2(), and runs on a libfabric before 2.0.
 */
#include <errno.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int fabric_1_0(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context);
__asm__(".symver fabric_1_0, fi_fabric@FABRIC_1.0");
#ifndef OLD
int fabric2(struct fi_info *info, struct fid_fabric **out, uint64_t flags, void *context);
__asm__(".symver fabric2, fi_fabric2@FABRIC_1.8");
#else
static int fabric2(struct fi_info *info, struct fid_fabric **out, uint64_t flags, void *context)
{
        return -FI_ENOSYS;
}
#endif

enum { UNTOUCHED = 4242 };

static int say(const char *what, long r)
{
        int after = errno;

        printf("%s %ld\n", what, r);
        if (after != UNTOUCHED)
                printf("errno behind %s: %d\n", what, after);
        errno = UNTOUCHED;
        return (int)r;
}

static void shut(const char *what, struct fid *fid)
{
        if (say(what, fid->ops->close(fid)) == -FI_EBUSY)
                say(what, fid->ops->close(fid));
}

/* An entry the program may call: one the table says it has. */
#define HAS(ops, type, entry) ((ops) && FI_CHECK_OP(ops, type, entry))

static void post_and_read(struct fid_ep *ep, struct fid_cq *cq, int tagged, int all)
{
        static struct fi_context contexts[32];
        struct fi_cq_msg_entry entry[8];
        struct fi_cq_err_entry err;
        static char buf[5000];
        struct iovec iov[2] = {{buf, 100}, {buf + 100, 200}};
        struct fi_msg msg = {.msg_iov = iov, .iov_count = 2, .context = &contexts[31]};
        fi_addr_t from[8];

        for (int i = 0; i < 4; i++) {
                say("send", ep->msg->send(ep, buf, 64, NULL, 0, &contexts[i]));
                say("recv", ep->msg->recv(ep, buf, 4096, NULL, 0, &contexts[16 + i]));
                say("inject", ep->msg->inject(ep, buf, 8, 0));
                say("sendmsg", ep->msg->sendmsg(ep, &msg, 0));
                if (tagged)
                        say("tsend", ep->tagged->send(ep, buf, 128, NULL, 0, 5, &contexts[8 + i]));
                if (all) {
                        say("write",
                            ep->rma->write(ep, buf, 1000, NULL, 0, 0, 0, &contexts[4 + i]));
                        say("read", ep->rma->read(ep, buf, 1000, NULL, 0, 0, 0, &contexts[20 + i]));
                        if (HAS(ep->atomic, struct fi_ops_atomic, write))
                                say("atomic", ep->atomic->write(ep, buf, 4, NULL, 0, 0, 0,
                                                                FI_UINT64, FI_SUM, NULL));
                }
                for (ssize_t n = 1; n > 0;) {
                        n = i & 1 ? cq->ops->readfrom(cq, entry, 8, from)
                                  : cq->ops->read(cq, entry, 8);
                        say("cq", n);
                        for (ssize_t k = 0; k < n; k++)
                                printf("  context %ld\n",
                                       entry[k].op_context
                                               ? (struct fi_context *)entry[k].op_context - contexts
                                               : -1);
                        if (n == -FI_EAVAIL) {
                                say("readerr", cq->ops->readerr(cq, &err, 0));
                                printf("  err %d prov %d\n", err.err, err.prov_errno);
                        }
                }
        }
        for (size_t i = 0; i < sizeof contexts; i++)
                if (((char *)contexts)[i]) /* FI_CONTEXT: ours to give, the provider's to write,
                                              nobody else's */
                        puts("a context was written");
}

int main(int argc, char **argv)
{
        static char fabric_name[] = "fake\tfabric", provider[] = "fake", domain_name[] = "fake0";
        struct fi_fabric_attr attr = {
                .name = fabric_name, .prov_name = provider, .api_version = FI_VERSION(1, 17)};
        struct fi_domain_attr domain_attr = {.name = domain_name};
        struct fi_ep_attr ep_attr = {.type = FI_EP_RDM};
        struct fi_info info = {.caps = FI_MSG,
                               .fabric_attr = &attr,
                               .domain_attr = &domain_attr,
                               .ep_attr = &ep_attr};
        struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_MSG};
        const char *fake = getenv("FAKE") ? getenv("FAKE") : "";
        int whole = !strstr(fake, "truncated"), r;
        struct fid_fabric *fabric, *again;
        struct fid_domain *domain;
        struct fid_pep *pep;
        struct fid_eq *eq;
        struct fid_cq *cq;
        struct fid_cntr *cntr;
        struct fid_ep *ep, *alias = NULL;
        struct fid_mr *mr;
        int ctx;

        errno = UNTOUCHED;
        if (argc > 1 && !strcmp(argv[1], "1.0"))
                r = fabric_1_0(&attr, &fabric, &ctx);
        else if (argc > 1 && !strcmp(argv[1], "2"))
                r = fabric2(&info, &fabric, 0, &ctx);
        else
                r = fi_fabric(&attr, &fabric, &ctx);
        if (say("fabric", r))
                return 0;
        printf("context kept %d class %zu\n", fabric->fid.context == &ctx, fabric->fid.fclass);
        if (strstr(fake, "same")) {
                say("fabric again", fi_fabric(&attr, &again, &ctx));
                printf("the same %d\n", again == fabric);
        }
        if (say("eq", fi_eq_open(fabric, NULL, &eq, NULL)) == 0) {
                uint32_t event;
                char buf[64];

                say("eq_read", eq->ops->read(eq, &event, buf, sizeof buf, 0));
                shut("close eq", &eq->fid);
        }
        if (say("pep", fi_passive_ep(fabric, &info, &pep, NULL)) == 0) {
                say("listen", pep->cm->listen(pep));
                shut("close pep", &pep->fid);
        }
        if (say("domain", fi_domain(fabric, &info, &domain, NULL)))
                return 0;
        if (say("mr", domain->mr->reg(&domain->fid, &info, sizeof info, 0, 0, 0, 0, &mr, NULL)) ==
            0) {
                say("key", (long)fi_mr_key(mr));
                shut("close mr", &mr->fid);
        }
        if (say("cntr", domain->ops->cntr_open(domain, NULL, &cntr, NULL)) == 0) {
                say("cntr_read", (long)cntr->ops->read(cntr));
                shut("close cntr", &cntr->fid);
        }
        for (int round = 0; round < 3; round++) {
                info.caps = round == 0   ? FI_MSG
                            : round == 1 ? FI_MSG | FI_TAGGED
                                         : FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC;
                if (!whole && round == 2)
                        break;
                if (say("cq", domain->ops->cq_open(domain, &cq_attr, &cq, NULL)))
                        continue;
                if (say("endpoint", fi_endpoint(domain, &info, &ep, NULL)))
                        continue;
                say("bind", fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
                say("enable", fi_enable(ep));
                say("setopt", ep->ops->setopt(&ep->fid, FI_OPT_ENDPOINT, 0, NULL, 0));
                say("connect", ep->cm->connect(ep, NULL, NULL, 0));
                if (round == 2 && say("alias", fi_ep_alias(ep, &alias, 0)) == 0 && alias)
                        say("alias send", alias->msg->send(alias, "", 1, NULL, 0, NULL));
                if (ep->msg->send)
                        post_and_read(ep, cq, round > 0, round > 1);
                shut("close ep", &ep->fid);
                if (round == 1)
                        say("cq after ep", cq->ops->read(cq, &info, 0));
                shut("close cq", &cq->fid);
        }
        if (alias)
                shut("close alias", &alias->fid);
        shut("close domain", &domain->fid); /* the wrong way round would be: fabric first */
        shut("close fabric", &fabric->fid);
        return 0;
}
