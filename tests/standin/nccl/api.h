/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's functions: check what was asked, then hand it to the files that do it. Bodies carry the
 * pncclX names; the ncclX names are weak aliases of them at the end of each file, as in NCCL's own
 * library. Where NCCL calls one of its public functions from another (and so through a preloaded
 * library), this does as well: ncclBcast -> ncclBroadcast, ncclCommInitAll -> ncclGetUniqueId,
 * ncclCommInitRankConfig and ncclCommFinalize -> ncclCommGetAsyncError.
 *
 * At the end of a file STANDIN_PART says which rows of standin_nccl.def it has the bodies of: an
 * alias must stand where its function does.
 */
#pragma once

#include "std.h"

#define API                               __attribute__((visibility("default")))
#define NCCL(result, name, since, params) API __typeof__(nccl##name) pnccl##name;
#include "standin_nccl.def"
