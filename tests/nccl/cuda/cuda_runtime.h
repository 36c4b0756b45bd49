/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the CUDA runtime API, and the keywords of a device
 * compiler. */
#ifndef STANDIN_CUDA_RUNTIME_H
#define STANDIN_CUDA_RUNTIME_H

#include "cuda_runtime_api.h"

/* NCCL relies on the toolkit's header to include the headers below. */
#include <assert.h>
#include <limits.h>
#include <string.h>
#include <strings.h>
#ifdef __cplusplus
#include <limits>
#endif

#define __host__
#define __device__
#define __global__
#define __shared__
#define __forceinline__ inline
#define __align__(n) __attribute__((aligned(n)))

#endif
