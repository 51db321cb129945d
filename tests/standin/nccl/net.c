/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data path's network: reliable-datagram tagged endpoints of libfabric, one or two per channel.
 * Ranks of one host (same NCCL_HOSTID, or host name without it) talk through the shm provider when
 * it works, all others through tcp, so a layout set by NCCL_HOSTID has a fast inside and a slower
 * outside also when it all runs on one machine. CAPO_STANDIN_PROVIDER=shm|tcp|... makes everything
 * use one provider.
 *
 * Tag: kind (4 bits) | sending rank (16 bits) | sequence (44 bits). An endpoint belongs to one
 * channel of one communicator, so nothing else is needed to tell messages apart.
 *
 * Progress is manual: only the thread that runs a channel moves its data. A wait spins briefly,
 * then yields the core, then sleeps: many ranks share few cores here, and a spinning rank would
 * take the time its peer needs.
 */
#include <glob.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "std.h"

struct provider { /* opened once per process */
        struct fi_info *info;
        struct fid_fabric *fabric;
        struct fid_domain *domain;
        pthread_once_t once;
        bool usable;
};
static struct provider providers[2] = {{.once = PTHREAD_ONCE_INIT}, {.once = PTHREAD_ONCE_INIT}};

static struct fi_info *find(const char *name, const char *addr)
{
        struct fi_info *hints = fi_allocinfo(), *info = NULL;

        if (!hints)
                return NULL;
        hints->caps = FI_MSG | FI_TAGGED;
        hints->mode = FI_CONTEXT | FI_CONTEXT2;
        hints->ep_attr->type = FI_EP_RDM;
        hints->domain_attr->threading = FI_THREAD_SAFE;
        hints->domain_attr->mr_mode = 0;
        hints->domain_attr->av_type = FI_AV_UNSPEC;
        hints->tx_attr->msg_order = FI_ORDER_SAS;
        hints->rx_attr->msg_order = FI_ORDER_SAS;
        hints->fabric_attr->prov_name = strdup(name);
        if (fi_getinfo(FI_VERSION(1, 9), addr, NULL, addr ? FI_SOURCE : 0, hints, &info))
                info = NULL;
        fi_freeinfo(hints);
        return info;
}

/*
 * The shm provider names its segments <pid>:<domain>:<endpoint> and refuses a name that is there,
 * even when the process that made it was killed long ago and its number has come round again.
 * Before the first endpoint of a process nothing of its number can be its own.
 */
static void remove_stale_shm(void)
{
        char pattern[64];
        glob_t found;

        snprintf(pattern, sizeof pattern, "/dev/shm/%d:*", (int)getpid());
        if (glob(pattern, 0, NULL, &found))
                return;
        for (size_t i = 0; i < found.gl_pathc; i++)
                unlink(found.gl_pathv[i]);
        globfree(&found);
}

static void open_provider(int which)
{
        struct provider *p = &providers[which];
        const char *asked = getenv("CAPO_STANDIN_PROVIDER"), *addr = getenv("CAPO_STANDIN_ADDR");
        const char *name = asked && *asked ? asked : which ? "tcp" : "shm";

        if (!addr || !*addr)
                addr = "127.0.0.1";
        if (!strcmp(name, "shm")) {
                remove_stale_shm();
                p->info = find("shm", NULL);
        } else {
                if (!strcmp(name, "tcp"))
                        p->info = find("tcp;ofi_rxm", addr);
                if (!p->info)
                        p->info = find(name, addr);
        }
        if (!p->info || fi_fabric(p->info->fabric_attr, &p->fabric, NULL) ||
            fi_domain(p->fabric, p->info, &p->domain, NULL))
                return;
        p->info->tx_attr->size = p->info->rx_attr->size =
                256; /* shm's shared segment grows with these */
        p->usable = true;
}

/*
 * libfabric 1.17's shm provider leaves its segment (/dev/shm/PID:domain:endpoint) behind when a
 * process ends without closing its endpoints. Ours go when we end; those of killed processes of
 * this user when the next one starts.
 */
static void sweep(bool own)
{
        DIR *dir = opendir("/dev/shm");
        struct dirent *e;

        while (dir && (e = readdir(dir))) {
                int pid, domain, ep, n = 0;
                struct stat st;

                if (sscanf(e->d_name, "%d:%d:%d%n", &pid, &domain, &ep, &n) != 3 || e->d_name[n])
                        continue;
                if (own ? pid == getpid()
                        : kill(pid, 0) && errno == ESRCH &&
                                    !fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) &&
                                    st.st_uid == getuid() && time(NULL) - st.st_mtime > 60)
                        unlinkat(dirfd(dir), e->d_name, 0);
        }
        if (dir)
                closedir(dir);
}

__attribute__((destructor)) static void sweep_own(void)
{
        if (providers[0].usable)
                sweep(true);
}

static void open_near(void)
{
        sweep(false);
        open_provider(0);
}

static void open_far(void) { open_provider(1); }

static struct provider *provider(int which)
{
        pthread_once(&providers[which].once, which ? open_far : open_near);
        return &providers[which];
}

bool net_shm_usable(void) { return provider(0)->usable; }

static ncclResult_t net_open(struct chan *ch, int which)
{
        struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .size = 1024};
        struct fi_av_attr av = {.type = FI_AV_TABLE, .count = (size_t)ch->comm->n};
        struct provider *p = provider(which);
        struct net *net = &ch->nets[which];
        const char *step = "provider";
        int r = -FI_ENODATA;

        if (p->usable) {
                step = "endpoint";
                r = fi_endpoint(p->domain, p->info, &net->ep, NULL);
                if (!r)
                        step = "queue", r = fi_cq_open(p->domain, &cq, &net->cq, NULL);
                if (!r)
                        step = "address vector", r = fi_av_open(p->domain, &av, &net->av, NULL);
                if (!r)
                        step = "bind",
                        r = fi_ep_bind(net->ep, &net->cq->fid, FI_TRANSMIT | FI_RECV);
                if (!r)
                        r = fi_ep_bind(net->ep, &net->av->fid, 0);
                if (!r)
                        step = "enable", r = fi_enable(net->ep);
                net->name_bytes = sizeof net->name;
                if (!r)
                        step = "name", r = fi_getname(&net->ep->fid, net->name, &net->name_bytes);
        }
        if (r)
                return fail(ch->comm, ncclSystemError, "libfabric %s: %s: %s",
                            which ? "tcp" : "shm", step, fi_strerror(-r));
        return ncclSuccess;
}

struct names {
        struct {
                uint32_t bytes;
                unsigned char name[124];
        } net[2];
};

ncclResult_t chan_open(struct chan *ch)
{
        struct comm *comm = ch->comm;
        ncclResult_t r = ncclSuccess;
        struct names *all;
        bool far = false, near = false;

        if (ch->open || comm->n == 1) {
                ch->open = true;
                return ncclSuccess;
        }
        all = calloc((size_t)comm->n, sizeof *all);
        ch->peers = calloc((size_t)comm->n, sizeof *ch->peers);
        if (!all || !ch->peers) {
                free(all);
                return ncclSystemError;
        }
        for (int i = 0; i < comm->n; i++) {
                bool same = comm->ranks[i].host_hash == comm->ranks[comm->rank].host_hash;

                ch->peers[i].net =
                        same && comm->ranks[i].has_shm && comm->ranks[comm->rank].has_shm ? 0 : 1;
                if (i != comm->rank)
                        *(ch->peers[i].net ? &far : &near) = true;
        }
        for (int which = 0; which < 2 && !r; which++) {
                if (!(which ? far : near))
                        continue;
                r = net_open(ch, which);
                all[comm->rank].net[which].bytes = (uint32_t)ch->nets[which].name_bytes;
                memcpy(all[comm->rank].net[which].name, ch->nets[which].name,
                       sizeof all->net[which].name);
        }
        if (!r && ch->id == 0) {
                r = boot_allgather(comm, all, sizeof *all);
        } else if (!r) { /* later channels are made while a plan runs: names go through the first
                            channel */
                struct chan *first = &comm->chans[0];
                struct req *reqs = calloc(2 * (size_t)comm->n, sizeof *reqs);

                for (int i = 0; i < comm->n && !r; i++)
                        if (i != comm->rank)
                                r = net_recv(first, i, KIND_NAME, (uint64_t)ch->id, &all[i],
                                             sizeof *all, &reqs[2 * i]);
                for (int i = 0; i < comm->n && !r; i++)
                        if (i != comm->rank)
                                r = net_send(first, i, KIND_NAME, (uint64_t)ch->id,
                                             &all[comm->rank], sizeof *all, &reqs[2 * i + 1]);
                for (int i = 0; i < 2 * comm->n && !r; i++)
                        if (i / 2 != comm->rank)
                                r = net_wait(first, &reqs[i]);
                free(reqs);
        }
        for (int i = 0; i < comm->n && !r; i++) {
                int which = ch->peers[i].net;

                if (i != comm->rank && fi_av_insert(ch->nets[which].av, all[i].net[which].name, 1,
                                                    &ch->peers[i].addr, 0, NULL) != 1)
                        r = fail(comm, ncclSystemError,
                                 "libfabric: rank %d's address is not usable", i);
        }
        free(all);
        ch->open = !r;
        return r;
}

void chan_close(struct chan *ch)
{
        for (int i = 0; i < 2; i++) {
                struct net *net = &ch->nets[i];

                if (net->ep)
                        fi_close(&net->ep->fid);
                if (net->cq)
                        fi_close(&net->cq->fid);
                if (net->av)
                        fi_close(&net->av->fid);
                *net = (struct net){0};
        }
        ch->open = false;
}

void net_progress(struct chan *ch)
{
        struct fi_cq_tagged_entry done[8];

        for (int i = 0; i < 2; i++) {
                ssize_t n;

                if (!ch->nets[i].cq)
                        continue;
                n = fi_cq_read(ch->nets[i].cq, done, 8);
                for (ssize_t k = 0; k < n; k++) {
                        struct req *req = done[k].op_context;

                        req->bytes = done[k].len;
                        req->done = true;
                }
                if (n == -FI_EAVAIL) {
                        struct fi_cq_err_entry e = {0};

                        if (fi_cq_readerr(ch->nets[i].cq, &e, 0) == 1 && e.op_context) {
                                struct req *req = e.op_context;

                                req->error = e.err ? e.err : FI_EIO;
                                req->done = true;
                        }
                }
        }
}

/* Called between polls: what to do while there is nothing to do. */
static ncclResult_t idle(struct chan *ch, unsigned *polls, uint64_t *t_start)
{
        struct comm *comm = ch->comm;

        ++*polls;
        if (*polls < 32)
                return ncclSuccess;
        if (*polls % 64 == 0) {
                uint64_t now = std_now_ns();

                if (comm->abort)
                        return ncclInternalError;
                if (!*t_start)
                        *t_start = now;
                if (std_timeout_s() > 0 && (double)(now - *t_start) / 1e9 > std_timeout_s()) {
                        comm->abort = 1;
                        comm->timed_out = 1;
                        return fail(comm, std_version() >= 23003 ? ncclTimeout : ncclRemoteError,
                                    "rank %d: a peer did not answer for %.0f s", comm->rank,
                                    std_timeout_s());
                }
        }
        if (*polls < 4000)
                sched_yield();
        else
                nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
        return ncclSuccess;
}

ncclResult_t net_wait(struct chan *ch, struct req *req)
{
        unsigned polls = 0;
        uint64_t t_start = 0;

        while (!req->done) {
                net_progress(ch);
                if (!req->done) {
                        ncclResult_t r = idle(ch, &polls, &t_start);

                        if (r)
                                return r;
                }
        }
        if (req->error)
                return fail(ch->comm, req->error == FI_ETRUNC ? ncclInvalidUsage : ncclRemoteError,
                            "rank %d: %s", ch->comm->rank,
                            req->error == FI_ETRUNC ? "a peer sent more than is received here"
                                                    : fi_strerror(req->error));
        return ncclSuccess;
}

static uint64_t tag(enum kind kind, int from, uint64_t seq)
{
        return (uint64_t)kind << 60 | (uint64_t)from << 44 | (seq & 0xfffffffffffull);
}

static ncclResult_t posted(struct chan *ch, ssize_t r, unsigned *polls, uint64_t *t_start)
{
        if (r != -FI_EAGAIN)
                return fail(ch->comm, ncclRemoteError, "libfabric: %s", fi_strerror((int)-r));
        net_progress(ch);
        return idle(ch, polls, t_start);
}

ncclResult_t net_send(struct chan *ch, int to, enum kind kind, uint64_t seq, const void *data,
                      size_t bytes, struct req *req)
{
        struct peer_link *p = &ch->peers[to];
        unsigned polls = 0;
        uint64_t t_start = 0;
        ssize_t r;

        *req = (struct req){0};
        while ((r = fi_tsend(ch->nets[p->net].ep, data, bytes, NULL, p->addr,
                             tag(kind, ch->comm->rank, seq), &req->ctx))) {
                ncclResult_t e = posted(ch, r, &polls, &t_start);

                if (e)
                        return e;
        }
        return ncclSuccess;
}

ncclResult_t net_recv(struct chan *ch, int from, enum kind kind, uint64_t seq, void *data,
                      size_t bytes, struct req *req)
{
        struct peer_link *p = &ch->peers[from];
        unsigned polls = 0;
        uint64_t t_start = 0;
        ssize_t r;

        *req = (struct req){0};
        while ((r = fi_trecv(ch->nets[p->net].ep, data, bytes, NULL, FI_ADDR_UNSPEC,
                             tag(kind, from, seq), 0, &req->ctx))) {
                ncclResult_t e = posted(ch, r, &polls, &t_start);

                if (e)
                        return e;
        }
        return ncclSuccess;
}

ncclResult_t net_inject(struct chan *ch, int to, enum kind kind, uint64_t seq)
{
        struct peer_link *p = &ch->peers[to];
        unsigned polls = 0;
        uint64_t t_start = 0;
        char byte = 0;
        ssize_t r;

        while ((r = fi_tinject(ch->nets[p->net].ep, &byte, 1, p->addr,
                               tag(kind, ch->comm->rank, seq)))) {
                ncclResult_t e = posted(ch, r, &polls, &t_start);

                if (e)
                        return e;
        }
        return ncclSuccess;
}
