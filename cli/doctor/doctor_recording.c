/* SPDX-License-Identifier: Apache-2.0 */
/* What recording needs on this machine. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "capo/env.h"
#include "core/base/file.h"
#include "core/base/util.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/elf_file.h"

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
                        capo_finding_add(
                                f, CAPO_FINDING_WARN, "recording",
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
                capo_finding_add(
                        f, CAPO_FINDING_WARN, "recording",
                        "/dev/shm: %s; NCCL's shared memory fails, and kill -9 would lose records",
                        strerror(errno));
                return;
        }
        free_mib = (double)s.f_bavail * (double)s.f_frsize / (1 << 20);
        if (s.f_flag & ST_RDONLY)
                capo_finding_add(f, CAPO_FINDING_WARN, "recording",
                                 "/dev/shm is read-only: kill -9 would lose records");
        else if (free_mib < mine)
                capo_finding_add(
                        f, CAPO_FINDING_FAIL, "recording",
                        "/dev/shm has %.1f MiB free: capo wants %d MiB per process, NCCL itself up to %d MiB per "
                        "rank; docker run --shm-size=1g, Kubernetes: an emptyDir with medium Memory",
                        free_mib, mine, NCCL_SHM_KIB_PER_RANK >> 10);
        else if (free_mib < all)
                capo_finding_add(
                        f, CAPO_FINDING_WARN, "recording",
                        "/dev/shm has %.0f MiB free: %d rank%s here may need %d MiB (NCCL %d, capo %d each); docker "
                        "run --shm-size=1g, Kubernetes: an emptyDir with medium Memory",
                        free_mib, ranks, ranks == 1 ? "" : "s", all, NCCL_SHM_KIB_PER_RANK >> 10,
                        mine);
        else
                capo_finding_add(f, CAPO_FINDING_OK, "recording", "/dev/shm has %.0f MiB free",
                                 free_mib);
}

void capo_doctor_recording(struct capo_findings *f, int ranks)
{
        const char *dir = getenv(CAPO_ENV_dir), *preload = getenv("LD_PRELOAD");
        struct stat st;
        struct rlimit limit;

        check_shm(f, ranks > 0 ? ranks : 1);
        if (dir && *dir && stat(dir, &st) == 0 && !S_ISDIR(st.st_mode))
                capo_finding_add(f, CAPO_FINDING_FAIL, "recording",
                                 "CAPO_DIR=%s: a file is there, and a folder is expected", dir);
        else if (dir && *dir && access(dir, W_OK | X_OK))
                capo_finding_add(f, CAPO_FINDING_FAIL, "recording", "CAPO_DIR=%s: %s", dir,
                                 strerror(errno));
        if (preload)
                check_front(f, preload);
        if (preload && (strstr(preload, "asan") || strstr(preload, "tsan")))
                capo_finding_add(f, CAPO_FINDING_NOTE, "recording",
                                 "LD_PRELOAD=%s: a sanitizer must stay first", preload);
        if (!getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur != RLIM_INFINITY &&
            limit.rlim_cur < (1u << 30))
                capo_finding_add(
                        f, CAPO_FINDING_NOTE, "recording",
                        "ulimit -l is %lu KiB: RDMA networks (EFA, InfiniBand) want it unlimited to register memory",
                        (unsigned long)(limit.rlim_cur >> 10));
        /* glibc then gives a thread 2 MiB, which NCCL's search can exceed (NCCL's troubleshooting
         * page) */
        if (!getrlimit(RLIMIT_STACK, &limit) && limit.rlim_cur == RLIM_INFINITY)
                capo_finding_add(
                        f, CAPO_FINDING_WARN, "recording",
                        "ulimit -s is unlimited: threads then get stacks of 2 MiB, and NCCL "
                        "may crash while it starts; ulimit -s 8192");
}
