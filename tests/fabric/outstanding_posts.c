/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posts to itself, inside collectives and between them: outstanding_posts PROVIDER SECONDS
 * [one|context|writes].
 *
 * Sends and receives complete into two queues, with "one" into the same, with "context" into the
 * same and without flags that tell them apart; with "writes" it is one queue and the sends are
 * remote writes with data, which make an entry at either end.
 *
 * Of the collectives of tests/preload's libnccl, ncclAllReduce sends, four in flight, and reads all
 * completions; ncclReduceScatter injects, which makes no completions; ncclBroadcast does nothing.
 * Prints, ten times a second, what has been posted so far.
 */
#include <rdma/fabric.h>
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
#include <time.h>

#include "shim/record/nccl_abi.h"

ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n_ranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream);
__attribute__((visibility("default"))) void fake_in_call(size_t count);

enum { NOTHING = 1, SENDS, INJECTS, KINDS };

#define FLIGHT  4
#define MESSAGE 8192
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_cq *tx_cq, *rx_cq;
static int writes;
static struct fid_mr *out_mr, *in_mr;
static uint64_t in_address;
static int plain; /* entries are contexts and nothing else */
static struct fid_av *av;
static struct fid_ep *ep;
static fi_addr_t self;
static char out[FLIGHT][MESSAGE], in[2 * FLIGHT][MESSAGE];
static struct fi_context2 out_context[FLIGHT], in_context[2 * FLIGHT];
static long posted, in_flight, to_come;
static uint32_t seed = 12345;

static void must(const char *what, long r)
{
        if (r) {
                fprintf(stderr, "%s: %ld\n", what, r);
                exit(77);
        }
}

static uint64_t now_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* 0.3 to 5 ms. */
static uint64_t some_time(void)
{
        seed = seed * 1664525u + 1013904223u;
        return 300000 + (seed >> 8) % 4700000;
}

static void receive(void)
{
        static unsigned next;

        must("fi_trecv", fi_trecv(ep, in[next % 8], MESSAGE, NULL, FI_ADDR_UNSPEC, 1, 0,
                                  &in_context[next % 8]));
        next++;
}

static void reap_queue(struct fid_cq *cq)
{
        union {
                struct fi_cq_entry plain[8];
                struct fi_cq_tagged_entry tagged[8];
        } entry;
        ssize_t n = fi_cq_read(cq, &entry, 8);

        if (n < 0 && n != -FI_EAGAIN)
                must("fi_cq_read", n);
        for (ssize_t i = 0; i < n; i++) {
                struct fi_context2 *context =
                        plain ? entry.plain[i].op_context : entry.tagged[i].op_context;

                if (context >= out_context && context < out_context + FLIGHT) {
                        in_flight--;
                } else {
                        to_come--;
                        if (plain || entry.tagged[i].flags & FI_RECV)
                                receive();
                }
        }
}

static void reap(void)
{
        reap_queue(tx_cq);
        if (rx_cq != tx_cq)
                reap_queue(rx_cq);
}

/* Sends for @ns, and until all of them are through. */
static void sends(uint64_t ns)
{
        uint64_t t0 = now_ns();

        do {
                while (in_flight < FLIGHT && to_come < FLIGHT && now_ns() - t0 < ns) {
                        char *from = out[posted % FLIGHT];
                        void *context = &out_context[posted % FLIGHT];
                        ssize_t r =
                                writes ? fi_writedata(ep, from, MESSAGE, fi_mr_desc(out_mr), 1,
                                                      self, in_address, fi_mr_key(in_mr), context)
                                       : fi_tsend(ep, from, MESSAGE, NULL, self, 1, context);

                        if (r == -FI_EAGAIN)
                                break;
                        must("fi_tsend", r);
                        posted++;
                        in_flight++;
                        to_come++;
                }
                reap();
        } while (in_flight || to_come || now_ns() - t0 < ns);
}

static void injects(uint64_t ns)
{
        uint64_t t0 = now_ns();

        do {
                ssize_t r = to_come < FLIGHT ? fi_tinject(ep, out[0], 8, self, 1) : -FI_EAGAIN;

                if (r != -FI_EAGAIN) {
                        must("fi_tinject", r);
                        posted++;
                        to_come++;
                }
                reap();
        } while (to_come || now_ns() - t0 < ns);
}

/* The body of every collective of the fake NCCL; @count says which. */
void fake_in_call(size_t count)
{
        switch (count) {
        case NOTHING: nanosleep(&(struct timespec){.tv_nsec = (long)some_time()}, NULL); break;
        case SENDS: sends(some_time()); break;
        case INJECTS: injects(some_time()); break;
        }
}

static void net_open(const char *provider, const char *queues)
{
        struct fi_info *hints = fi_allocinfo(), *info;
        struct fi_cq_attr cq_attr = {.size = 1024};
        struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
        static char name[256];
        size_t room = sizeof name;

        writes = !strcmp(queues, "writes");
        hints->caps = FI_TAGGED | (writes ? FI_RMA : 0);
        hints->domain_attr->mr_mode =
                FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL;
        hints->mode = FI_CONTEXT | FI_CONTEXT2;
        hints->ep_attr->type = FI_EP_RDM;
        hints->fabric_attr->prov_name = strdup(provider);
        must("fi_getinfo", fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &info));
        must("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
        must("fi_domain", fi_domain(fabric, info, &domain, NULL));
        plain = !strcmp(queues, "context");
        cq_attr.format = plain ? FI_CQ_FORMAT_CONTEXT : FI_CQ_FORMAT_TAGGED;
        must("fi_cq_open", fi_cq_open(domain, &cq_attr, &tx_cq, NULL));
        rx_cq = tx_cq;
        if (!*queues)
                must("fi_cq_open", fi_cq_open(domain, &cq_attr, &rx_cq, NULL));
        must("fi_av_open", fi_av_open(domain, &av_attr, &av, NULL));
        must("fi_endpoint", fi_endpoint(domain, info, &ep, NULL));
        must("fi_ep_bind",
             fi_ep_bind(ep, &tx_cq->fid, rx_cq == tx_cq ? FI_TRANSMIT | FI_RECV : FI_TRANSMIT));
        if (rx_cq != tx_cq)
                must("fi_ep_bind", fi_ep_bind(ep, &rx_cq->fid, FI_RECV));
        must("fi_ep_bind", fi_ep_bind(ep, &av->fid, 0));
        must("fi_enable", fi_enable(ep));
        must("fi_getname", fi_getname(&ep->fid, name, &room));
        must("fi_av_insert", fi_av_insert(av, name, 1, &self, 0, NULL) - 1);
        if (writes) {
                must("fi_mr_reg",
                     fi_mr_reg(domain, out, sizeof out, FI_WRITE, 0, 1, 0, &out_mr, NULL));
                must("fi_mr_reg",
                     fi_mr_reg(domain, in, sizeof in, FI_REMOTE_WRITE, 0, 2, 0, &in_mr, NULL));
                in_address = info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)in : 0;
        }
        for (int i = 0; i < 2 * FLIGHT; i++)
                receive();
        sends(1); /* providers connect at first use */
}

static void call(ncclComm_t comm, int kind)
{
        switch (kind) {
        case NOTHING: ncclBroadcast(NULL, NULL, NOTHING, 7, 0, comm, NULL); break;
        case SENDS: ncclAllReduce(NULL, NULL, SENDS, 7, 0, comm, NULL); break;
        case INJECTS: ncclReduceScatter(NULL, NULL, INJECTS, 7, 0, comm, NULL); break;
        }
}

int main(int argc, char **argv)
{
        uint64_t t0, said = 0, seconds = argc > 2 ? strtoull(argv[2], NULL, 10) : 5;
        ncclUniqueId id;
        ncclComm_t comm;

        net_open(argc > 1 ? argv[1] : "shm", argc > 3 ? argv[3] : "");
        ncclGetUniqueId(&id);
        must("ncclCommInitRank", (long)ncclCommInitRank(&comm, 1, id, 0));
        for (t0 = now_ns(); now_ns() - t0 < seconds * 1000000000u;) {
                for (int k = NOTHING; k < KINDS; k++)
                        call(comm, k);
                if (now_ns() - t0 >= said) {
                        printf("posted %ld at %.3f\n", posted, (double)(now_ns() - t0) / 1e9);
                        fflush(stdout);
                        said += 100000000;
                }
        }
        ncclCommDestroy(comm);
        if (writes) {
                must("fi_close", fi_close(&in_mr->fid));
                must("fi_close", fi_close(&out_mr->fid));
        }
        must("fi_close", fi_close(&ep->fid));
        must("fi_close", fi_close(&av->fid));
        must("fi_close", fi_close(&tx_cq->fid));
        if (rx_cq != tx_cq)
                must("fi_close", fi_close(&rx_cq->fid));
        must("fi_close", fi_close(&domain->fid));
        must("fi_close", fi_close(&fabric->fid));
        return 0;
}
