/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many threads on one endpoint, with counts known in advance: threads THREADS POSTS. Each thread
 * sends POSTS tagged messages of 32 bytes to this process itself over shm (FI_THREAD_SAFE) while
 * others read the queue; a last thread closes everything. Prints "sends N completions N retries N".
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

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_cq *cq;
static struct fid_av *av;
static struct fid_ep *ep;
static fi_addr_t self;
static long n_posts, n_threads;
static atomic_long sent, received, completions, retries;
/* A message may come when the thread that asked for it has ended, so this is in no thread's own
 * storage. */
static char out[32], in[64][32];

static void must(const char *what, long r)
{
        if (r) {
                fprintf(stderr, "%s: %ld\n", what, r);
                exit(77);
        }
}

static void drain(void)
{
        struct fi_cq_tagged_entry entry[8];
        ssize_t n = fi_cq_read(cq, entry, 8);

        if (n > 0)
                completions += n;
        else if (n != -FI_EAGAIN)
                must("fi_cq_read", n);
}

static void *worker(void *mine)
{
        for (long i = 0; i < n_posts; i++) {
                while (fi_trecv(ep, mine, sizeof *in, NULL, FI_ADDR_UNSPEC, 1, 0, NULL) ==
                       -FI_EAGAIN) {
                        retries++;
                        drain();
                }
                received++;
                while (fi_tsend(ep, out, sizeof out, NULL, self, 1, NULL) == -FI_EAGAIN) {
                        retries++;
                        drain();
                }
                sent++;
                drain();
        }
        return NULL;
}

static void *closer(void *unused)
{
        must("fi_close", fi_close(&ep->fid));
        must("fi_close", fi_close(&av->fid));
        must("fi_close", fi_close(&cq->fid));
        must("fi_close", fi_close(&domain->fid));
        must("fi_close", fi_close(&fabric->fid));
        return unused;
}

int main(int argc, char **argv)
{
        struct fi_info *hints = fi_allocinfo(), *info;
        struct fi_cq_attr cq_attr = {.size = 4096, .format = FI_CQ_FORMAT_TAGGED};
        struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
        static char name[256];
        size_t room = sizeof name;
        pthread_t thread[64];

        n_threads = argc > 1 ? atol(argv[1]) : 4;
        n_posts = argc > 2 ? atol(argv[2]) : 1000;
        hints->caps = FI_TAGGED;
        hints->ep_attr->type = FI_EP_RDM;
        hints->domain_attr->threading = FI_THREAD_SAFE;
        hints->fabric_attr->prov_name = strdup("shm");
        must("fi_getinfo", fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &info));
        must("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
        must("fi_domain", fi_domain(fabric, info, &domain, NULL));
        must("fi_cq_open", fi_cq_open(domain, &cq_attr, &cq, NULL));
        must("fi_av_open", fi_av_open(domain, &av_attr, &av, NULL));
        must("fi_endpoint", fi_endpoint(domain, info, &ep, NULL));
        must("fi_ep_bind", fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
        must("fi_ep_bind", fi_ep_bind(ep, &av->fid, 0));
        must("fi_enable", fi_enable(ep));
        must("fi_getname", fi_getname(&ep->fid, name, &room));
        must("fi_av_insert", fi_av_insert(av, name, 1, &self, 0, NULL) - 1);
        for (long i = 0; i < n_threads; i++)
                pthread_create(&thread[i], NULL, worker, in[i]);
        for (long i = 0; i < n_threads; i++)
                pthread_join(thread[i], NULL);
        while (completions < 2 * n_threads * n_posts)
                drain();
        pthread_create(&thread[0], NULL, closer, NULL);
        pthread_join(thread[0], NULL);
        printf("sends %ld recvs %ld completions %ld retries %ld\n", sent, received, completions,
               retries);
        return 0;
}
