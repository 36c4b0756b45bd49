/* SPDX-License-Identifier: Apache-2.0 */
/* The type __nv_bfloat16, and its conversion on the host. */
#ifndef STANDIN_CUDA_BF16_H
#define STANDIN_CUDA_BF16_H

typedef struct __nv_bfloat16 {
	unsigned short bits;
} __nv_bfloat16;

/* Round to nearest even. NaN stays NaN. */
static inline __nv_bfloat16 __float2bfloat16(float value)
{
	__nv_bfloat16 rounded;
	unsigned int bits;

	__builtin_memcpy(&bits, &value, sizeof(bits));
	if (value != value)
		bits |= 0x400000;
	else
		bits += 0x7fff + (bits >> 16 & 1);
	rounded.bits = (unsigned short)(bits >> 16);
	return rounded;
}

static inline float __bfloat162float(__nv_bfloat16 value)
{
	unsigned int bits = (unsigned int)value.bits << 16;
	float wide;

	__builtin_memcpy(&wide, &bits, sizeof(wide));
	return wide;
}

#endif
