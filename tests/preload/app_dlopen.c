/* SPDX-License-Identifier: Apache-2.0 */
/*
 * app_dlopen HOW LIBRARY [LIBRARY2] [BODY]: a program that is not linked to NCCL and reaches it as
 * frameworks do. plugin    dlopen of a plugin that is linked to NCCL, local scope (a Python
 * extension) dlsym     dlopen of NCCL itself and dlsym (vLLM, XGBoost) default dlsym(RTLD_DEFAULT),
 * which has NCCL only once it was loaded (nccl4py) weak      a weak reference to a function of an
 * NCCL that nobody loads two       two copies of NCCL by dlopen + dlsym, interleaved missing   a
 * function the NCCL loaded does not have
 * both      NCCL by dlsym, and then LIBRARY as deep has it
 * deep, apart  as plugin, by RTLD_DEEPBIND and by dlmopen(): both pass by every preload
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/record/nccl_abi.h"

#define MUST(x)                                                                               \
        do {                                                                                  \
                if (!(x)) {                                                                   \
                        printf("%s:%d: not so: %s: %s\n", __FILE__, __LINE__, #x, dlerror()); \
                        exit(1);                                                              \
                }                                                                             \
        } while (0)

struct nccl {
        ncclResult_t (*id)(ncclUniqueId *);
        ncclResult_t (*init)(ncclComm_t *, int, ncclUniqueId, int);
        ncclResult_t (*all_reduce)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
                                   ncclComm_t, cudaStream_t);
        ncclResult_t (*group_start)(void), (*group_end)(void), (*version)(int *);
        unsigned (*count)(const char *);
        ncclComm_t comm;
};

extern ncclResult_t ncclGetUniqueId(ncclUniqueId *) __attribute__((weak));

static char a[1024], b[1024];

static void *must(void *handle, const char *name)
{
        void *p = dlsym(handle, name);

        MUST(p);
        return p;
}

static void open_nccl(struct nccl *n, void *handle)
{
        ncclUniqueId id;

        *(void **)&n->id = must(handle, "ncclGetUniqueId");
        *(void **)&n->init = must(handle, "ncclCommInitRank");
        *(void **)&n->all_reduce = must(handle, "ncclAllReduce");
        *(void **)&n->group_start = must(handle, "ncclGroupStart");
        *(void **)&n->group_end = must(handle, "ncclGroupEnd");
        *(void **)&n->version = must(handle, "ncclGetVersion");
        MUST(n->id(&id) == 0 && n->init(&n->comm, 2, id, 1) == 0 && n->comm);
}

int main(int argc, char **argv)
{
        const char *how = argv[1], *library = argv[2];
        struct nccl one = {0}, two = {0};
        void *handle, *handle2;
        const char *gone = getenv("APP_REMOVES");
        int v;

        if (gone) /* what is read when the process starts is not read later */
                unlink(gone);
        if (!strcmp(how, "both")) { /* calls of its own, and a plugin that passes by */
                void (*body)(const char *, int);

                MUST(handle = dlopen(argv[3], RTLD_NOW | RTLD_LOCAL));
                open_nccl(&one, handle);
                MUST(handle2 = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND));
                *(void **)&body = must(handle2, "body");
                body("basic", 0);
                MUST(one.all_reduce(a, b, 100, 7, 0, one.comm, NULL) == 0);
                return 0;
        }
        if (!strcmp(how, "plugin") || !strcmp(how, "deep") || !strcmp(how, "apart")) {
                int flags = RTLD_NOW | RTLD_LOCAL | (*how == 'd' ? RTLD_DEEPBIND : 0);
                void (*body)(const char *, int);

                MUST(handle = *how == 'a' ? dlmopen(LM_ID_NEWLM, library, flags)
                                          : dlopen(library, flags));
                *(void **)&body = must(handle, "body");
                body(argc > 3 ? argv[3] : "basic", argc > 4 ? atoi(argv[4]) : 0);
                return 0;
        }
        if (!strcmp(how, "default")) {
                void *program = dlopen(NULL, RTLD_LAZY);

                /* preloaded or not: what is not loaded is not there */
                MUST(!dlsym(RTLD_DEFAULT, "ncclAllReduce") && dlerror());
                MUST(!dlsym(RTLD_NEXT, "ncclAllReduce") && !dlsym(program, "ncclAllReduce") &&
                     dlerror());
                MUST(!dlsym(RTLD_DEFAULT, "fi_fabric") && !dlsym(program, "fi_fabric2") &&
                     dlerror());
                MUST(!dlvsym(RTLD_DEFAULT, "fi_fabric", "FABRIC_1.1") && dlerror());
                MUST(dlsym(RTLD_DEFAULT, "strlen") && dlsym(program, "dlvsym") && !dlerror());
                MUST(handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL));
                MUST(!dlsym(RTLD_DEFAULT, "ncclNoSuchCall") && dlerror());
                open_nccl(&one, RTLD_DEFAULT);
                MUST(one.all_reduce(a, b, 100, 7, 0, one.comm, NULL) == 0);
                *(void **)&one.count = must(handle, "fake_count");
                MUST(one.count("ncclAllReduce") == 1);
                puts("done default");
                return 0;
        }
        if (!strcmp(how, "weak")) {
                if (!ncclGetUniqueId)
                        puts("not preloaded");
                else
                        printf("answered %d\n", ncclGetUniqueId((ncclUniqueId *)a));
                return 0;
        }
        MUST(handle = dlopen(library, RTLD_NOW | RTLD_LOCAL));
        *(void **)&one.count = must(handle, "fake_count");
        if (!strcmp(how, "missing")) {
                /* probing stays honest */
                MUST(dlsym(handle, "ncclAlltoAll") == NULL && dlerror() != NULL);
                MUST(dlsym(RTLD_DEFAULT, "ncclAlltoAll") == NULL && dlerror() != NULL);
                puts("done missing");
                return 0;
        }
        open_nccl(&one, handle);
        for (int i = 0; i < 3; i++)
                MUST(one.all_reduce(a, b, 100, 7, 0, one.comm, NULL) == 0);
        MUST(one.count("ncclAllReduce") == 3);
        if (!strcmp(how, "two")) {
                MUST(handle2 = dlopen(argv[3], RTLD_NOW | RTLD_LOCAL));
                *(void **)&two.count = must(handle2, "fake_count");
                open_nccl(&two, handle2);
                MUST(one.group_start() == 0 && one.all_reduce(a, b, 1, 7, 0, one.comm, NULL) == 0 &&
                     one.group_end() == 0);
                MUST(two.group_start() == 0 && two.all_reduce(a, b, 1, 7, 0, two.comm, NULL) == 0 &&
                     two.group_end() == 0);
                MUST(one.count("ncclAllReduce") == 4 && two.count("ncclAllReduce") == 1);
                MUST(one.count("ncclGroupStart") == 1 && two.count("ncclGroupEnd") == 1);
                MUST(one.version(&v) == 0 && v == 22809 && two.version(&v) == 0 && v == 22105);
        }
        printf("done %s\n", how);
        return 0;
}
