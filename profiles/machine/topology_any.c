/* SPDX-License-Identifier: Apache-2.0 */
/* Detects the format of a file by its first characters, never by its name. Also makes racks, which
 * no file describes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "capo/msg.h"
#include "core/base/file.h"
#include "core/base/util.h"
#include "profiles/machine/platform.h"
#include "profiles/machine/topology_build.h"

int capo_topology_read(const char *path, unsigned flags, double brick_gbs,
                       struct capo_topology **out, char *why, size_t room)
{
        char head[4096] = "";
        _cleanup_fclose_ FILE *f = NULL;
        struct stat st;
        size_t n;
        int fd;

        if (!strcmp(path, "-"))
                return capo_topology_read_nccl(path, flags, brick_gbs, out, why, room);
        fd = capo_file_open(path);
        f = fd < 0 ? NULL : fdopen(fd, "r");
        if (!f && fd != -ESPIPE) {
                int r = fd < 0 ? fd : -ENOMEM;

                return capo_why(r, why, room, "%s: %s", path, strerror(-r));
        }
        if (!f || (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode))) /* its head cannot be read twice */
                return capo_why(
                        -EINVAL, why, room,
                        "%s: is a pipe; expected a file, or - for NCCL's XML on standard input",
                        path);
        n = fread(head, 1, sizeof head - 1, f);
        if (ferror(f)) {
                int r = errno ? -errno : -EIO;

                return capo_why(r, why, room, "%s: %s", path, strerror(-r));
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

/* One NVLink domain over many trays: all GPUs on one switch. */
int capo_topology_made(const char *name, double brick_gbs, struct capo_topology **out, char *why,
                       size_t room)
{
        const struct capo_platform *p = capo_platform_find(name);
        struct topology_build b;

        if (!p || p->from != CAPO_PLATFORM_RACK)
                return -ENOENT;
        topology_build_begin(&b, p->name, 0, brick_gbs, why, room);
        for (int k = 0; k < p->n_gpus; k++) {
                struct capo_topology_gpu *gpu = topology_add_gpu(&b);
                struct half_link *h = topology_add_half(&b);

                gpu->dev = k;
                gpu->sm = p->sm;
                snprintf(gpu->busid, sizeof gpu->busid, "gpu%d", k);
                h->from = k;
                h->count = p->to_switch[0];
                snprintf(h->to, sizeof h->to, "nvswitch");
                snprintf(h->class_text, sizeof h->class_text, "0x068000");
        }
        return topology_build_end(&b, 0, out);
}
