/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two threads on one domain of the fake provider: meet open|enable. While one is inside the
 * opening, or the enabling, of its endpoint (FAKE=meet holds it there), the other opens a second
 * endpoint. The first sends one message, the second two, each to a queue of its own; the first's is
 * opened in that moment, too, where it is `open`.
 */
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "tests/fabric/fabric_meet.h"

static struct fi_info info;
static struct fid_domain *domain;
static struct fid_ep *first, *second;
static struct fid_cq *queue[2];
static struct meet meet;

static int say(const char *what, long r)
{
        printf("%s %ld\n", what, r);
        return (int)r;
}

static void *opens(void *unused)
{
        say("first endpoint", fi_endpoint(domain, &info, &first, &meet));
        return NULL;
}

static void *enables(void *unused)
{
        say("first enable", fi_enable(first));
        return NULL;
}

static void open_queue(int i)
{
        struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_CONTEXT};

        say("queue", fi_cq_open(domain, &attr, &queue[i], NULL));
}

static void send_and_close(struct fid_ep *ep, int i)
{
        struct fi_cq_msg_entry entry[4]; /* the fake provider knows no other */

        for (int k = 0; k < 1 + i; k++)
                say("send", fi_send(ep, "x", 1, NULL, 0, &entry[k]));
        say("completions", fi_cq_read(queue[i], entry, 4));
        say("close", fi_close(&ep->fid));
        say("close queue", fi_close(&queue[i]->fid));
}

int main(int argc, char **argv)
{
        static char name[] = "fake", provider[] = "fake", domain_name[] = "fake0";
        struct fi_fabric_attr attr = {
                .name = name, .prov_name = provider, .api_version = FI_VERSION(1, 17)};
        struct fi_domain_attr domain_attr = {.name = domain_name};
        struct fi_ep_attr ep_attr = {.type = FI_EP_RDM};
        struct fid_fabric *fabric;
        bool at_opening;
        pthread_t thread;

        if (argc < 2)
                return 2;
        at_opening = !strcmp(argv[1], "open");
        info = (struct fi_info){.caps = FI_MSG,
                                .fabric_attr = &attr,
                                .domain_attr = &domain_attr,
                                .ep_attr = &ep_attr};
        if (say("fabric", fi_fabric(&attr, &fabric, NULL)) ||
            say("domain", fi_domain(fabric, &info, &domain, NULL)))
                return 1;
        open_queue(1);
        if (!at_opening) {
                atomic_store(&meet.go, true);
                opens(NULL);
                open_queue(0);
                say("first bind", fi_ep_bind(first, &queue[0]->fid, FI_TRANSMIT | FI_RECV));
                atomic_store(&meet.here, false);
                atomic_store(&meet.go, false);
        }
        pthread_create(&thread, NULL, at_opening ? opens : enables, NULL);
        while (!atomic_load(&meet.here))
                sched_yield();
        say("second endpoint", fi_endpoint(domain, &info, &second, NULL));
        if (at_opening)
                open_queue(0);
        atomic_store(&meet.go, true);
        pthread_join(thread, NULL);
        if (at_opening) {
                say("first bind", fi_ep_bind(first, &queue[0]->fid, FI_TRANSMIT | FI_RECV));
                say("first enable", fi_enable(first));
        }
        say("second bind", fi_ep_bind(second, &queue[1]->fid, FI_TRANSMIT | FI_RECV));
        say("second enable", fi_enable(second));
        send_and_close(first, 0);
        send_and_close(second, 1);
        say("close domain", fi_close(&domain->fid));
        return say("close fabric", fi_close(&fabric->fid));
}
