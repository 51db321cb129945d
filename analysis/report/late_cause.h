/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why the rank that others wait for comes late, as far as logs and NVML tell: one definition for
 * capo report and capo hang.
 *
 *   GPU      its clock is below that of the others' GPUs (or, where these are not known, below what
 *            it can do), and something holds it back; or none of the next two, and it is late on
 *            the GPU while its host's calls are not
 *   NETWORK  what it posts to its network takes three times as long to complete as the others' does
 *   HOST     its host's calls come late, too
 */
#ifndef CAPO_JOB_CAUSE_H
#define CAPO_JOB_CAUSE_H

#include "core/base/gpu_clocks.h"
#include "analysis/job/job.h"

enum capo_cause { CAPO_CAUSE_UNKNOWN, CAPO_CAUSE_HOST, CAPO_CAUSE_GPU, CAPO_CAUSE_NETWORK };

struct capo_late_cause {
        enum capo_cause by;
        struct capo_gpu_clocks clocks; /* of its GPU; .looks 0: not known */
        bool now;                      /* these are of this moment, not of the job's log */
        bool throttled;                /* and they are the cause */
        double others_mhz;             /* median of the others'; 0 not known */
        double sends_ns,
                others_sends_ns; /* what it posts takes so long to complete, mean; 0 not known */
};

/* The clocks of @device (CUDA's number) of process @process of @job as they are now. False: nobody
 * can say. */
typedef bool capo_clocks_now(const struct capo_job *job, uint32_t process, int32_t device,
                             struct capo_gpu_clocks *out);

/**
 * capo_late_cause() - why member @late of job->comms[@comm], which has a skew, is late
 * @now: NULL: by the logs alone
 */
struct capo_late_cause capo_late_cause(const struct capo_job *job, uint32_t comm, uint32_t late,
                                       capo_clocks_now *now);

/** capo_cause_name() - "host", "gpu", "network"; NULL of UNKNOWN. */
const char *capo_cause_name(enum capo_cause by);

/** capo_cause_print() - "its GPU is throttled: ..." where the calls alone do not say it, else "".
 */
char *capo_cause_print(const struct capo_late_cause *cause, char *text, size_t room);

#endif
