/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More endpoints, queues and domains than have lines of their own: many N [keep|twice|apart]. Opens
 * N endpoints with a queue each over udp and sends on each, of eleven sizes, three messages and one
 * that is injected. They are closed at once; `keep`: never; `twice`: together, and N more are
 * opened on another domain, where the memory of the first is used again; `apart`: each with a
 * domain of its own. Prints the number of messages sent.
 */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(const char *what, long r)
{
        if (r) {
                fprintf(stderr, "%s: %ld\n", what, r);
                exit(77);
        }
}

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;
static struct one {
        struct fid_cq *cq;
        struct fid_ep *ep;
} * ones;
static long sent;

static void domain_open(void)
{
        struct fi_av_attr attr = {.type = FI_AV_TABLE};

        must("fi_domain", fi_domain(fabric, info, &domain, NULL));
        must("fi_av_open", fi_av_open(domain, &attr, &av, NULL));
}

static void domain_close(void)
{
        must("fi_close", fi_close(&av->fid));
        must("fi_close", fi_close(&domain->fid));
}

static void one_open(struct one *one)
{
        struct fi_cq_attr attr = {.size = 64, .format = FI_CQ_FORMAT_CONTEXT};
        static char buf[1024], name[64];
        size_t room = sizeof name;
        fi_addr_t self;

        must("fi_cq_open", fi_cq_open(domain, &attr, &one->cq, NULL));
        must("fi_endpoint", fi_endpoint(domain, info, &one->ep, NULL));
        must("fi_ep_bind", fi_ep_bind(one->ep, &one->cq->fid, FI_TRANSMIT | FI_RECV));
        must("fi_ep_bind", fi_ep_bind(one->ep, &av->fid, 0));
        must("fi_enable", fi_enable(one->ep));
        must("fi_getname", fi_getname(&one->ep->fid, name, &room));
        must("fi_av_insert", fi_av_insert(av, name, 1, &self, 0, NULL) - 1);
        for (size_t size = 1; size <= sizeof buf; size *= 2) {
                for (int k = 0; k < 3; k++)
                        sent += fi_send(one->ep, buf, size, NULL, self, NULL) == 0;
                sent += fi_inject(one->ep, buf, size, self) == 0;
        }
}

static void one_close(struct one *one)
{
        must("fi_close", fi_close(&one->ep->fid));
        must("fi_close", fi_close(&one->cq->fid));
}

int main(int argc, char **argv)
{
        struct fi_info *hints = fi_allocinfo();
        int n = argc > 1 ? atoi(argv[1]) : 1000;
        const char *how = argc > 2 ? argv[2] : "";

        hints->caps = FI_MSG;
        hints->ep_attr->type = FI_EP_DGRAM;
        hints->fabric_attr->prov_name = strdup("udp");
        must("fi_getinfo", fi_getinfo(FI_VERSION(1, 9), "127.0.0.1", NULL, 0, hints, &info));
        must("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
        ones = calloc((size_t)n, sizeof *ones);
        for (int round = 0; round < (strcmp(how, "twice") ? 1 : 2); round++) {
                domain_open();
                for (int i = 0; i < n; i++) {
                        one_open(&ones[i]);
                        if (!strcmp(how, "") || !strcmp(how, "apart"))
                                one_close(&ones[i]);
                        if (!strcmp(how, "apart") && i + 1 < n) {
                                domain_close();
                                domain_open();
                        }
                }
                for (int i = 0; i < n && !strcmp(how, "twice"); i++)
                        one_close(&ones[i]);
                if (strcmp(how, "keep"))
                        domain_close();
        }
        printf("%ld\n", sent);
        return 0;
}
