/* SPDX-License-Identifier: Apache-2.0 */
/*
 * app_graph STEP...: makes communicators, and says of each which graph file NCCL would read then ("-" none).
 *   N a communicator of N ranks; nN one that does not wait; aN ncclCommInitAll; s a split of the last;
 *   (  ) a group; = what the environment says between calls
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/record/nccl_abi.h"
#define CAPO_NCCL_CODE FAKE_CODE
#define PROTOTYPES
#define CALL(name, params, args, id, comm, stream, ...) ncclResult_t name params;
#define HAND(name, params, args)                        ncclResult_t name params;
#define PASS(type, name, params, args, missing)         type name params;
#include "shim/nccl/nccl_calls.def"

__attribute__((visibility("default"))) void fake_in_init(void);
__attribute__((visibility("default"))) void fake_in_group_end(int n);

static int in_group;

static void say(void)
{
        const char *file = getenv("NCCL_GRAPH_FILE"), *base = file ? strrchr(file, '/') : NULL;

        printf(" %s", base ? base + 1 : file ? file : "-");
}

void fake_in_init(void)
{
        if (!in_group) /* NCCL makes those at the end of the group */
                say();
}

void fake_in_group_end(int n)
{
        for (int i = 0; i < n; i++)
                say();
}

int main(int argc, char **argv)
{
        ncclConfig_t config = {.size = sizeof config,
                               .magic = CAPO_NCCL_CONFIG_MAGIC,
                               .version = FAKE_CODE,
                               .blocking = 0,
                               .cgaClusterSize = INT_MIN,
                               .minCTAs = INT_MIN,
                               .maxCTAs = INT_MIN,
                               .splitShare = INT_MIN};
        ncclComm_t comms[64] = {0};
        ncclUniqueId id;
        int n = 0;

        ncclGetUniqueId(&id);
        for (int i = 1; i < argc && n < 48; i++) {
                switch (argv[i][0]) {
                case '(':
                        ncclGroupStart();
                        in_group++;
                        break;
                case ')':
                        in_group--;
                        ncclGroupEnd();
                        break;
                case 's': ncclCommSplit(comms[0], 1, 0, &comms[n++], NULL); break;
                case 'n': ncclCommInitRankConfig(&comms[n++], atoi(argv[i] + 1), id, 0, &config); break;
                case 'a':
                        ncclCommInitAll(&comms[n], atoi(argv[i] + 1), NULL);
                        n += 8;
                        break;
                case '=': printf(" %s", getenv("CAPO_GRAPH") ? "there" : "gone"); break;
                default: ncclCommInitRank(&comms[n++], atoi(argv[i]), id, 0); break;
                }
        }
        putchar('\n');
        return 0;
}
