/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's releases as X*10000 + Y*100 + Z (NCCL_VERSION_CODE since 2.9), 0 where not known. */
#pragma once

#include "core/base/util.h"

#define CAPO_NCCL_LAST 999999 /* "still" */

/** capo_nccl_code() - the number of what ncclGetVersion or NCCL_VERSION_CODE says: up to 2.8 that
 * was X*1000 + Y*100 + Z. 0 for 0 and what is below. */
int capo_nccl_code(int said);

/** capo_nccl_parse() - a release as people and programs write it: "2.28.9"; "2.28", all of 2.28
 * @first, @last: the releases it covers, equal where it names one; set only on success
 * @end: NULL: nothing may follow. Else set to what follows ("+cuda13.1")
 *
 * Return: 0; -EINVAL: not a release. */
int capo_nccl_parse(const char *text, int *first, int *last, const char **end);

/** capo_nccl_named() - a release by name: 22902 of "2.29.2" and "2.29.2+cuda13.1"; 0: none. */
int capo_nccl_named(const char *text);

/** capo_nccl_text() - "2.29.2" of 22902 and, read in the old way, "2.7.8" of 2708; "?" of 0. @text:
 * at least 16 bytes. Returns @text. */
char *capo_nccl_text(uint32_t version, char *text, size_t room);

/** capo_nccl_strange() - @name is exported by a libnccl: a function of NCCL's that this capo does
 * not know? If so it goes behind the others in @list, "ncclA, ncclB" (once; where @room ends, "..."
 * stands for the rest). */
void capo_nccl_strange(char *list, size_t room, const char *name);

/** capo_tuner_abi_asked() - does release @version look for that version of the tuner interface?
 * capo_tuner_abi_since() - the first that does. include/capo/plugin_abis.def lists them. */
bool capo_tuner_abi_asked(int version, int abi);
int capo_tuner_abi_since(int abi);
