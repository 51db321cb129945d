/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim.c's plain program over libfabric (the provider of tests/fabric): beside each call of NCCL one send of 64 bytes. It counts
 * both as victim.c does, the sends behind the calls.
 */
#include <fcntl.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/record/nccl_abi.h"

ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n_ranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream);

static struct {
        struct {
                _Atomic uint64_t begun, ended;
        } calls, sends;
} * truth;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_cq *cq;
static struct fid_ep *ep;

static void must(const char *what, long r)
{
        if (r) {
                printf("%s: %ld\n", what, r);
                exit(1);
        }
}

static void open_all(void)
{
        static char fabric_name[] = "fake", provider[] = "fake", domain_name[] = "fake0";
        static struct fi_fabric_attr attr = {.name = fabric_name, .prov_name = provider};
        static struct fi_domain_attr domain_attr = {.name = domain_name};
        static struct fi_ep_attr ep_attr = {.type = FI_EP_RDM};
        static struct fi_info info = {
                .caps = FI_MSG, .fabric_attr = &attr, .domain_attr = &domain_attr, .ep_attr = &ep_attr};
        struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_MSG};

        attr.api_version = FI_VERSION(1, 17);
        must("fi_fabric", fi_fabric(&attr, &fabric, NULL));
        must("fi_domain", fi_domain(fabric, &info, &domain, NULL));
        must("fi_cq_open", fi_cq_open(domain, &cq_attr, &cq, NULL));
        must("fi_endpoint", fi_endpoint(domain, &info, &ep, NULL));
        must("fi_ep_bind", fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
        must("fi_enable", fi_enable(ep));
}

#define COUNTED(which, what, call)      \
        do {                            \
                truth->which.begun++;   \
                must(what, (long)call); \
                truth->which.ended++;   \
        } while (0)

int main(void)
{
        static char buf[4096];
        struct fi_cq_msg_entry entry[8];
        const char *path = getenv("VICTIM_TRUTH");
        int fd = path ? open(path, O_RDWR | O_CREAT, 0600) : -1;
        ncclUniqueId id;
        ncclComm_t comm;

        must("a file to count in", fd < 0 || ftruncate(fd, sizeof *truth) < 0);
        truth = mmap(NULL, sizeof *truth, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        must("a map of it", truth == MAP_FAILED);
        close(fd);
        open_all();
        must("ncclGetUniqueId", (long)ncclGetUniqueId(&id));
        COUNTED(calls, "ncclCommInitRank", ncclCommInitRank(&comm, 2, id, 0));
        for (int i = 0; i < 2000; i++) {
                COUNTED(calls, "ncclAllReduce", ncclAllReduce(buf, buf, 100, 7, 0, comm, NULL));
                COUNTED(sends, "fi_send", fi_send(ep, buf, 64, NULL, 0, NULL));
                while (fi_cq_read(cq, entry, 8) > 0)
                        ;
                if (i % 500 == 499)
                        usleep(2000);
        }
        COUNTED(calls, "ncclCommDestroy", ncclCommDestroy(comm));
        must("fi_close", fi_close(&ep->fid));
        must("fi_close", fi_close(&cq->fid));
        must("fi_close", fi_close(&domain->fid));
        must("fi_close", fi_close(&fabric->fid));
        puts("done libfabric");
        return 0;
}
