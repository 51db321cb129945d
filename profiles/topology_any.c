/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the formats a file is: by its first characters, never by its name. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "profiles/topology_build.h"

int capo_topology_read(const char *path, unsigned flags, double brick_gbs, struct capo_topology **out, char *why,
                       size_t room)
{
        char head[4096] = "";
        _cleanup_fclose_ FILE *f = NULL;
        size_t n;

        if (!strcmp(path, "-"))
                return capo_topology_read_nccl(path, flags, brick_gbs, out, why, room);
        f = fopen(path, "re");
        if (!f) {
                int r = -errno;

                snprintf(why, room, "%s: %s", path, strerror(-r));
                return r;
        }
        n = fread(head, 1, sizeof head - 1, f);
        if (ferror(f)) {
                int r = errno ? -errno : -EIO;

                snprintf(why, room, "%s: %s", path, strerror(-r));
                return r;
        }
        head[n] = 0;
        if (n && !strchr("<", head[strspn(head, " \t\r\n\xef\xbb\xbf")]))
                return topology_read_smi(path, flags, brick_gbs, out, why, room);
        if (strstr(head, "<topology") && !strstr(head, "<system"))
                return topology_read_hwloc(path, flags, brick_gbs, out, why, room);
        return capo_topology_read_nccl(path, flags, brick_gbs, out, why, room);
}

int capo_topology_this_machine(double brick_gbs, struct capo_topology **out, char *why, size_t room)
{
        return topology_read_hwloc(NULL, 0, brick_gbs, out, why, room);
}
