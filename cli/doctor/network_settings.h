/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/doctor/doctor.h"
#include "cli/doctor/network_devices.h"

/** capo_doctor_network_settings() - find names in NCCL_SOCKET_IFNAME, NCCL_IB_HCA and NCCL_NET that
 * are neither in @d nor interfaces of this machine. */
void capo_doctor_network_settings(struct capo_findings *f, const struct capo_network *d);
