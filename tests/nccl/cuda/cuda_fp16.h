/* SPDX-License-Identifier: Apache-2.0 */
/* The type __half, and its conversion on the host. */
#ifndef STANDIN_CUDA_FP16_H
#define STANDIN_CUDA_FP16_H

typedef struct __half {
	unsigned short bits;
} __half;

typedef __half half;

/* gcc rounds to nearest even, as the toolkit does. */
static inline __half __float2half(float value)
{
	_Float16 rounded = (_Float16)value;
	__half made;

	__builtin_memcpy(&made.bits, &rounded, sizeof(made.bits));
	return made;
}

static inline float __half2float(__half from)
{
	_Float16 value;

	__builtin_memcpy(&value, &from.bits, sizeof(value));
	return (float)value;
}

#endif
