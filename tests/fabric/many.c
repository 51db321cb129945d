/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More endpoints and queues than have lines of their own: many N [keep]. Opens N of each over udp, sends three messages
 * of 64 bytes on each, and closes them at once, or never. Prints the number of messages sent.
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

int main(int argc, char **argv)
{
        struct fi_info *hints = fi_allocinfo(), *info;
        struct fi_cq_attr cq_attr = {.size = 16, .format = FI_CQ_FORMAT_CONTEXT};
        struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
        struct fid_fabric *fabric;
        struct fid_domain *domain;
        struct fid_av *av;
        long sent = 0;

        hints->caps = FI_MSG;
        hints->ep_attr->type = FI_EP_DGRAM;
        hints->fabric_attr->prov_name = strdup("udp");
        must("fi_getinfo", fi_getinfo(FI_VERSION(1, 9), "127.0.0.1", NULL, 0, hints, &info));
        must("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
        must("fi_domain", fi_domain(fabric, info, &domain, NULL));
        must("fi_av_open", fi_av_open(domain, &av_attr, &av, NULL));
        for (int i = 0; i < (argc > 1 ? atoi(argv[1]) : 1000); i++) {
                static char buf[64], name[64];
                size_t room = sizeof name;
                struct fid_cq *cq;
                struct fid_ep *ep;
                fi_addr_t self;

                must("fi_cq_open", fi_cq_open(domain, &cq_attr, &cq, NULL));
                must("fi_endpoint", fi_endpoint(domain, info, &ep, NULL));
                must("fi_ep_bind", fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
                must("fi_ep_bind", fi_ep_bind(ep, &av->fid, 0));
                must("fi_enable", fi_enable(ep));
                must("fi_getname", fi_getname(&ep->fid, name, &room));
                must("fi_av_insert", fi_av_insert(av, name, 1, &self, 0, NULL) - 1);
                for (int k = 0; k < 3; k++)
                        sent += fi_send(ep, buf, sizeof buf, NULL, self, NULL) == 0;
                if (argc > 2)
                        continue;
                must("fi_close", fi_close(&ep->fid));
                must("fi_close", fi_close(&cq->fid));
        }
        printf("%ld\n", sent);
        return 0;
}
