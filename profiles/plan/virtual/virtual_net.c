/* SPDX-License-Identifier: Apache-2.0 */
/* A network plugin with the NICs of the topology file. It connects at once, registers anything, and
 * never completes a request: NCCL decides before it sends, and the communicator is aborted
 * afterwards. NCCL 2.20 and later load v8, 2.19 loads v7. */
#include "profiles/plan/virtual/virtual.h"

enum { PTR_HOST = 1, PTR_CUDA = 2, HANDLE_BYTES = 128 };

/* ncclNetProperties_v8_t and _v7_t (nccl: ext-net headers, net_v8.h and net_v7.h). */
struct properties_v8 {
        const char *name, *pci_path;
        uint64_t guid;
        int ptr_support, reg_is_global, speed, port;
        float latency;
        int max_comms, max_recvs, device_type, device_version;
};
struct properties_v7 {
        const char *name, *pci_path;
        uint64_t guid;
        int ptr_support, speed, port;
        float latency;
        int max_comms, max_recvs, device_type, device_version;
};

struct net {
        const char *name;
        int (*init)(void *log);
        int (*devices)(int *n);
        int (*properties)(int dev, void *props);
        int (*listen)(int dev, void *handle, void **listen_comm);
        int (*connect)(int dev, void *handle, void **send_comm, void **device);
        int (*accept)(void *listen_comm, void **recv_comm, void **device);
        int (*reg_mr)(void *comm, void *data, size_t bytes, int type, void **mhandle);
        int (*reg_mr_dmabuf)(void *comm, void *data, size_t bytes, int type, uint64_t offset,
                             int fd, void **mhandle);
        int (*dereg_mr)(void *comm, void *mhandle);
        int (*isend)(void *comm, void *data, int bytes, int tag, void *mhandle, void **request);
        int (*irecv)(void *comm, int n, void **data, int *bytes, int *tags, void **mhandles,
                     void **request);
        int (*iflush)(void *comm, int n, void **data, int *bytes, void **mhandles, void **request);
        int (*test)(void *request, int *done, int *bytes);
        int (*close_send)(void *comm);
        int (*close_recv)(void *comm);
        int (*close_listen)(void *comm);
        int (*device_mr)(void *comm, void *mhandle, void **device);
        int (*irecv_consumed)(void *comm, int n, void *request);
};

static char something; /* target of every handle and request */

static int count_net_devices(int *n)
{
        *n = (int)plan_machine->n_nets;
        return 0;
}

static int properties_v8(int dev, void *props)
{
        const struct plan_net *net = &plan_machine->nets[dev];

        *(struct properties_v8 *)props = (struct properties_v8){
                .name = net->name,
                .guid = net->guid ^ (uint64_t)plan_node << 40, /* unique per node */
                .ptr_support = PTR_HOST | (net->gdr ? PTR_CUDA : 0),
                .speed = net->speed,
                .port = net->port,
                .latency = net->latency,
                .max_comms = net->max_comms,
                .max_recvs = 1,
        };
        return 0;
}

static int properties_v7(int dev, void *props)
{
        struct properties_v8 p;

        properties_v8(dev, &p);
        *(struct properties_v7 *)props = (struct properties_v7){
                p.name,    p.pci_path,  p.guid,      p.ptr_support, p.speed,         p.port,
                p.latency, p.max_comms, p.max_recvs, p.device_type, p.device_version};
        return 0;
}

static int listen_at(int dev, void *handle, void **comm)
{
        memset(handle, 0, HANDLE_BYTES);
        *comm = &something;
        return 0;
}

static int connect_to(int dev, void *handle, void **comm, void **device)
{
        *comm = &something;
        return 0;
}

static int accept_from(void *listen_comm, void **comm, void **device)
{
        *comm = &something;
        return 0;
}

static int reg_mr(void *comm, void *data, size_t bytes, int type, void **mhandle)
{
        *mhandle = &something;
        return 0;
}

static int reg_mr_dmabuf(void *comm, void *data, size_t bytes, int type, uint64_t offset, int fd,
                         void **mhandle)
{
        *mhandle = &something;
        return 0;
}

static int accept_call(void *comm_or_log) { return 0; }

static int dereg_mr(void *comm, void *mhandle) { return 0; }

static int start_send(void *comm, void *data, int bytes, int tag, void *mhandle, void **request)
{
        *request = &something;
        return 0;
}

static int start_receive(void *comm, int n, void **data, int *bytes, int *tags, void **mhandles,
                         void **request)
{
        *request = &something;
        return 0;
}

static int start_flush(void *comm, int n, void **data, int *bytes, void **mhandles, void **request)
{
        *request = &something;
        return 0;
}

static int test_request(void *request, int *done, int *bytes)
{
        *done = 0;
        return 0;
}

#define NET(version)                                                                            \
        {                                                                                       \
                .name = "capo-virtual", .init = accept_call, .devices = count_net_devices,      \
                .properties = properties_##version, .listen = listen_at, .connect = connect_to, \
                .accept = accept_from, .reg_mr = reg_mr, .reg_mr_dmabuf = reg_mr_dmabuf,        \
                .dereg_mr = dereg_mr, .isend = start_send, .irecv = start_receive,              \
                .iflush = start_flush, .test = test_request, .close_send = accept_call,         \
                .close_recv = accept_call, .close_listen = accept_call,                         \
        }

extern const struct net ncclNetPlugin_v8, ncclNetPlugin_v7;
CAPO_EXPORT const struct net ncclNetPlugin_v8 = NET(v8);
CAPO_EXPORT const struct net ncclNetPlugin_v7 = NET(v7);
