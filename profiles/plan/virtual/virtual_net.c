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

/* ncclNet_v8_t and _v7_t: functions, called with more arguments than these have. */
struct net {
        const char *name;
        void *init, *devices, *properties, *listen, *connect, *accept, *reg_mr, *reg_mr_dmabuf,
                *dereg_mr, *isend, *irecv, *iflush, *test, *close_send, *close_recv, *close_listen,
                *device_mr, *irecv_consumed;
};

static char something; /* target of every handle and request */

static int count_net_devices(int *n)
{
        *n = (int)plan_machine->n_nets;
        return 0;
}

static int properties_v8(int dev, struct properties_v8 *props)
{
        const struct plan_net *net = &plan_machine->nets[dev];

        *props = (struct properties_v8){
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

static int properties_v7(int dev, struct properties_v7 *props)
{
        struct properties_v8 p;

        properties_v8(dev, &p);
        *props = (struct properties_v7){p.name,      p.pci_path,    p.guid,          p.ptr_support,
                                        p.speed,     p.port,        p.latency,       p.max_comms,
                                        p.max_recvs, p.device_type, p.device_version};
        return 0;
}

static int listen_at(int dev, void *handle, void **comm)
{
        memset(handle, 0, HANDLE_BYTES);
        *comm = &something;
        return 0;
}

/* Handles and requests go to where the last argument points. */
#define GIVE(name, ...)                            \
        static int name(__VA_ARGS__, void **given) \
        {                                          \
                *given = &something;               \
                return 0;                          \
        }
GIVE(give_second, void *comm)
GIVE(give_third, void *comm, void *handle)
GIVE(give_fifth, void *comm, void *data, size_t bytes, uintptr_t type)
GIVE(give_sixth, void *comm, void *data, uintptr_t bytes, uintptr_t tag, void *mhandle)
GIVE(give_seventh, void *comm, void *data, size_t bytes, uintptr_t type, uint64_t offset,
     uintptr_t fd)

static int return_success(void) { return 0; }

static int test_request(void *request, int *done, int *bytes)
{
        *done = 0;
        return 0;
}

#define NET(version)                                                                              \
        {                                                                                         \
                .name = "capo-virtual", .init = (void *)return_success,                           \
                .devices = (void *)count_net_devices, .properties = (void *)properties_##version, \
                .listen = (void *)listen_at, .connect = (void *)give_third,                       \
                .accept = (void *)give_second, .reg_mr = (void *)give_fifth,                      \
                .reg_mr_dmabuf = (void *)give_seventh, .dereg_mr = (void *)return_success,        \
                .isend = (void *)give_sixth, .irecv = (void *)give_seventh,                       \
                .iflush = (void *)give_sixth, .test = (void *)test_request,                       \
                .close_send = (void *)return_success, .close_recv = (void *)return_success,       \
                .close_listen = (void *)return_success                                            \
        }

extern const struct net ncclNetPlugin_v8, ncclNetPlugin_v7;
CAPO_EXPORT const struct net ncclNetPlugin_v8 = NET(v8);
CAPO_EXPORT const struct net ncclNetPlugin_v7 = NET(v7);
