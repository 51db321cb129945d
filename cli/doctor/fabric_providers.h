/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPO_FABRIC_PROVIDERS_H
#define CAPO_FABRIC_PROVIDERS_H

#include <stddef.h>

/**
 * capo_fabric_providers() - list libfabric's providers, in a child process
 * @names: "efa, tcp, shm", in libfabric's order of preference
 *
 * Return: 0; -ENOENT: no libfabric.so.1; -EIO: it does not answer.
 */
int capo_fabric_providers(char *names, size_t room);

#endif
