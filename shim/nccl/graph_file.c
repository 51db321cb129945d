/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment of a running program is changed here, which others may be reading. So nothing is allocated and no
 * list is moved: `capo run` puts CAPO_GRAPH=FOLDER there, and for the time of one call the pointer to that string is
 * exchanged, in one store, for one to a string of ours, "NCCL_GRAPH_FILE=FOLDER/graph-1.xml". Both strings stay for as
 * long as the process lives.
 *
 * A communicator of as many ranks as the allocation has GPUs has exactly those GPUs. Before the first one the machine
 * itself is asked, once: is this the NCCL the files were made for, does NVML know each GPU by that number at that
 * address, are the NICs there and no others? On any doubt there is no file on this machine, which costs speed and
 * nothing else: NCCL takes the fewest channels and the lowest speed that any machine offers.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capo/env.h"
#include "capo/msg.h"
#include "core/base/graph_folder.h"
#include "core/base/nccl.h"
#include "core/base/util.h"
#include "shim/nccl/comm.h"
#include "shim/nccl/graph_file.h"
#include "shim/record/shim.h"

_Atomic int capo_graph_state;

static struct {
        pthread_mutex_t lock;
        bool asked, usable;
        int users; /* calls under way that NCCL should read the file in */
        int n_ranks;
        char *before;             /* "CAPO_GRAPH=..." */
        char text[PATH_MAX + 64]; /* "NCCL_GRAPH_FILE=..." */
        struct capo_graph_folder folder;
} graph = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct {
        int depth, whole, other; /* open groups; communicators of all ranks and others in them */
} group;

extern char **environ;

static bool is_graph(const char *setting)
{
        const size_t n = sizeof CAPO_ENV_graph - 1;

        return !strncmp(setting, CAPO_ENV_graph, n) && setting[n] == '=';
}

/* "CAPO_GRAPH=...", or what stands in its place. */
static char **find(bool ours)
{
        for (char **e = environ; e && *e; e++) {
                if (ours ? *e == graph.text : is_graph(*e))
                        return e;
        }
        return NULL;
}

static void exchange(char **entry, char *text)
{
        if (entry)
                __atomic_store_n(entry, text, __ATOMIC_SEQ_CST);
}

/* --- is this the machine? --- */

static const char *get_variable(const char *name, void *user)
{
        return getenv(name);
}

static bool same_gpus(const struct capo_graph_machine *m, char *why, size_t room)
{
        void *lib = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
        int (*init)(void) = lib ? (int (*)(void))dlsym(lib, "nvmlInit_v2") : NULL;
        int (*done)(void) = lib ? (int (*)(void))dlsym(lib, "nvmlShutdown") : NULL;
        int (*by_busid)(const char *, void **) =
                lib ? (int (*)(const char *, void **))dlsym(lib, "nvmlDeviceGetHandleByPciBusId_v2") : NULL;
        int (*index)(void *, unsigned *) = lib ? (int (*)(void *, unsigned *))dlsym(lib, "nvmlDeviceGetIndex") : NULL;
        bool good = init && done && by_busid && index && init() == 0;

        if (!good)
                snprintf(why, room, "NVML does not answer");
        for (int i = 0; i < m->n_gpus && good; i++) {
                unsigned dev = 0;
                void *device = NULL;

                good = by_busid(m->gpus[i].busid, &device) == 0 && index(device, &dev) == 0 &&
                       (int)dev == m->gpus[i].dev;
                if (!good)
                        snprintf(why, room, "GPU %d is not at %s here", m->gpus[i].dev, m->gpus[i].busid);
                if (i + 1 == m->n_gpus || !good)
                        done();
        }
        return good;
}

static bool in_class(const char *class, const char *name)
{
        char path[PATH_MAX];

        return snprintf(path, sizeof path, "%s/class/%s/%s", capo_shim_env()->sysfs, class, name) < (int)sizeof path &&
               access(path, F_OK) == 0;
}

/* NCCL numbers the NICs it finds: all of them must be there, and no InfiniBand device besides. */
static bool same_nics(const struct capo_graph_machine *m, char *why, size_t room)
{
        static const char *const selections[] = {"NCCL_IB_HCA", "NCCL_NET_MERGE_LEVEL", "NCCL_SOCKET_IFNAME"};
        char path[PATH_MAX];
        int devices = 0, verbs = 0;
        DIR *dir;

        if (!m->n_nics) /* one machine alone */
                return true;
        for (int i = 0; i < m->n_nics; i++) {
                verbs += in_class("infiniband", m->nics[i]);
                if (!in_class("infiniband", m->nics[i]) && !in_class("net", m->nics[i])) {
                        snprintf(why, room, "there is no network device %s here", m->nics[i]);
                        return false;
                }
        }
        /* the last chooses among interfaces of sockets, and says nothing of InfiniBand devices */
        for (size_t i = 0; i < N_ELEMENTS(selections) - (verbs == m->n_nics); i++) {
                if (getenv(selections[i])) {
                        snprintf(why, room, "%s is set, and may number the NICs otherwise", selections[i]);
                        return false;
                }
        }
        if (snprintf(path, sizeof path, "%s/class/infiniband", capo_shim_env()->sysfs) >= (int)sizeof path)
                return false;
        dir = opendir(path);
        for (struct dirent *d; dir && (d = readdir(dir));)
                devices += d->d_name[0] != '.';
        if (dir)
                closedir(dir);
        if (devices != verbs)
                snprintf(why, room, "there are %d InfiniBand devices here, and the file knows %d", devices, verbs);
        return devices == verbs;
}

static bool read_machines(const char *folder, char *why, size_t room)
{
        char path[PATH_MAX], text[32768];
        _cleanup_close_ int fd = -1;
        ssize_t n;

        if (snprintf(path, sizeof path, "%s/machines", folder) >= (int)sizeof path)
                return false;
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
        if (n < 0) {
                snprintf(why, room, "%.200s: %s", path, strerror(errno));
                return false;
        }
        text[n] = 0;
        return capo_graph_folder_parse(text, &graph.folder, why, room) == 0;
}

/* One process of each machine speaks: its first. */
static bool speaks(void)
{
        static const char *const names[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                            "SLURM_LOCALID"};

        for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                const char *v = getenv(names[i]);

                if (v)
                        return !strcmp(v, "0");
        }
        return true;
}

/* With the lock held. Whether, and which file; once. */
static void ask(const struct capo_nccl *lib)
{
        const char *folder = capo_shim_env()->graph;
        char why[512] = "", path[PATH_MAX], text[16];
        int at = -1, nccl = lib->version;

        graph.asked = true;
        if (!nccl && lib->ncclGetVersion)
                lib->ncclGetVersion(&nccl);
        if (!read_machines(folder, why, sizeof why))
                goto none;
        graph.n_ranks = graph.folder.n_ranks;
        at = capo_graph_folder_machine(&graph.folder, get_variable, NULL, why, sizeof why);
        if (at < 0)
                goto none;
        if (nccl != graph.folder.nccl) {
                snprintf(why, sizeof why, "the files are for NCCL %s",
                         capo_nccl_text((uint32_t)graph.folder.nccl, text, sizeof text));
                goto none;
        }
        if (!same_gpus(&graph.folder.machines[at], why, sizeof why) ||
            !same_nics(&graph.folder.machines[at], why, sizeof why))
                goto none;
        if (snprintf(path, sizeof path, "%s/graph-%d.xml", folder, at) >= (int)sizeof path || access(path, R_OK) < 0) {
                snprintf(why, sizeof why, "%.200s: %s", path, strerror(errno));
                goto none;
        }
        snprintf(graph.text, sizeof graph.text, "NCCL_GRAPH_FILE=%s", path);
        graph.usable = true;
        if (speaks())
                capo_info("NCCL reads %s for communicators of all %d ranks", path, graph.n_ranks);
        return;
none:
        if (speaks())
                capo_warn("no graph file on this machine: %s", why);
}

/* --- while NCCL looks --- */

static bool given(void)
{
        int state = atomic_load_explicit(&capo_graph_state, memory_order_acquire);

        if (state == CAPO_GRAPH_UNKNOWN) {
                capo_shim_start();
                state = !capo_shim_env()->off && *capo_shim_env()->graph ? CAPO_GRAPH_GIVEN : CAPO_GRAPH_NONE;
                atomic_store_explicit(&capo_graph_state, state, memory_order_release);
        }
        return state == CAPO_GRAPH_GIVEN;
}

static bool waits(const ncclConfig_t *config)
{
        struct capo_birth birth = {0};
        const char *env = getenv("NCCL_COMM_BLOCKING");

        capo_comm_config(&birth, config);
        return !birth.nonblocking && !(env && !strcmp(env, "0"));
}

static bool on(void)
{
        char **entry;
        bool usable;

        pthread_mutex_lock(&graph.lock);
        if (graph.usable && graph.users++ == 0) {
                entry = getenv("NCCL_GRAPH_FILE") ? NULL : find(false);
                if (entry) {
                        graph.before = *entry;
                        exchange(entry, graph.text);
                } else { /* somebody set his own, or cleared the environment */
                        graph.users = 0;
                        graph.usable = false;
                }
        }
        usable = graph.usable;
        pthread_mutex_unlock(&graph.lock);
        return usable;
}

void capo_graph_leave(void)
{
        pthread_mutex_lock(&graph.lock);
        if (graph.users > 0 && --graph.users == 0)
                exchange(find(true), graph.before);
        pthread_mutex_unlock(&graph.lock);
}

/* Another communicator comes while the file is there for one: it would fail, so the file goes. */
static void off(void)
{
        bool late;

        pthread_mutex_lock(&graph.lock);
        late = graph.users > 0;
        if (late) {
                exchange(find(true), graph.before);
                graph.users = 0;
                graph.usable = false;
        }
        pthread_mutex_unlock(&graph.lock);
        if (late)
                capo_warn_once(
                        "communicators are made at the same time on several threads: no graph file from here on");
}

/* Does the number of ranks say that it is the communicator of all? The machine is asked only then. */
static bool whole(int n_ranks, const struct capo_nccl *lib)
{
        bool same;

        if (n_ranks < 2)
                return false;
        pthread_mutex_lock(&graph.lock);
        if (!graph.asked)
                ask(lib);
        same = graph.usable && n_ranks == graph.n_ranks;
        pthread_mutex_unlock(&graph.lock);
        return same;
}

bool capo_graph_enter_slow(int n_ranks, const ncclConfig_t *config, const struct capo_nccl *lib)
{
        bool all;

        if (!given())
                return false;
        all = waits(config) && whole(n_ranks, lib);
        if (group.depth) {
                group.whole += all;
                group.other += !all;
                return false;
        }
        if (!all) {
                off();
                return false;
        }
        return on();
}

void capo_graph_group_slow(void)
{
        if (given())
                group.depth++;
}

bool capo_graph_group_end_slow(void)
{
        bool mixed = group.whole && group.other, all = group.whole && !group.other;

        if (!given() || !group.depth || --group.depth)
                return false;
        if (mixed)
                capo_warn_once("a group makes the communicator of all ranks and another: no graph file for them");
        if (group.other)
                off();
        group.whole = group.other = 0;
        return all && on();
}
