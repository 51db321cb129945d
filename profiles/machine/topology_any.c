/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the formats a file is: by its first characters, never by its name. And racks that no file describes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/base/util.h"
#include "profiles/machine/topology_build.h"

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

/* One NVLink domain over many trays (NVIDIA GB200 NVL72: 18 links per GPU to the switches of the rack). */
int capo_topology_made(const char *name, double brick_gbs, struct capo_topology **out, char *why, size_t room)
{
        static const struct {
                const char *name;
                int gpus, links, sm;
        } racks[] = {{"gb200-nvl36", 36, 18, 100}, {"gb200-nvl72", 72, 18, 100}};

        for (size_t i = 0; i < N_ELEMENTS(racks); i++) {
                struct topology_build b;
                int r;

                if (strcasecmp(name, racks[i].name) != 0)
                        continue;
                r = topology_build_begin(&b, racks[i].name, 0, brick_gbs, why, room);
                for (int k = 0; !r && k < racks[i].gpus; k++) {
                        struct capo_topology_gpu *gpu = topology_add_gpu(&b);
                        struct half_link *h = topology_add_half(&b);

                        if (!gpu || !h)
                                break; /* topology_build_end says so */
                        gpu->dev = k;
                        gpu->sm = racks[i].sm;
                        snprintf(gpu->busid, sizeof gpu->busid, "gpu%d", k);
                        h->from = k;
                        h->count = racks[i].links;
                        snprintf(h->to, sizeof h->to, "nvswitch");
                        snprintf(h->class_text, sizeof h->class_text, "0x068000");
                }
                return r < 0 ? r : topology_build_end(&b, out);
        }
        return -ENOENT;
}
