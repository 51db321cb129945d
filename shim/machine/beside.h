/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/** capo_beside_look() - write INFO libraries.beside if a library that moves data beside NCCL has
 * been mapped since the last look. */
void capo_beside_look(void);
void capo_beside_fork(void);
