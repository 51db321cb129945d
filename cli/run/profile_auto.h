/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

struct capo_fault;

/** capo_profile_auto() - the stored profile for this machine, for `--profile auto`
 * @shipped: as for capo_profile_find()
 * @gpus: folder with one folder per GPU, as the driver makes; NULL: /proc/driver/nvidia/gpus
 * @platform: the machine as the user named it; NULL: not named. A profile whose "platform" names a
 * "machine" (predicted ones do) fits only that machine
 * @path: set on success
 * @fault: names the GPU that was searched for, or profiles that fit equally well
 *
 * The folders are searched in the order user, site, shipped. A profile fits if its "platform" names
 * a "gpu" that is part of the driver's model name (case, '-' and ' ' ignored), and its
 * "gpus_per_node", if given, is this machine's number. The first folder with a fit decides; of
 * several fits in it, the first file name.
 *
 * capo run does this once before the job: ranks get a path and a digest, never the word auto.
 *
 * Return: 0; -ENODEV: no NVIDIA GPU here; -ENOENT: no stored profile fits. */
int capo_profile_auto(const char *shipped, const char *gpus, const char *platform, char *path,
                      size_t room, struct capo_fault *fault);
