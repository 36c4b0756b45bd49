/* SPDX-License-Identifier: Apache-2.0 */
/* Beside the functions, what a compiler for devices takes for keywords. */
#ifndef STANDIN_CUDA_RUNTIME_H
#define STANDIN_CUDA_RUNTIME_H

#include "cuda_runtime_api.h"

/* NCCL relies on these being included by the toolkit's. */
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
