/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.c's program over libfabric's own providers: beside each call of NCCL one message of 64
 * bytes to this process itself, over shm, tcp (a connection), tcp;ofi_rxm and udp;ofi_rxd by turns.
 * Each is waited for until it has left and has come. A provider that this libfabric does not have
 * is left out; which ones it has, the program says.
 */
#include "mishap.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>

ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n_ranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);

static struct net {
        const char *provider;
        enum fi_ep_type type;
        struct fi_info *info;
        struct fid_fabric *fabric;
        struct fid_domain *domain;
        struct fid_cq *cq;
        struct fid_av *av;
        struct fid_eq *eq;
        struct fid_pep *pep;
        struct fid_ep *ep, *other; /* where it sends from, and where that comes: the same, but for a
                                      connection */
        fi_addr_t to;
} nets[] = {{"shm", FI_EP_RDM},
            {"tcp", FI_EP_MSG},
            {"tcp;ofi_rxm", FI_EP_RDM},
            {"udp;ofi_rxd", FI_EP_RDM}};
enum { NETS = sizeof nets / sizeof *nets };

static void close_one(struct fid *fid)
{
        if (fid)
                MUST(fi_close(fid) == 0);
}

static struct fid_ep *ep_open(struct net *n, struct fi_info *info)
{
        struct fid_ep *ep;

        MUST(fi_endpoint(n->domain, info, &ep, NULL) == 0);
        MUST(fi_ep_bind(ep, &n->cq->fid, FI_TRANSMIT | FI_RECV) == 0);
        if (n->av)
                MUST(fi_ep_bind(ep, &n->av->fid, 0) == 0);
        if (n->eq)
                MUST(fi_ep_bind(ep, &n->eq->fid, 0) == 0);
        MUST(fi_enable(ep) == 0);
        return ep;
}

static void event(struct net *n, uint32_t wanted, struct fi_eq_cm_entry *entry)
{
        uint32_t what;
        ssize_t r;

        while ((r = fi_eq_read(n->eq, &what, entry, sizeof *entry, 0)) == -FI_EAGAIN)
                sched_yield();
        MUST(r >= 0 && what == wanted);
}

/* Both ends of a connection are here. */
static void connect_to_itself(struct net *n)
{
        struct fi_eq_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
        struct fi_eq_cm_entry entry;
        char name[256];
        size_t room = sizeof name;

        MUST(fi_eq_open(n->fabric, &attr, &n->eq, NULL) == 0);
        MUST(fi_passive_ep(n->fabric, n->info, &n->pep, NULL) == 0);
        MUST(fi_pep_bind(n->pep, &n->eq->fid, 0) == 0);
        MUST(fi_listen(n->pep) == 0);
        MUST(fi_getname(&n->pep->fid, name, &room) == 0);
        n->ep = ep_open(n, n->info);
        MUST(fi_connect(n->ep, name, NULL, 0) == 0);
        event(n, FI_CONNREQ, &entry);
        n->other = ep_open(n, entry.info);
        fi_freeinfo(entry.info);
        MUST(fi_accept(n->other, NULL, 0) == 0);
        event(n, FI_CONNECTED, &entry);
        event(n, FI_CONNECTED, &entry);
}

static void net_open(struct net *n)
{
        struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_MSG};
        struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
        struct fi_info *hints = fi_allocinfo();
        bool local = !strcmp(n->provider, "shm");
        char name[256];
        size_t room = sizeof name;
        int r;

        hints->caps = FI_MSG;
        hints->ep_attr->type = n->type;
        hints->fabric_attr->prov_name = strdup(n->provider);
        r = fi_getinfo(FI_VERSION(1, 17), local ? NULL : "127.0.0.1", NULL, 0, hints, &n->info);
        printf("%s: %s\n", n->provider, r ? "not here" : "here");
        fi_freeinfo(hints);
        if (r)
                return;
        MUST(fi_fabric(n->info->fabric_attr, &n->fabric, NULL) == 0);
        MUST(fi_domain(n->fabric, n->info, &n->domain, NULL) == 0);
        MUST(fi_cq_open(n->domain, &cq_attr, &n->cq, NULL) == 0);
        if (n->type == FI_EP_MSG) {
                connect_to_itself(n);
                return;
        }
        MUST(fi_av_open(n->domain, &av_attr, &n->av, NULL) == 0);
        n->ep = n->other = ep_open(n, n->info);
        MUST(fi_getname(&n->ep->fid, name, &room) == 0);
        MUST(fi_av_insert(n->av, name, 1, &n->to, 0, NULL) == 1);
}

static unsigned poll_queue(struct net *n)
{
        struct fi_cq_msg_entry entry[8];
        ssize_t r = fi_cq_read(n->cq, entry, 8);

        MUST(r > 0 || r == -FI_EAGAIN);
        if (r < 0)
                sched_yield();
        return r > 0 ? (unsigned)r : 0;
}

static void message(struct net *n)
{
        static char out[64], in[64];
        unsigned done = 0;
        ssize_t r;

        while ((r = fi_recv(n->other, in, sizeof in, NULL, FI_ADDR_UNSPEC, in)) == -FI_EAGAIN)
                done += poll_queue(n);
        MUST(r == 0);
        truth->sends_begun++;
        while ((r = fi_send(n->ep, out, sizeof out, NULL, n->to, out)) == -FI_EAGAIN)
                done += poll_queue(n);
        MUST(r == 0);
        truth->sends_ended++;
        while (done < 2)
                done += poll_queue(n);
}

static void net_close(struct net *n)
{
        close_one(n->ep ? &n->ep->fid : NULL);
        close_one(n->other && n->other != n->ep ? &n->other->fid : NULL);
        close_one(n->pep ? &n->pep->fid : NULL);
        close_one(n->av ? &n->av->fid : NULL);
        close_one(n->cq ? &n->cq->fid : NULL);
        close_one(n->eq ? &n->eq->fid : NULL);
        close_one(n->domain ? &n->domain->fid : NULL);
        close_one(n->fabric ? &n->fabric->fid : NULL);
        fi_freeinfo(n->info);
}

int main(int argc, char **argv)
{
        static const struct nccl nccl = {ncclGetUniqueId, ncclCommInitRank, ncclAllReduce,
                                         ncclCommDestroy};
        static char buf[4096];
        ncclUniqueId id;
        ncclComm_t comm;

        mishap_begin(&nccl);
        for (int i = 0; i < NETS; i++) {
                if (argc < 2 || !strcmp(argv[1], nets[i].provider))
                        net_open(&nets[i]);
        }
        MUST(ncclGetUniqueId(&id) == ncclSuccess);
        COUNTED(ncclCommInitRank(&comm, 2, id, 0));
        for (int i = 0; i < 2000; i++) {
                COUNTED(ncclAllReduce(buf, buf, 100, 7, 0, comm, NULL));
                if (nets[i % NETS].ep)
                        message(&nets[i % NETS]);
                if (i == 100)
                        mishap_middle();
                if (i % 500 == 499)
                        usleep(2000);
        }
        COUNTED(ncclCommDestroy(comm));
        for (int i = 0; i < NETS; i++)
                net_close(&nets[i]);
        puts("done providers");
        return 0;
}
