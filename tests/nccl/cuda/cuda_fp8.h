/* SPDX-License-Identifier: Apache-2.0 */
/* The types alone: 8 bits, of which only devices know the arithmetic. */
#ifndef STANDIN_CUDA_FP8_H
#define STANDIN_CUDA_FP8_H

typedef struct __nv_fp8_e4m3 {
	unsigned char bits;
} __nv_fp8_e4m3;

typedef struct __nv_fp8_e5m2 {
	unsigned char bits;
} __nv_fp8_e5m2;

#endif
