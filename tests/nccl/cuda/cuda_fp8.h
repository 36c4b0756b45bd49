/* SPDX-License-Identifier: Apache-2.0 */
/* The types of 8-bit floats, and their conversion on the host. Values are
 * rounded to nearest even, and limited to the largest value of the type. */
#ifndef STANDIN_CUDA_FP8_H
#define STANDIN_CUDA_FP8_H

#include <math.h>

#define __CUDA_FP8_TYPES_EXIST__

typedef unsigned char __nv_fp8_storage_t;

typedef enum __nv_saturation_t {
	__NV_NOSAT,
	__NV_SATFINITE,
} __nv_saturation_t;

typedef enum __nv_fp8_interpretation_t {
	__NV_E4M3,
	__NV_E5M2,
} __nv_fp8_interpretation_t;

static inline float standin_fp8_to_float(__nv_fp8_storage_t bits,
					 __nv_fp8_interpretation_t as)
{
	int fraction = as == __NV_E4M3 ? 3 : 2, bias = as == __NV_E4M3 ? 7 : 15;
	int exponent = (bits & 0x7f) >> fraction;
	int low = bits & ((1 << fraction) - 1);
	float value = ldexpf((float)(exponent ? low + (1 << fraction) : low),
			     (exponent ? exponent : 1) - bias - fraction);

	if (as == __NV_E4M3 && (bits & 0x7f) == 0x7f)
		value = NAN;
	else if (as == __NV_E5M2 && exponent == 31)
		value = low ? NAN : INFINITY;
	return bits & 0x80 ? -value : value;
}

static inline __nv_fp8_storage_t
__nv_cvt_float_to_fp8(float value, __nv_saturation_t saturate,
		      __nv_fp8_interpretation_t as)
{
	int fraction = as == __NV_E4M3 ? 3 : 2, bias = as == __NV_E4M3 ? 7 : 15;
	int most = as == __NV_E4M3 ? 0x7e : 0x7b, exponent, code;
	int sign = signbit(value) ? 0x80 : 0;

	(void)saturate;
	if (isnan(value))
		return (__nv_fp8_storage_t)(sign | 0x7f);
	value = fabsf(value);
	if (value >= standin_fp8_to_float((__nv_fp8_storage_t)most, as))
		return (__nv_fp8_storage_t)(sign | most);
	exponent = value > 0 ? ilogbf(value) : 1 - bias;
	if (exponent < 1 - bias)
		exponent = 1 - bias;
	/* If the value is rounded up to the next power of two, the fraction
	 * overflows into the exponent, which is right. */
	code = (int)nearbyintf(ldexpf(value, fraction - exponent));
	code += (exponent + bias - 1) << fraction;
	return (__nv_fp8_storage_t)(sign | (code > most ? most : code));
}

#ifdef __cplusplus
template <__nv_fp8_interpretation_t as> struct standin_fp8 {
	__nv_fp8_storage_t bits;

	standin_fp8() = default;
	explicit standin_fp8(float value)
	    : bits(__nv_cvt_float_to_fp8(value, __NV_SATFINITE, as))
	{
	}
	explicit operator float() const
	{
		return standin_fp8_to_float(bits, as);
	}
};

typedef standin_fp8<__NV_E4M3> __nv_fp8_e4m3;
typedef standin_fp8<__NV_E5M2> __nv_fp8_e5m2;
#endif

#endif
