/* SPDX-License-Identifier: Apache-2.0 */
/* Why the rank that others wait for is late, from logs and NVML; the same definition for capo
 * report and capo hang.
 *
 *   GPU      its clock is below that of the others' GPUs (or below its own maximum, if those are
 *            not known) and something limits it; or none of the next two applies, and it is late
 *            on the GPU but not on its host
 *   NETWORK  its network operations take three times as long to complete as the others'
 *   HOST     its host's calls are late too */
#pragma once

#include "core/base/gpu_clocks.h"
#include "analysis/job/job.h"

enum capo_cause { CAPO_CAUSE_UNKNOWN, CAPO_CAUSE_HOST, CAPO_CAUSE_GPU, CAPO_CAUSE_NETWORK };

struct capo_late_cause {
        enum capo_cause by;
        struct capo_gpu_clocks clocks;    /* of its GPU; .samples 0: not known */
        bool now;                         /* they were read now, not from the log */
        bool throttled;                   /* they are the cause */
        double others_mhz;                /* median of the others' clocks; 0 not known */
        double sends_ns, others_sends_ns; /* mean time to complete its network operations, and the
                                             others'; 0 not known */
};

/* Read the current clocks of @device (CUDA's number) of process @process of @job. False: not known.
 */
typedef bool capo_clocks_now(const struct capo_job *job, uint32_t process, int32_t device,
                             struct capo_gpu_clocks *out);

/** capo_late_cause() - why member @late of job->comms[@comm], which must have a skew, is late
 * @now: NULL: use only the logs */
struct capo_late_cause capo_late_cause(const struct capo_job *job, uint32_t comm, uint32_t late,
                                       capo_clocks_now *now);

/** capo_cause_name() - "host", "gpu", "network"; NULL for UNKNOWN. */
const char *capo_cause_name(enum capo_cause by);

/** capo_cause_print() - "its GPU is throttled: ..." if the calls alone do not show it, else "". */
char *capo_cause_print(const struct capo_late_cause *cause, char *text, size_t room);
