/* SPDX-License-Identifier: Apache-2.0 */
/* What CUDA's headers want of their compiler's header of this name, which their package does not
 * bring; for gcc. */
#pragma once

#define CUDARTAPI
#define CUDARTAPI_CDECL
#define CUDACB
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __forceinline__ inline
#define __no_return__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __align__(n)         __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __specialization_static
#define __location__(a) a
