/* SPDX-License-Identifier: Apache-2.0 */
/* The host identity in the topology. If an NVLink domain has several nodes, NCCL merges their
 * topologies and distinguishes processors by host_hash, which it writes when it detects a machine.
 * Up to 2.26 it does not add it to a topology file, so this node's file gets it here. */
#include "profiles/plan/virtual/virtual.h"

static uint64_t (*host_hash)(void);

void plan_host_symbol(const char *name, void *at)
{
        if (!strcmp(name, "_Z11getHostHashv"))
                host_hash = (uint64_t(*)(void))at;
}

int plan_host_write_topology(void)
{
        const char *log = getenv("NCCL_DEBUG_FILE"); /* in the question's folder */
        _cleanup_free_ char *line = NULL, *path = NULL;
        size_t room = 0;
        ssize_t n;

        if (!plan_job->domain_nodes || !host_hash || !log)
                return 0;
        if (asprintf(&path, "%.*s/topo.of.%u.xml", (int)(strrchr(log, '/') - log), log, plan_node) <
            0)
                return -ENOMEM;
        _cleanup_fclose_ FILE *from = fopen(plan_machine->topo, "re");
        _cleanup_fclose_ FILE *to = fopen(path, "we");
        if (!from || !to)
                return -EIO;
        while ((n = getline(&line, &room, from)) > 0) {
                if (!strncmp(line, "<cpu ", 5))
                        fprintf(to, "<cpu host_hash=\"0x%" PRIx64 "\"%s", host_hash(), line + 4);
                else
                        fwrite(line, 1, (size_t)n, to);
        }
        if (fflush(to) != 0)
                return -EIO;
        return setenv("NCCL_TOPO_FILE", path, 1) == 0 ? 0 : -errno;
}
