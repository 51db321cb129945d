/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPO_FABRIC_PROVIDERS_H
#define CAPO_FABRIC_PROVIDERS_H

#include <stddef.h>

/**
 * capo_fabric_providers() - libfabric's providers here, asked in a child
 * @names: "efa, tcp, shm", in the order that libfabric prefers them
 *
 * Return: 0; -ENOENT there is no libfabric.so.1; -EIO it does not answer.
 */
int capo_fabric_providers(char *names, size_t room);

#endif
