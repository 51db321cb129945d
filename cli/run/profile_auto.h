/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPO_PROFILE_AUTO_H
#define CAPO_PROFILE_AUTO_H

#include <stddef.h>

struct capo_fault;

/**
 * capo_profile_auto() - the stored profile for this machine, for `--profile auto`
 * @shipped: as for capo_profile_find()
 * @gpus:    folder with one folder per GPU as the driver shows them; NULL: /proc/driver/nvidia/gpus
 * @platform: what the machine is, by the user; NULL not told. A profile whose "platform" names a
 *           "machine", as predicted ones do, fits that machine and no other
 * @path:    set on success
 * @fault:   says which GPU was looked for, or which profiles fit equally
 *
 * The folders are searched in order, user, site, shipped; in each, a profile fits when its
 * "platform" names a "gpu" that is part of the driver's model name (case, '-' and ' ' ignored) and
 * its "gpus_per_node", when given, is this machine's number. The first folder with a fit decides;
 * the file names' order settles more than one.
 *
 * This is done once, by capo run, before the job: ranks get a path and a digest, never the word
 * auto.
 *
 * Return: 0; -ENODEV no NVIDIA GPU here; -ENOENT no stored profile fits.
 */
int capo_profile_auto(const char *shipped, const char *gpus, const char *platform, char *path,
                      size_t room, struct capo_fault *fault);

#endif
