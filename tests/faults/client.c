/* SPDX-License-Identifier: Apache-2.0 */
/* victim.c's plain program over libfabric (the provider of tests/fabric): beside each call of NCCL
 * one send of 64 bytes. */
#include "mishap.h"

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n_ranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_cq *cq;
static struct fid_ep *ep;

static void open_all(void)
{
        static char fabric_name[] = "fake", provider[] = "fake", domain_name[] = "fake0";
        static struct fi_fabric_attr attr = {.name = fabric_name, .prov_name = provider};
        static struct fi_domain_attr domain_attr = {.name = domain_name};
        static struct fi_ep_attr ep_attr = {.type = FI_EP_RDM};
        static struct fi_info info = {.caps = FI_MSG,
                                      .fabric_attr = &attr,
                                      .domain_attr = &domain_attr,
                                      .ep_attr = &ep_attr};
        struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_MSG};

        attr.api_version = FI_VERSION(1, 17);
        MUST(fi_fabric(&attr, &fabric, NULL) == 0);
        MUST(fi_domain(fabric, &info, &domain, NULL) == 0);
        MUST(fi_cq_open(domain, &cq_attr, &cq, NULL) == 0);
        MUST(fi_endpoint(domain, &info, &ep, NULL) == 0);
        MUST(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) == 0);
        MUST(fi_enable(ep) == 0);
}

int main(void)
{
        static char buf[4096];
        struct fi_cq_msg_entry entry[8];
        static const struct nccl nccl = {ncclGetUniqueId, ncclCommInitRank, ncclAllReduce,
                                         ncclCommDestroy};
        ncclUniqueId id;
        ncclComm_t comm;

        mishap_begin(&nccl);
        open_all();
        MUST(ncclGetUniqueId(&id) == ncclSuccess);
        COUNTED(ncclCommInitRank(&comm, 2, id, 0));
        for (int i = 0; i < 2000; i++) {
                COUNTED(ncclAllReduce(buf, buf, 100, 7, 0, comm, NULL));
                truth->sends_begun++;
                MUST(fi_send(ep, buf, 64, NULL, 0, NULL) == 0);
                truth->sends_ended++;
                while (fi_cq_read(cq, entry, 8) > 0)
                        ;
                if (i == 100)
                        mishap_middle();
                if (i % 500 == 499)
                        usleep(2000);
        }
        COUNTED(ncclCommDestroy(comm));
        MUST(fi_close(&ep->fid) == 0);
        MUST(fi_close(&cq->fid) == 0);
        MUST(fi_close(&domain->fid) == 0);
        MUST(fi_close(&fabric->fid) == 0);
        puts("done libfabric");
        return 0;
}
