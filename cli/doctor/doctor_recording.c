/* SPDX-License-Identifier: Apache-2.0 */
/* What recording needs on this machine. */
#include <libgen.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "capo/env.h"
#include "core/base/xalloc.h"
#include "cli/doctor/doctor.h"
#include "profiles/machine/elf_file.h"

#define FOUND(level, ...) capo_finding_add(f, CAPO_FINDING_##level, "recording", __VA_ARGS__)

/* Memory per process: capo's header, tables and a ring (docs/internals/log-format.md), and what
 * NCCL 2.28.9 was seen to need. */
enum { CAPO_SHM_KIB = 8 << 10, NCCL_SHM_KIB_PER_RANK = 34 << 10 };

/* A library before ours with its own dlsym(): its direct requests to libc bypass ours. */
static void check_front(struct capo_findings *f, const char *preload)
{
        char list[4096], *save = NULL;

        snprintf(list, sizeof list, "%s", preload);
        for (char *path = strtok_r(list, ": ", &save); path; path = strtok_r(NULL, ": ", &save)) {
                _cleanup_(capo_elf_close) struct capo_elf_file elf = {0};

                if (!strcmp(capo_base_name(path), "libcapo.so"))
                        return;
                if (strstr(preload, "libcapo.so") && !capo_elf_open(path, &elf) &&
                    capo_elf_exports(&elf, "dlsym"))
                        FOUND(WARN,
                              "%s has a dlsym of its own and stands in front of libcapo.so in LD_PRELOAD: an NCCL "
                              "that the program opens by dlopen may be hidden; libcapo.so should be the first",
                              path);
        }
}

static void check_shm(struct capo_findings *f, int ranks)
{
        int mine = CAPO_SHM_KIB >> 10, all = ranks * (CAPO_SHM_KIB + NCCL_SHM_KIB_PER_RANK) >> 10;
        struct statvfs s;
        double free_mib;

        if (statvfs("/dev/shm", &s)) {
                FOUND(WARN,
                      "/dev/shm: %s; NCCL's shared memory fails, and kill -9 would lose records",
                      strerror(errno));
                return;
        }
        free_mib = (double)s.f_bavail * (double)s.f_frsize / (1 << 20);
        if (s.f_flag & ST_RDONLY)
                FOUND(WARN, "/dev/shm is read-only: kill -9 would lose records");
        else if (free_mib < mine)
                FOUND(FAIL,
                      "/dev/shm has %.1f MiB free: capo wants %d MiB per process, NCCL itself up to %d MiB per "
                      "rank; docker run --shm-size=1g, Kubernetes: an emptyDir with medium Memory",
                      free_mib, mine, NCCL_SHM_KIB_PER_RANK >> 10);
        else if (free_mib < all)
                FOUND(WARN,
                      "/dev/shm has %.0f MiB free: %d rank%s here may need %d MiB (NCCL %d, capo %d each); docker "
                      "run --shm-size=1g, Kubernetes: an emptyDir with medium Memory",
                      free_mib, ranks, ranks == 1 ? "" : "s", all, NCCL_SHM_KIB_PER_RANK >> 10,
                      mine);
        else
                FOUND(OK, "/dev/shm has %.0f MiB free", free_mib);
}

/* access() lets root write everywhere, also in /proc. So a folder is made and removed, in @dir or
 * where the recorder would make @dir. */
static bool can_write(const char *dir)
{
        _cleanup_free_ char *copy = xstrdup(dir);
        char probe[PATH_MAX], *there = copy;

        while (access(there, F_OK) < 0 && errno == ENOENT && strcmp(there, "."))
                there = dirname(there);
        snprintf(probe, sizeof probe, "%s/.capo-XXXXXX", there);
        return mkdtemp(probe) && rmdir(probe) == 0;
}

void capo_doctor_recording(struct capo_findings *f, int ranks)
{
        const char *dir = getenv(CAPO_ENV_dir), *preload = getenv("LD_PRELOAD");
        struct rlimit limit;

        check_shm(f, ranks > 0 ? ranks : 1);
        if (dir && *dir && !can_write(dir))
                FOUND(FAIL, "CAPO_DIR=%s: no log can be written there: %s", dir, strerror(errno));
        if (preload)
                check_front(f, preload);
        if (preload && (strstr(preload, "asan") || strstr(preload, "tsan")))
                FOUND(NOTE, "LD_PRELOAD=%s: a sanitizer must stay first", preload);
        if (!getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur != RLIM_INFINITY &&
            limit.rlim_cur < (1u << 30))
                FOUND(NOTE,
                      "ulimit -l is %lu KiB: RDMA networks (EFA, InfiniBand) want it unlimited to register memory",
                      (unsigned long)(limit.rlim_cur >> 10));
        /* glibc then gives a thread 2 MiB, which NCCL's search can exceed (NCCL's troubleshooting
         * page) */
        if (!getrlimit(RLIMIT_STACK, &limit) && limit.rlim_cur == RLIM_INFINITY)
                FOUND(WARN, "ulimit -s is unlimited: threads then get stacks of 2 MiB, and NCCL "
                            "may crash while it starts; ulimit -s 8192");
}
