/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the machine that is meant, for the verbs that look at allocations. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capo/msg.h"
#include "cli/base/plan_tools.h"
#include "cli/topo/topo.h"
#include "core/base/util.h"
#include "profiles/machine/platform.h"
#include "profiles/plan/machine.h"

/* A file with the PCI tree only, completed by what the platform has: through a temporary file, as NCCL gets it. */
static int completed(const char *path, const struct topo_options *o, struct capo_topology **t, char *why, size_t room)
{
        _cleanup_free_ struct plan_machine *m = calloc(1, sizeof *m);
        char name[] = "/tmp/capo-topo-XXXXXX";
        int fd = m ? mkstemp(name) : -1, r;

        if (fd < 0) {
                snprintf(why, room, "%.200s: no temporary file: %s", path, strerror(errno));
                return -errno;
        }
        close(fd);
        r = plan_machine_prepare(path, o->platform, name, m, why, room);
        if (!r)
                r = capo_topology_read(name, 0, o->brick_gbs, t, why, room);
        unlink(name);
        if (!r) { /* messages and pages name the file the user knows */
                char *known = strdup(path);

                if (known) {
                        free((*t)->name);
                        (*t)->name = known;
                }
        }
        return r;
}

static bool ends_in_nccl_xml(const struct capo_topology *t)
{
        return t->xml && !strcmp(t->xml->name, "system");
}

int topo_load(const char *verb, const struct topo_options *o, struct capo_topology **t, struct topo_source *s)
{
        unsigned flags = o->partial ? CAPO_TOPOLOGY_PARTIAL : 0;
        char why[1024] = "out of memory";
        int r = -ENOENT;

        memset(s, 0, sizeof *s);
        if (o->topo)
                snprintf(s->path, sizeof s->path, "%s", o->topo);
        else if (o->platform)
                r = capo_topology_made(o->platform, o->brick_gbs, t, why, sizeof why);
        if (r == -ENOENT && o->platform && !o->topo &&
            capo_plan_stored_topology(o->platform, s->path, sizeof s->path) < 0) {
                char names[512];

                snprintf(why, sizeof why, "platform \"%.64s\" is not known; one of%s", o->platform,
                         capo_platform_names(true, names, sizeof names));
                r = -EINVAL;
        }
        if (r == -ENOENT && !*s->path)
                r = capo_topology_this_machine(o->brick_gbs, t, why, sizeof why);
        else if (r == -ENOENT)
                r = capo_topology_read(s->path, flags, o->brick_gbs, t, why, sizeof why);
        if (!r && o->platform && *s->path && !(*t)->n_links && ends_in_nccl_xml(*t)) {
                capo_topology_free(steal(t));
                r = completed(s->path, o, t, why, sizeof why);
                s->platform = o->platform;
        }
        if (r < 0) {
                capo_error("%s: %s", verb, why);
                return r;
        }
        if (!ends_in_nccl_xml(*t))
                *s->path = 0;
        return 0;
}

int topo_ask(const struct topo_source *s, const struct capo_topology *t, const struct capo_alloc *a,
             const struct fragment_nccl_ask *more, struct fragment_nccl *nccl)
{
        struct fragment_nccl_ask ask = more ? *more : (struct fragment_nccl_ask){0};
        char tools[4096], libnccl[4096];

        memset(nccl, 0, sizeof *nccl);
        if (!*s->path) {
                snprintf(nccl->why_not, sizeof nccl->why_not,
                         "NCCL reads only its own XML; this machine is described otherwise");
                return -EINVAL;
        }
        if (capo_plan_tools_find(tools, sizeof tools) < 0) {
                snprintf(nccl->why_not, sizeof nccl->why_not, "capo-plan-worker is not installed");
                return -ENOENT;
        }
        if (capo_plan_find_libnccl(libnccl, sizeof libnccl) < 0) {
                snprintf(nccl->why_not, sizeof nccl->why_not, "no libnccl.so.2 found; CAPO_NCCL names one");
                return -ENOENT;
        }
        ask.tools = tools;
        ask.libnccl = libnccl;
        ask.topo = s->path;
        ask.platform = s->platform;
        return fragment_nccl_ask(&ask, t, a, nccl);
}
