/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of doctor besides the command: this machine and its environment. */
#include <stdio.h>

#include "cli/base/install_paths.h"
#include "cli/doctor/doctor.h"

int capo_doctor_node(struct capo_findings *f, const struct capo_reach *reach)
{
        char own[4096];
        int gpus;

        if (cli_where("tuner/libnccl-tuner-capo.so", CAPO_LIBDIR "/libnccl-tuner-capo.so", own,
                      sizeof own))
                snprintf(own, sizeof own, "/.../libnccl-tuner-capo.so");
        capo_doctor_plugins(f, reach->version, own);
        capo_doctor_settings(f, reach);
        capo_doctor_bugs(f, reach->version);
        gpus = capo_doctor_gpus(f, reach);
        capo_doctor_network(f);
        capo_doctor_host(f);
        capo_doctor_recording(f, gpus);
        return gpus;
}
