/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp of libfabric 2.x with FI_THREAD_COMPLETION, where a domain hands each endpoint a domain of
 * its own: multiplexed N. Two threads, each with an endpoint and a queue on the one domain, send
 * themselves N tagged messages of 64 bytes. They open and enable at the same time. Prints the
 * number of messages received.
 */
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_tagged.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 2

static struct fi_info *info;
static struct fid_domain *domain;
static long n_messages;
static atomic_long received;
static pthread_barrier_t together;

static void must(const char *what, long r, int status)
{
        if (r) {
                fprintf(stderr, "%s: %ld\n", what, r);
                exit(status);
        }
}

static void *talks_to_itself(void *unused)
{
        struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
        struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
        struct fi_context2 in_flight[2];
        char out[64] = "", in[64], name[128];
        struct fi_cq_tagged_entry entry;
        size_t size = sizeof name;
        fi_addr_t self;
        struct fid_ep *ep;
        struct fid_cq *cq;
        struct fid_av *av;

        pthread_barrier_wait(&together);
        must("fi_cq_open", fi_cq_open(domain, &cq_attr, &cq, NULL), 1);
        must("fi_av_open", fi_av_open(domain, &av_attr, &av, NULL), 1);
        must("fi_endpoint", fi_endpoint(domain, info, &ep, NULL), 1);
        must("fi_ep_bind", fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 1);
        must("fi_ep_bind", fi_ep_bind(ep, &av->fid, 0), 1);
        must("fi_enable", fi_enable(ep), 1);
        must("fi_getname", fi_getname(&ep->fid, name, &size), 1);
        must("fi_av_insert", fi_av_insert(av, name, 1, &self, 0, NULL) != 1, 1);
        for (long i = 0; i < n_messages; i++) {
                long r;

                must("fi_trecv",
                     fi_trecv(ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, 1, 0, &in_flight[0]), 1);
                while ((r = fi_tsend(ep, out, sizeof out, NULL, self, 1, &in_flight[1])) ==
                       -FI_EAGAIN)
                        fi_cq_read(cq, &entry, 0);
                must("fi_tsend", r, 1);
                for (int left = 2; left;) {
                        r = fi_cq_read(cq, &entry, 1);
                        if (r != -FI_EAGAIN)
                                must("fi_cq_read", r != 1, 1);
                        left -= r == 1;
                        received += r == 1 && entry.flags & FI_RECV;
                }
        }
        must("fi_close", fi_close(&ep->fid), 1);
        must("fi_close", fi_close(&cq->fid), 1);
        fi_close(&av->fid);
        return NULL;
}

int main(int argc, char **argv)
{
        struct fi_info *hints = fi_allocinfo();
        struct fid_fabric *fabric;
        pthread_t thread[THREADS];

        n_messages = argc > 1 ? atol(argv[1]) : 1;
        hints->caps = FI_TAGGED | FI_MSG;
        hints->ep_attr->type = FI_EP_RDM;
        hints->domain_attr->threading = FI_THREAD_COMPLETION;
        hints->fabric_attr->prov_name = strdup("tcp");
        must("fi_getinfo",
             fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", NULL, FI_SOURCE, hints, &info), 77);
        must("another provider", strcmp(info->fabric_attr->prov_name, "tcp"), 77);
        must("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL), 77);
        must("fi_domain", fi_domain(fabric, info, &domain, NULL), 77);
        pthread_barrier_init(&together, NULL, THREADS);
        for (int i = 0; i < THREADS; i++)
                pthread_create(&thread[i], NULL, talks_to_itself, NULL);
        for (int i = 0; i < THREADS; i++)
                pthread_join(thread[i], NULL);
        fi_close(&domain->fid);
        fi_close(&fabric->fid);
        printf("%ld\n", atomic_load(&received));
        return 0;
}
