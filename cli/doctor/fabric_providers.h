/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

struct capo_fabric_found {
        char names[400];  /* "efa, tcp, shm", in libfabric's order of preference */
        char version[16]; /* "1.22" */
        char path[1024];  /* of the library */
};

/** capo_fabric_providers() - ask libfabric for its providers, in a child process. Return: 0;
 * -ENOENT: no libfabric.so.1; -EIO: it does not answer. */
int capo_fabric_providers(struct capo_fabric_found *found);
