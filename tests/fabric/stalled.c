/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stalled FOLDER: a rank whose program sends over the fake provider beside its NCCL calls. What
 * rank 1 posts last does not complete, and its GPU does not come to the last AllReduce, which all
 * have entered. It stands until there is a file FOLDER/free.
 */
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/jobs/perf_job.h"

enum { SENDS = 20, LAST = 5, COUNT = 1000 };

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_cq *cq;
static struct fid_ep *ep;
static const char *folder;

static void must(const char *what, long r)
{
        if (r) {
                fprintf(stderr, "%s: %ld\n", what, r);
                exit(1);
        }
}

static bool is_free(void)
{
        char path[600];

        snprintf(path, sizeof path, "%.500s/free", folder);
        return access(path, F_OK) == 0;
}

static void until_free(void *nothing)
{
        while (!is_free())
                usleep(1000);
}

static void net_open(void)
{
        static char fabric_name[] = "fake", provider[] = "fake", domain_name[] = "fake0-rdm";
        struct fi_fabric_attr attr = {
                .name = fabric_name, .prov_name = provider, .api_version = FI_VERSION(1, 17)};
        struct fi_domain_attr domain_attr = {.name = domain_name};
        struct fi_ep_attr ep_attr = {.type = FI_EP_RDM};
        struct fi_info info = {.caps = FI_MSG,
                               .fabric_attr = &attr,
                               .domain_attr = &domain_attr,
                               .ep_attr = &ep_attr};
        struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_MSG};

        must("fi_fabric", fi_fabric(&attr, &fabric, NULL));
        must("fi_domain", fi_domain(fabric, &info, &domain, NULL));
        must("fi_cq_open", fi_cq_open(domain, &cq_attr, &cq, NULL));
        must("fi_endpoint", fi_endpoint(domain, &info, &ep, NULL));
        must("fi_ep_bind", fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
        must("fi_enable", fi_enable(ep));
}

static void post(unsigned n)
{
        static char buf[64];
        struct fi_cq_msg_entry entry[8];

        while (n--) {
                must("fi_send", fi_send(ep, buf, sizeof buf, NULL, 0, buf));
                fi_cq_read(cq, entry, 8);
        }
}

int main(int argc, char **argv)
{
        struct fi_cq_msg_entry entry[8];
        CUdeviceptr from, to;
        struct job job;

        if (argc != 2)
                return 2;
        folder = argv[1];
        setenv("FAKE", "sends", 1);
        job_open(&job, "world");
        net_open();
        CU_CHECK(cuMemAlloc(&from, COUNT * sizeof(float)));
        CU_CHECK(cuMemAlloc(&to, COUNT * sizeof(float)));
        for (int i = 0; i < 2; i++) {
                post(SENDS);
                if (i == 1 && job.rank == 1) {
                        setenv("FAKE", "sends,silent", 1);
                        CU_CHECK(cuLaunchHostFunc(job.stream, until_free, NULL));
                }
                if (i == 1)
                        post(LAST);
                NCCL_CHECK(ncclAllReduce((void *)from, (void *)to, COUNT, ncclFloat, ncclSum,
                                         job.comm, job.stream));
                if (i == 0)
                        CU_CHECK(cuStreamSynchronize(job.stream));
        }
        while (!is_free()) { /* as a thread that moves a network along does */
                fi_cq_read(cq, entry, 8);
                usleep(1000);
        }
        setenv("FAKE", "sends", 1);
        while (fi_cq_read(cq, entry, 8) > 0)
                ;
        CU_CHECK(cuStreamSynchronize(job.stream));
        must("fi_close", fi_close(&ep->fid));
        must("fi_close", fi_close(&cq->fid));
        must("fi_close", fi_close(&domain->fid));
        must("fi_close", fi_close(&fabric->fid));
        job_close(&job);
        return 0;
}
