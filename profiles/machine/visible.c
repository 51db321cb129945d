/* SPDX-License-Identifier: Apache-2.0 */
/* Combines three lists: devices on the bus (hwloc), devices that the driver shows to this process
 * (NVML; in a container, those of the container), and what the user asks for. CUDA numbers the
 * second list, and so does this. */

#include "core/base/among.h"
#include "capo/msg.h"
#include "core/base/text.h"
#include "core/base/xalloc.h"
#include "profiles/machine/visible.h"

/* A device that can be requested. */
struct candidate {
        int gpu; /* index in the topology */
        bool mig, slice, taken;
        const char *uuid;                   /* "": none */
        char old_name[CAPO_UUID_ROOM + 32]; /* "": none */
};

struct finder {
        const struct capo_topology *t;
        struct candidate gpus[CAPO_NVML_GPUS],
                slices[CAPO_NVML_SLICES]; /* accessible ones, in CUDA's order for equal GPUs */
        int n_gpus, n_slices;
        bool taken_twice;
        struct capo_visible *out;
};

#define add_remark(v, format, ...) \
        capo_append((v)->said, sizeof(v)->said, "%s" format, *(v)->said ? "\n" : "", __VA_ARGS__)

static void collect_candidates(struct finder *f, const struct capo_nvml *nvml)
{
        int at[CAPO_NVML_GPUS], unknown = 0;

        if (!nvml) {
                for (size_t i = 0; i < f->t->n_gpus && f->n_gpus < CAPO_NVML_GPUS; i++)
                        f->gpus[f->n_gpus++] = (struct candidate){.gpu = (int)i, .uuid = ""};
                return;
        }
        for (int i = 0; i < nvml->n_gpus; i++) {
                const struct capo_nvml_gpu *g = &nvml->gpus[i];

                at[i] = capo_topology_gpu_by_busid(f->t, g->busid);
                unknown += at[i] < 0;
                if (at[i] >= 0)
                        f->gpus[f->n_gpus++] =
                                (struct candidate){.gpu = at[i], .mig = g->mig, .uuid = g->uuid};
        }
        for (int i = 0; i < nvml->n_slices; i++) {
                const struct capo_nvml_slice *s = &nvml->slices[i];
                struct candidate *c = &f->slices[f->n_slices];

                if (at[s->gpu] < 0)
                        continue;
                *c = (struct candidate){
                        .gpu = at[s->gpu], .mig = true, .slice = true, .uuid = s->uuid};
                snprintf(c->old_name, sizeof c->old_name, "MIG-%s/%u/%u", nvml->gpus[s->gpu].uuid,
                         s->gi, s->ci);
                f->n_slices++;
        }
        if (unknown)
                add_remark(f->out,
                           "%d of the driver's %d GPUs are not among those on the PCI bus here (a "
                           "container without /sys?) "
                           "and are left out",
                           unknown, nvml->n_gpus);
        if (f->n_gpus + unknown < (int)f->t->n_gpus)
                add_remark(
                        f->out,
                        "%zu GPUs are on the PCI bus, %d of them are open to this process, as in a "
                        "container",
                        f->t->n_gpus, f->n_gpus);
}

/* The device whose UUID begins with @word; -1: none, -2: several. An exact match comes before
 * prefixes. */
static int match_uuid(const struct candidate *list, int n, const char *word)
{
        size_t length = strlen(word);
        int found = -1;

        for (int i = 0; i < n; i++) {
                if (!strcasecmp(list[i].uuid, word) || !strcasecmp(list[i].old_name, word))
                        return i;
                if (*list[i].uuid && !strncasecmp(list[i].uuid, word, length))
                        found = found == -1 ? i : -2;
        }
        return found;
}

/* The PCI id of a GPU tells its model. */
static const char *model_of(const struct capo_topology *t, int gpu)
{
        return capo_xml_get(t->pcis[t->gpus[gpu].pci].xml, "device") ?: "";
}

static bool models_differ(const struct finder *f)
{
        const struct capo_topology *t = f->t;
        int first = f->gpus->gpu;

        return ANY_OF(c, f->gpus, f->n_gpus,
                      t->gpus[c->gpu].sm != t->gpus[first].sm ||
                              strcmp(model_of(t, c->gpu), model_of(t, first)));
}

static void take_device(struct finder *f, struct candidate *c, const char *name)
{
        struct capo_visible *v = f->out;
        bool shared = false;

        if (v->n == (int)N_ELEMENTS(v->devices))
                return;
        f->taken_twice |= c->taken;
        c->taken = true;
        for (int i = 0; i < v->n && c->slice; i++)
                shared |= v->devices[i].gpu == c->gpu;
        v->n_shared += shared;
        v->devices[v->n].gpu = c->gpu;
        v->devices[v->n].slice = c->slice || c->mig;
        snprintf(v->devices[v->n++].name, sizeof v->devices[0].name, "%s", name);
}

/* Resolve one entry. Return: 1: added; 0: it ends the list; -EINVAL: it cannot be resolved here. */
static int resolve_entry(struct finder *f, const char *word, bool by_bus, char *why, size_t room)
{
        bool slice = !strncasecmp(word, "MIG", 3), gpu = !strncasecmp(word, "GPU", 3);
        struct candidate *list = slice ? f->slices : f->gpus;
        int n = slice ? f->n_slices : f->n_gpus, i;
        char *end;
        long dev;

        if (slice || gpu) {
                bool uuids = false;

                for (int k = 0; k < n; k++)
                        uuids |= *list[k].uuid;
                i = match_uuid(list, n, word);
                if (i < 0 && !uuids)
                        return capo_why(
                                -EINVAL, why, room,
                                "CUDA_VISIBLE_DEVICES names %.80s, but the %s of this machine are "
                                "not known here: %s",
                                word, slice ? "MIG slices" : "UUIDs of the GPUs",
                                slice ? "MIG is off, or libnvidia-ml.so.1 is missing; name GPUs "
                                        "with --gpus"
                                      : "libnvidia-ml.so.1 is missing; name GPUs with --gpus");
                if (i == -2)
                        add_remark(
                                f->out,
                                "%.80s is the beginning of several UUIDs: CUDA ends its list there",
                                word);
                else if (i < 0)
                        add_remark(f->out,
                                   "%.80s is no device of this machine: CUDA ends its list there",
                                   word);
                if (i < 0)
                        return 0;
                take_device(f, &list[i], word);
                return 1;
        }
        dev = strtol(word, &end, 10);
        if (end == word || *end || dev < 0 || dev >= n) {
                if (strcmp(word, "-1") != 0)
                        add_remark(f->out, "\"%.80s\" is no GPU here: CUDA ends its list there",
                                   word);
                return 0;
        }
        if (!by_bus && models_differ(f))
                return capo_why(
                        -EINVAL, why, room,
                        "CUDA_VISIBLE_DEVICES=%.40s counts GPUs the fastest first, and they differ "
                        "here: set "
                        "CUDA_DEVICE_ORDER=PCI_BUS_ID, use UUIDs, or name GPUs with --gpus",
                        word);
        take_device(f, &list[dev], word);
        return 1;
}

static int finish_devices(const struct finder *f, const char *list, char *why, size_t room)
{
        struct capo_visible *v = f->out;
        int slices = 0;

        if (!v->n)
                return capo_why(
                        -EINVAL, why, room,
                        "CUDA_VISIBLE_DEVICES=%.80s leaves no GPU of this machine; name GPUs with "
                        "--gpus%s%s",
                        list, *v->said ? "; " : "", v->said);
        if (f->taken_twice)
                return capo_why(
                        -EINVAL, why, room,
                        "CUDA_VISIBLE_DEVICES=%.80s names a device twice: CUDA shows none then",
                        list);
        for (int i = 0; i < v->n; i++)
                slices += v->devices[i].slice;
        if (slices)
                add_remark(
                        v,
                        "%d of %d devices are MIG slices: neither NVLink nor P2P reaches a slice, "
                        "data goes through the "
                        "host's memory",
                        slices, v->n);
        if (v->n_shared)
                add_remark(v,
                           "%d of the slices are of a GPU that another has too: NCCL before 2.30 "
                           "refuses two ranks on one GPU "
                           "(\"Duplicate GPU detected\"), later ones unless "
                           "NCCL_MULTI_RANK_GPU_ENABLE=1",
                           v->n_shared);
        return 0;
}

int capo_visible_find(const struct capo_topology *t, const struct capo_nvml *nvml,
                      capo_visible_getenv get, void *user, struct capo_visible *out, char *why,
                      size_t room)
{
        const char *list = get("CUDA_VISIBLE_DEVICES", user),
                   *order = get("CUDA_DEVICE_ORDER", user),
                   *container = get("NVIDIA_VISIBLE_DEVICES", user);
        bool by_bus = order && !strcmp(order, "PCI_BUS_ID");
        _cleanup_free_ struct finder *f = xcalloc(1, sizeof *f);
        _cleanup_free_ char *copy = list ? xstrdup(list) : NULL;
        char *save = NULL;
        int r = 1;

        memset(out, 0, sizeof *out);
        f->t = t;
        f->out = out;
        collect_candidates(f, nvml);
        if (nvml && !f->n_gpus)
                return capo_why(-EINVAL, why, room, "the driver shows this process no GPU%s%.80s",
                                container ? "; NVIDIA_VISIBLE_DEVICES=" : "",
                                container ? container : "");
        for (int i = 0; !list && i < f->n_gpus; i++) {
                char name[16];

                snprintf(name, sizeof name, "%d", i);
                take_device(f, &f->gpus[i], name);
        }
        for (char *w = copy ? strtok_r(copy, ", ", &save) : NULL; w && r == 1;
             w = strtok_r(NULL, ", ", &save))
                r = resolve_entry(f, w, by_bus, why, room);
        return r < 0 ? r : finish_devices(f, list ? list : "", why, room);
}
