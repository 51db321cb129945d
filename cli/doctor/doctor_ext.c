/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL EP and NCCL M2N beside this NCCL. The rules are NVIDIA's (nccl_ep/README.md and nccl_m2n.h of
 * github.com/NVIDIA/nccl-extensions): NCCL is not older than the release that the library was built
 * with, and from 2.31 on needs NCCL_DEV_API_JIT=1 for a library that was built with an earlier one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/nccl_release.h"
#include "core/base/util.h"
#include "core/base/xalloc.h"
#include "cli/doctor/doctor_ext.h"
#include "cli/doctor/elf_file.h"
#include "cli/doctor/network_devices.h"

enum { OLDEST_BUILT = 22900, OLDEST_M2N = 23005, OLDEST_COMPATIBLE = 23100 };

/* The release whose nccl.h @elf was compiled with: it stands behind the magic number of the structs
 * that NCCL's macros initialize. 0: not known. */
static int built_with(const struct capo_elf_file *elf)
{
        static const unsigned magic = 0xcafebeef;
        const unsigned char *at = elf->bytes, *end = at + elf->size;
        int release;

        while ((at = memmem(at, (size_t)(end - at), &magic, sizeof magic)) && end - at >= 8) {
                at += sizeof magic;
                memcpy(&release, at, sizeof release);
                if (release >= OLDEST_BUILT && release <= CAPO_NCCL_LAST)
                        return release;
        }
        return 0;
}

static bool is_off(const char *name)
{
        const char *value = getenv(name);

        return value && !strcmp(value, "0");
}

#define FOUND(level, ...) capo_finding_add(f, CAPO_FINDING_##level, "experts", __VA_ARGS__)
static void check_release(struct capo_findings *f, const char *path, int version, bool m2n)
{
        _cleanup_(capo_elf_close) struct capo_elf_file elf = {0};
        const char *name = capo_base_name(path), *jit = getenv("NCCL_DEV_API_JIT");
        int built = capo_elf_open(path, &elf) ? 0 : built_with(&elf);
        char built_text[16], text[16];

        capo_nccl_text((uint32_t)built, built_text, sizeof built_text);
        capo_nccl_text((uint32_t)version, text, sizeof text);
        if (!version)
                FOUND(NOTE, "%s is here; the release of NCCL beside it is not known", name);
        else if (m2n && version < OLDEST_M2N)
                FOUND(WARN, "%s needs NCCL 2.30.5 (nccl_m2n.h), found %s", name, text);
        else if (version < built)
                FOUND(WARN, "%s was built with NCCL %s and needs at least that, found %s", name,
                      built_text, text);
        else if (built && built < OLDEST_COMPATIBLE && version >= OLDEST_COMPATIBLE &&
                 (!jit || !atoi(jit)))
                FOUND(WARN,
                      "%s was built with NCCL %s, found %s: from 2.31 on set NCCL_DEV_API_JIT=1",
                      name, built_text, text);
        else if (!built)
                FOUND(NOTE, "%s: the NCCL that it was built with is not known", name);
        else
                FOUND(OK, "%s, built with NCCL %s, fits NCCL %s", name, built_text, text);
}

void capo_doctor_extensions(struct capo_findings *f, const struct capo_reach *reach)
{
        _cleanup_free_ struct capo_network *net = xcalloc(1, sizeof *net);
        const char *nvcc = getenv("NCCL_EP_JIT_NVCC");
        char path[4096];

        for (unsigned i = 0; i < N_ELEMENTS(reach->extensions); i++) {
                if (*reach->extensions[i])
                        check_release(f, reach->extensions[i], reach->version, i);
        }
        if (!*reach->extensions[0] && !*reach->extensions[1])
                return;
        if (is_off("NCCL_CUMEM_ENABLE"))
                FOUND(WARN,
                      "NCCL_CUMEM_ENABLE=0: without cuMem NCCL has neither LSA nor GIN, which both "
                      "libraries need");
        capo_network_read(net);
        if (is_off("NCCL_GIN_ENABLE") || !net->n)
                FOUND(WARN,
                      "%s: no GIN. Calls work only among GPUs that reach each other by NVLink or PCIe "
                      "(LSA), not between nodes",
                      net->n ? "NCCL_GIN_ENABLE=0" : "no RDMA device here");
        if (!*reach->extensions[0])
                return;
        if (!nvcc && !capo_file_find(getenv("PATH"), "nvcc", X_OK, path, sizeof path))
                FOUND(WARN,
                      "no nvcc on PATH: NCCL EP compiles kernels when they are first used. Or set "
                      "NCCL_EP_JIT_NVCC");
        FOUND(NOTE,
              "known bug (hang): calls of two low-latency handles of one group can time out; use one "
              "handle per group (github.com/NVIDIA/nccl-extensions/pull/6, August 2026; not known to be "
              "fixed)");
}
