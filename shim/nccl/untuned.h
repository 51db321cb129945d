/* SPDX-License-Identifier: Apache-2.0 */
/* That NCCL loads this tuner where `capo run` set it up, and a warning where it did not. */
#pragma once

#include <stdint.h>

/** capo_untuned_prevent() - before an NCCL of release @version (X*10000+Y*100+Z) reads its
 * settings: one that takes plugins by name only (nccl_facts.def, PLUGIN_NO_PATH) gets the name of
 * this library in place of its path. Shortens the value in the environment. */
void capo_untuned_prevent(int version);

/** capo_untuned_loaded() - the tuner here was asked to open a communicator. Any thread. */
void capo_untuned_loaded(void);

/** capo_untuned_check() - a communicator of @n_ranks, of an NCCL of release @version, is ready for
 * calls: warns once per process when a profile or a sweep is set and NCCL has not asked the tuner,
 * whatever the reason, and prints the setting that this release takes. */
void capo_untuned_check(uint32_t n_ranks, int version);
