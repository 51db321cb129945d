/* SPDX-License-Identifier: Apache-2.0 */
/* INFO: whose log this is, by include/capo/log_keys.def. Each launcher tells the rank its way. */
#include <fcntl.h>

#include "capo/env.h"
#include "capo/frame_types.h"
#include "core/base/safe_args.h"
#include "core/base/secret.h"
#include "core/log/info.h"
#include "shim/record/start.h"

#ifndef CAPO_VERSION
#define CAPO_VERSION "unknown"
#endif

/* The first variable that is set, of those launchers use for the same thing. */
static const struct {
        const char *key;
        const char *names[9];
        bool masked; /* its value may be a secret; no other part of capo depends on it */
} launchers[] = {
        {CAPO_INFO_RANK,
         {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
          "MV2_COMM_WORLD_RANK", "FLUX_TASK_RANK"}},
        {CAPO_INFO_WORLD_SIZE,
         {"WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
          "FLUX_JOB_SIZE"}},
        {CAPO_INFO_LOCAL_RANK,
         {"LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
          "MV2_COMM_WORLD_LOCAL_RANK"}},
        {CAPO_INFO_JOB,
         {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "FLUX_JOB_ID", "TORCHELASTIC_RUN_ID",
          "OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE"}},
        {CAPO_INFO_JOB_NAME, {"SLURM_JOB_NAME", "PBS_JOBNAME", "LSB_JOBNAME"}, true},
        {CAPO_INFO_NCCL_HOSTID, {"NCCL_HOSTID"}},
        {CAPO_INFO_LAYOUT, {CAPO_ENV_layout}},
        {CAPO_INFO_PROFILE, {CAPO_ENV_profile}},
        {CAPO_INFO_PROFILE_DIGEST, {CAPO_ENV_profile_digest}},
        {CAPO_INFO_ALLOW_MODELLED, {CAPO_ENV_allow_modelled}},
        {CAPO_INFO_NCCL_ALGO, {"NCCL_ALGO"}, true},
        {CAPO_INFO_NCCL_PROTO, {"NCCL_PROTO"}, true},
        {CAPO_INFO_NCCL_TUNER, {"NCCL_TUNER_PLUGIN"}, true},
        {CAPO_INFO_NCCL_PROFILER, {"NCCL_PROFILER_PLUGIN"}, true},
        {CAPO_INFO_NCCL_NET, {"NCCL_NET_PLUGIN"}, true},
        {CAPO_INFO_CUDA_VISIBLE, {"CUDA_VISIBLE_DEVICES"}},
};

long capo_shim_sysfs(const char *dir, const char *name, const char *file, long missing)
{
        char path[PATH_MAX];
        _cleanup_fclose_ FILE *f = NULL;
        long v;

        if (snprintf(path, sizeof path, "%s/%s/%s/%s", capo_shim_env()->sysfs, dir, name, file) >=
            (int)sizeof path)
                return missing;
        f = fopen(path, "re");
        return f && fscanf(f, "%ld", &v) == 1 ? v : missing;
}

static void record_arguments(void)
{
        _cleanup_close_ int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
        char text[3500], line[3500];
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
        size_t (*choose)(const char *, size_t, char *, size_t) =
                strcmp(capo_shim_env()->cmdline, "all") ? capo_safe_args : capo_secret_args;

        while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == 0))
                n--;
        if (n > 0 && choose(text, (size_t)n, line, sizeof line))
                capo_shim_info(CAPO_INFO_CMDLINE, "%s", line);
}

static void from_link(const char *key, const char *path)
{
        char text[3500];
        ssize_t n = readlink(path, text, sizeof text - 1);

        if (n > 0) {
                text[n] = 0;
                capo_shim_info(key, "%s", text);
        }
}

/* The environment is asked on threads of the job alone: a thread of ours could be in the middle of
 * it when the job changes it, which moves and frees what is read (setenv(3)). When the recorder
 * begins, and once more when the first communicator is there: NCCL sets what its files say. */
static struct {
        char text[16384];
        size_t n;
} said, now;

__attribute__((format(printf, 2, 3))) static void put_info(const char *key, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        now.n += capo_info_print(now.text + now.n, sizeof now.text - now.n, key, format, args);
        va_end(args);
}

/* What else may have changed times: a later comparison of logs looks for differences. */
static void put_nccl_settings(void)
{
        static char text[3500];
        size_t used = 0;

        for (char **e = environ; e && *e; e++) {
                size_t n = strlen(*e);

                /* a mask may be longer than a short secret */
                if (strncmp(*e, "NCCL_", 5) || strchr(*e, ' ') || used + n + 32 > sizeof text)
                        continue;
                if (used)
                        text[used++] = ' ';
                used += capo_secret_args(*e, n, text + used, sizeof text - used);
        }
        if (used)
                put_info(CAPO_INFO_NCCL_SETTINGS, "%s", text);
}

static void put_launcher(size_t row, const char *value)
{
        static char masked[3500]; /* the job's stack may be small; its threads come one by one */

        if (launchers[row].masked) {
                capo_secret_args(value, strlen(value), masked, sizeof masked);
                value = masked;
        }
        put_info(launchers[row].key, "%.3500s", value);
}

static long rank = -1;

long capo_launcher_rank(void) { return rank; }

void capo_info_environment(void)
{
        now.n = 0;
        for (size_t i = 0; i < N_ELEMENTS(launchers); i++) {
                for (size_t k = 0; launchers[i].names[k]; k++) {
                        const char *value = getenv(launchers[i].names[k]);

                        if (value && *value) {
                                put_launcher(i, value);
                                if (i == 0)
                                        rank = strtol(value, NULL, 10);
                                if (i < 4) {
                                        char from[32];

                                        snprintf(from, sizeof from, "%s%s", launchers[i].key,
                                                 CAPO_INFO_FROM);
                                        put_info(from, "%s", launchers[i].names[k]);
                                }
                                break;
                        }
                }
        }
        put_nccl_settings();
        if (now.n != said.n || memcmp(now.text, said.text, now.n) != 0)
                capo_shim_text_early(CAPO_FRAME_INFO, now.text, now.n);
        memcpy(said.text, now.text, now.n); /* the rest of it stays out of memory */
        said.n = now.n;
}

void capo_info_fork(void)
{
        said.n = 0;
        rank = -1;
}

void capo_info_write(void)
{
        const struct capo_segment_header *h = capo_seg.header;
        const struct capo_env *env = capo_shim_env();

        capo_shim_info(CAPO_INFO_VERSION, "%s", CAPO_VERSION);
        capo_shim_info(CAPO_INFO_HOST, "%s", h->host);
        capo_shim_info(CAPO_INFO_BOOT_ID, "%s", h->boot_id);
        capo_shim_info(CAPO_INFO_PID, "%d", h->pid);
        capo_shim_info(CAPO_INFO_UID, "%u", h->uid);
        from_link(CAPO_INFO_EXE, "/proc/self/exe");
        if (strcmp(env->cmdline, "none") != 0)
                record_arguments();
        from_link(CAPO_INFO_CWD, "/proc/self/cwd");
        capo_shim_info(CAPO_INFO_START, "%llu",
                       (unsigned long long)h->clock.t0_real_ns); /* ns since 1970 */
        capo_shim_info(CAPO_INFO_CLOCK, "%s", h->clock.counter ? "tsc" : "monotonic");
        capo_shim_info(CAPO_INFO_TRACE, "%s", h->trace_all ? "all" : "last");
        capo_shim_info(CAPO_INFO_FLIGHT, "%u", h->flight_keep);
        capo_shim_info(CAPO_INFO_GPU_SAMPLE, "%lld", (long long)env->gpu_sample);
        capo_shim_info(CAPO_INFO_MEMORY, "%s", capo_seg.fd >= 0 ? "shm" : "private");
}
