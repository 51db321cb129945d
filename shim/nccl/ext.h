/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of NCCL EP and NCCL M2N (include/capo/nccl_ext_calls.def). An EP group is recorded as a
 * communicator whose parent is the NCCL communicator it was made of. The reshards of an NCCL
 * communicator are recorded on a child of it. */
#pragma once

/** capo_ext_wrapper_of() - the wrapper of row @i for a caller whom dlsym answered with @real; NULL:
 * @real is of a second copy of the library, and stays as it is. */
void *capo_ext_wrapper_of(int i, void *real);
