/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled by abi_ext.sh: libcapo.so's own words of NCCL EP and NCCL M2N have the offsets that
 * abi_ext.c finds in their headers. */
#include "shim/nccl/ext_abi.h"

#define AT(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #type " " #field);
#include "abi_ext_fields.def"
