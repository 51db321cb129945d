/* SPDX-License-Identifier: Apache-2.0 */
/* What dlsym.c needs of the libfabric half, without libfabric's headers. */
#pragma once

#include <stdbool.h>

/** capo_fi_wrapped() - is @name one of libfabric's that we wrap? Calls nothing but strcmp(). */
bool capo_fi_wrapped(const char *name);

/**
 * capo_fi_wrapper_of() - our wrapper of libfabric's @name, for a caller that asked a handle for it,
 * in @version (NULL: the default one), and got @real
 * Return: NULL when that version is not wrapped, or when the wrapper would go on to another copy of libfabric than @real's.
 */
void *capo_fi_wrapper_of(const char *name, const char *version, const void *real);
