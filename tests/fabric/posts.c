/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who posted what, over the fake provider, with numbers known in advance.
 *
 * posts own    ncclAllReduce (of tests/preload's libnccl) posts 3 sends of 64 bytes itself, on the
 *              caller's thread, and is called 4 times; ncclBroadcast posts one and is called twice;
 *              5 more are posted outside of NCCL.
 * posts comms  3 sends of 64 bytes inside an AllReduce on each of 70 communicators.
 * posts fork   5 sends, 3 readings of a counter and 2 of an event queue, fork(), 3 sends more; the
 *              child reads both once, posts 2 on its parent's endpoint, then 7 on one of its own.
 * posts above  5 sends, through tables of our own that lie over whatever was in the objects and go
 *              on to it, as another preloaded tool's would; then 2 through mere copies
 * posts odd    what libfabric lets point nowhere: the buffer of a peek or of a message thrown away,
 *              the operands of an atomic read; and a registration of a device's memory, whose
 *              attributes have another layout.
 * posts peek   asks 6 times whether there is a message; twice there is none, 4 times there is, and
 *              it is received.
 * posts blind  2 receives to a queue whose entries have lengths, 100 each, and 5 of 300 bytes to
 *              one whose have none.
 * posts left   a registration is left by siglongjmp, twice: behind the first a second net is opened
 *              and posts 3 sends, behind the other one more registration returns (FAKE=leave).
 * posts inject N  for N seconds nothing but injects, which have no completion and cannot be timed;
 *                 then it is killed.
 *
 * Prints what each post returned, so that a run under capo can be compared with a bare one.
 */
#include <dirent.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_tagged.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim/record/nccl_abi.h"

ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n_ranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream);
__attribute__((visibility("default"))) void fake_in_call(size_t count);

struct net {
        struct fid_fabric *fabric;
        struct fid_domain *domain;
        struct fid_cq *cq;
        struct fid_ep *ep;
};
static struct net net;

static void must(const char *what, long r)
{
        if (r) {
                fprintf(stderr, "%s: %ld\n", what, r);
                exit(1);
        }
}

static void net_open(struct net *n)
{
        static char fabric_name[] = "fake\tfabric", provider[] = "fake", domain_name[] = "fake0";
        static struct fi_fabric_attr attr = {.name = fabric_name, .prov_name = provider};
        static struct fi_domain_attr domain_attr = {.name = domain_name};
        static struct fi_ep_attr ep_attr = {.type = FI_EP_RDM};
        static struct fi_info info = {.caps = FI_MSG | FI_TAGGED | FI_ATOMIC,
                                      .fabric_attr = &attr,
                                      .domain_attr = &domain_attr,
                                      .ep_attr = &ep_attr};
        struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_MSG};

        attr.api_version = FI_VERSION(1, 17);
        must("fi_fabric", fi_fabric(&attr, &n->fabric, NULL));
        must("fi_domain", fi_domain(n->fabric, &info, &n->domain, NULL));
        must("fi_cq_open", fi_cq_open(n->domain, &cq_attr, &n->cq, NULL));
        must("fi_endpoint", fi_endpoint(n->domain, &info, &n->ep, NULL));
        must("fi_ep_bind", fi_ep_bind(n->ep, &n->cq->fid, FI_TRANSMIT | FI_RECV));
        must("fi_enable", fi_enable(n->ep));
}

static void net_close(struct net *n)
{
        must("fi_close", fi_close(&n->ep->fid));
        must("fi_close", fi_close(&n->cq->fid));
        must("fi_close", fi_close(&n->domain->fid));
        must("fi_close", fi_close(&n->fabric->fid));
}

static void post(const char *who, struct net *n, size_t times)
{
        static char buf[64];
        struct fi_cq_msg_entry entry[8];

        while (times--) {
                printf("%s %zd\n", who, fi_send(n->ep, buf, sizeof buf, NULL, 0, NULL));
                while (fi_cq_read(n->cq, entry, 8) > 0)
                        ;
        }
}

static bool made; /* the communicator */

/* What the fake NCCL does inside its collectives; its way of making a communicator comes by here,
 * too. */
void fake_in_call(size_t count)
{
        if (net.ep && made)
                post("inside", &net, count);
}

static void own(void)
{
        ncclUniqueId id;
        ncclComm_t comm;

        ncclGetUniqueId(&id);
        must("ncclCommInitRank", (long)ncclCommInitRank(&comm, 1, id, 0));
        made = true;
        for (int i = 0; i < 4; i++)
                must("ncclAllReduce", (long)ncclAllReduce(NULL, NULL, 3, 7, 0, comm, NULL));
        for (int i = 0; i < 2; i++)
                must("ncclBroadcast", (long)ncclBroadcast(NULL, NULL, 1, 7, 0, comm, NULL));
        post("outside", &net, 5);
        must("ncclCommDestroy", (long)ncclCommDestroy(comm));
}

static void comms(void)
{
        ncclUniqueId id;
        ncclComm_t comm;

        for (int i = 0; i < 70; i++) {
                made = false;
                ncclGetUniqueId(&id);
                must("ncclCommInitRank", (long)ncclCommInitRank(&comm, 1, id, 0));
                made = true;
                must("ncclAllReduce", (long)ncclAllReduce(NULL, NULL, 3, 7, 0, comm, NULL));
        }
}

static void check_counts(struct fid_cntr *cntr, int of_cntr, struct fid_eq *eq, int of_eq)
{
        struct fi_eq_entry entry;
        uint32_t event;

        while (of_cntr--)
                printf("counter %ld\n", (long)fi_cntr_read(cntr));
        while (of_eq--)
                printf("event %zd\n", fi_eq_read(eq, &event, &entry, sizeof entry, 0));
}

static void forks(void)
{
        struct fid_cntr *cntr;
        struct fid_eq *eq;
        struct net mine;
        int status;
        pid_t pid;

        must("fi_cntr_open", fi_cntr_open(net.domain, NULL, &cntr, NULL));
        must("fi_eq_open", fi_eq_open(net.fabric, NULL, &eq, NULL));
        post("parent", &net, 5);
        check_counts(cntr, 3, eq, 2);
        fflush(stdout);
        pid = fork();
        if (pid == 0) {
                check_counts(cntr, 1, eq, 1);
                post("child, inherited", &net, 2);
                net_open(&mine);
                post("child", &mine, 7);
                net_close(&mine);
                exit(0);
        }
        if (waitpid(pid, &status, 0) != pid || status)
                must("child", status ? status : -1);
        post("parent", &net, 3);
        must("fi_close", fi_close(&eq->fid));
        must("fi_close", fi_close(&cntr->fid));
}

static struct fi_ops_cq below_cq;
static struct fi_ops_msg below_msg;

static ssize_t read_above(struct fid_cq *cq, void *buf, size_t count)
{
        return below_cq.read(cq, buf, count);
}

static ssize_t send_above(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to,
                          void *context)
{
        return below_msg.send(ep, buf, len, desc, to, context);
}

/* capo gives a program of one thread no second one for libfabric's sake. */
static void threads(void)
{
        struct dirent *e;
        int n = 0;
        DIR *dir = opendir("/proc/self/task");

        while (dir && (e = readdir(dir)))
                n += e->d_name[0] != '.';
        if (dir)
                closedir(dir);
        printf("threads %d\n", n);
}

static void above(void)
{
        static struct fi_ops_domain domain;
        static struct fi_ops_cq cq;
        static struct fi_ops_msg msg;
        struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_MSG};
        struct fid_cq *another;

        memcpy(&below_cq, net.cq->ops,
               net.cq->ops->size < sizeof cq ? net.cq->ops->size : sizeof cq);
        memcpy(&below_msg, net.ep->msg,
               net.ep->msg->size < sizeof msg ? net.ep->msg->size : sizeof msg);
        cq = below_cq;
        cq.read = read_above;
        msg = below_msg;
        msg.send = send_above;
        net.cq->ops = &cq;
        net.ep->msg = &msg;
        post("above", &net, 5);
        threads();
        net.cq->ops = &below_cq; /* and copies in which every entry is whose it was */
        net.ep->msg = &below_msg;
        post("copied", &net, 2);
        memcpy(&domain, net.domain->ops,
               net.domain->ops->size < sizeof domain ? net.domain->ops->size : sizeof domain);
        net.domain->ops = &domain;
        must("fi_cq_open", fi_cq_open(net.domain, &attr, &another, NULL));
        must("fi_close", fi_close(&another->fid));
}

static void odd(void)
{
        struct iovec *nowhere = (struct iovec *)16, somewhere = {.iov_base = &net, .iov_len = 10};
        struct fi_ioc result = {.addr = &net, .count = 3};
        struct {
                int fd;
                uint64_t offset;
                size_t len;
                void *base;
        } device = {
                .fd = -1, .offset = 77, .len = 4096}; /* struct fi_mr_dmabuf of libfabric 1.20 */
        struct fi_msg_tagged peek = {.msg_iov = nowhere, .iov_count = 5},
                             get = {.msg_iov = &somewhere, .iov_count = 1};
        struct fi_msg_atomic read = {.msg_iov = (struct fi_ioc *)nowhere,
                                     .iov_count = 5,
                                     .datatype = FI_UINT64,
                                     .op = FI_ATOMIC_READ};
        struct fi_mr_attr attr = {.mr_iov = (struct iovec *)&device, .iov_count = 1};
        struct fid_mr *mr;

        printf("peek %zd\n", fi_trecvmsg(net.ep, &peek, FI_PEEK));
        printf("get %zd\n", fi_trecvmsg(net.ep, &get, FI_CLAIM));
        printf("throw away %zd\n", fi_trecvmsg(net.ep, &peek, FI_CLAIM | FI_DISCARD));
        printf("read %zd\n", fi_fetch_atomicmsg(net.ep, &read, &result, NULL, 1, 0));
        printf("readv %zd\n", fi_fetch_atomicv(net.ep, (struct fi_ioc *)nowhere, NULL, 5, &result,
                                               NULL, 1, 0, 0, 0, FI_UINT64, FI_ATOMIC_READ, NULL));
        printf("register %d\n", net.domain->mr->regattr(&net.domain->fid, &attr, 1ULL << 40, &mr));
}

static void peeks(void)
{
        static struct fi_context context[2];
        struct iovec into = {.iov_base = &net, .iov_len = 4096};
        struct fi_cq_err_entry error;
        struct fi_cq_msg_entry entry;

        for (uint64_t tag = 4; tag < 10; tag++) {
                struct fi_msg_tagged peek = {.tag = tag, .context = &context[0]},
                                     get = {.msg_iov = &into,
                                            .iov_count = 1,
                                            .tag = tag,
                                            .context = &context[1]};

                printf("peek %zd\n",
                       fi_trecvmsg(net.ep, &peek, tag % 2 ? FI_PEEK : FI_PEEK | FI_CLAIM));
                if (tag >= 8) {
                        printf("none %zd\n", fi_cq_read(net.cq, &entry, 1));
                        printf("error %zd\n", fi_cq_readerr(net.cq, &error, 0));
                        continue;
                }
                printf("there %zd\n", fi_cq_read(net.cq, &entry, 1));
                printf("get %zd\n", fi_trecvmsg(net.ep, &get, tag % 2 ? 0 : FI_CLAIM));
                printf("got %zd\n", fi_cq_read(net.cq, &entry, 1));
        }
}

static void blind(void)
{
        static char buf[300];
        struct fi_cq_msg_entry entry[8]; /* the fake provider knows no other */
        struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_CONTEXT};
        struct fi_ep_attr ep_attr = {.type = FI_EP_RDM};
        struct fi_info info = {.caps = FI_MSG, .ep_attr = &ep_attr};
        struct net other = net;

        must("fi_cq_open", fi_cq_open(net.domain, &attr, &other.cq, NULL));
        must("fi_endpoint", fi_endpoint(net.domain, &info, &other.ep, NULL));
        must("fi_ep_bind", fi_ep_bind(other.ep, &other.cq->fid, FI_TRANSMIT | FI_RECV));
        must("fi_enable", fi_enable(other.ep));
        for (int i = 0; i < 7; i++) {
                struct net *n = i < 2 ? &net : &other;

                printf("recv %zd\n", fi_recv(n->ep, buf, sizeof buf, NULL, 0, NULL));
                printf("read %zd\n", fi_cq_read(n->cq, entry, 8));
        }
        must("fi_close", fi_close(&other.ep->fid));
        must("fi_close", fi_close(&other.cq->fid));
}

static sigjmp_buf back;

static void leave(int sig) { siglongjmp(back, 1); }

static void left(void)
{
        struct fid_mr *mr;
        struct net other;

        signal(SIGUSR2, leave);
        if (!sigsetjmp(back, 1))
                must("came back",
                     1 + fi_mr_reg(net.domain, &net, sizeof net, 0, 0, 0, 0, &mr, NULL));
        net_open(&other); /* deeper in the stack than what was left */
        post("other", &other, 3);
        net_close(&other);
        if (!sigsetjmp(back, 1))
                must("came back",
                     1 + fi_mr_reg(net.domain, &net, sizeof net, 0, 0, 0, 0, &mr, NULL));
        signal(SIGUSR2, SIG_IGN);
        printf("register %d\n", fi_mr_reg(net.domain, &net, 4096, 0, 0, 0, 0, &mr, NULL));
        must("fi_close", fi_close(&mr->fid));
        post("last", &net, 2);
}

static void injects(long seconds)
{
        struct timespec now, end;

        clock_gettime(CLOCK_MONOTONIC, &end);
        end.tv_sec += seconds;
        do {
                must("fi_inject", fi_inject(net.ep, "x", 1, 0));
                usleep(100);
                clock_gettime(CLOCK_MONOTONIC, &now);
        } while (now.tv_sec < end.tv_sec ||
                 (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
        kill(getpid(), SIGKILL);
}

int main(int argc, char **argv)
{
        net_open(&net);
        if (argc > 1 && !strcmp(argv[1], "own"))
                own();
        else if (argc > 1 && !strcmp(argv[1], "comms"))
                comms();
        else if (argc > 1 && !strcmp(argv[1], "above"))
                above();
        else if (argc > 1 && !strcmp(argv[1], "odd"))
                odd();
        else if (argc > 1 && !strcmp(argv[1], "peek"))
                peeks();
        else if (argc > 1 && !strcmp(argv[1], "blind"))
                blind();
        else if (argc > 1 && !strcmp(argv[1], "left"))
                left();
        else if (argc > 2 && !strcmp(argv[1], "inject"))
                injects(atol(argv[2]));
        else
                forks();
        net_close(&net);
        return 0;
}
