// SPDX-License-Identifier: Apache-2.0
#include "reduce.hpp"
#include "device.h"

#include <cmath>
#include <cstring>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

namespace
{

using kernel::Reduction;

// An element as what is computed with, and back: a GPU adds short floats as longer ones.
template <class T> T wide(T value)
{
	return value;
}

float wide(__half value)
{
	return __half2float(value);
}

float wide(__nv_bfloat16 value)
{
	return __bfloat162float(value);
}

float wide(__nv_fp8_e4m3 value)
{
	return (float)value;
}

float wide(__nv_fp8_e5m2 value)
{
	return (float)value;
}

template <class T, class W> T narrow(W value)
{
	if constexpr (std::is_same_v<T, __half>)
		return __float2half(value);
	else if constexpr (std::is_same_v<T, __nv_bfloat16>)
		return __float2bfloat16(value);
	else
		return (T)value;
}

template <class T> using Wide = decltype(wide(T()));

template <class T> T scalar(uint64_t arg)
{
	T value;

	memcpy(&value, &arg, sizeof(value));
	return value;
}

// Integers of 32 bits and more add and multiply as unsigned ones do.
template <class T, class Op>
void each(void *out, const void *a, const void *b, size_t n, Op op)
{
	T *to = (T *)out;
	const T *x = (const T *)a, *y = (const T *)b;

	for (size_t i = 0; i < n; i++)
		to[i] = narrow<T>(op(wide(x[i]), wide(y[i])));
}

template <class T>
void sum(void *out, const void *a, const void *b, size_t n, uint64_t)
{
	each<T>(out, a, b, n, [](Wide<T> x, Wide<T> y) { return x + y; });
}

template <class T>
void prod(void *out, const void *a, const void *b, size_t n, uint64_t)
{
	each<T>(out, a, b, n, [](Wide<T> x, Wide<T> y) { return x * y; });
}

// For integers the argument is a mask that turns minimum of unsigned ones into
// what was asked for; for the rest, it is even for the minimum.
template <class T>
void min_max(void *out, const void *a, const void *b, size_t n, uint64_t arg)
{
	each<T>(out, a, b, n, [arg](Wide<T> x, Wide<T> y) -> Wide<T> {
		if constexpr (std::is_integral_v<T>)
			return (x ^ (T)arg) < (y ^ (T)arg) ? x : y;
		else if (arg & 1)
			return std::fmax(x, y);
		else
			return std::fmin(x, y);
	});
}

template <class T> void scale(void *out, const void *in, size_t n, uint64_t arg)
{
	T *to = (T *)out;
	const T *from = (const T *)in;
	Wide<T> by = wide(scalar<T>(arg));

	for (size_t i = 0; i < n; i++)
		to[i] = narrow<T>(wide(from[i]) * by);
}

// The argument: the divisor, times two, plus one if the elements have a sign.
template <class T>
void divide(void *out, const void *in, size_t n, uint64_t arg)
{
	T *to = (T *)out;
	const T *from = (const T *)in;

	if constexpr (std::is_integral_v<T>) {
		using Signed = std::make_signed_t<T>;
		for (size_t i = 0; i < n; i++)
			to[i] = arg & 1 ? (T)((Signed)from[i] /
					      (Signed)(arg >> 1))
					: (T)(from[i] / (T)(arg >> 1));
	}
}

template <class T> bool find(int op, Reduction *r)
{
	*r = { sizeof(T), sum<T>, nullptr, nullptr, 0 };
	switch (op) {
	case ncclDevSum:
		return true;
	case ncclDevProd:
		r->reduce = prod<T>;
		return true;
	case ncclDevMinMax:
		r->reduce = min_max<T>;
		return true;
	case ncclDevPreMulSum:
		r->before = scale<T>;
		return true;
	case ncclDevSumPostDiv:
		r->after = divide<T>;
		return std::is_integral_v<T>;
	}
	return false;
}

} // namespace

bool kernel::reduction_find(int op, int type, Reduction *reduction)
{
	switch (type) {
	case ncclInt8:
	case ncclUint8:
		return find<uint8_t>(op, reduction);
	case ncclInt32:
	case ncclUint32:
		return find<uint32_t>(op, reduction);
	case ncclInt64:
	case ncclUint64:
		return find<uint64_t>(op, reduction);
	case ncclFloat16:
		return find<__half>(op, reduction);
	case ncclBfloat16:
		return find<__nv_bfloat16>(op, reduction);
	case ncclFloat8e4m3:
		return find<__nv_fp8_e4m3>(op, reduction);
	case ncclFloat8e5m2:
		return find<__nv_fp8_e5m2>(op, reduction);
	case ncclFloat32:
		return find<float>(op, reduction);
	case ncclFloat64:
		return find<double>(op, reduction);
	}
	return false;
}

kernel::Reduction kernel::reduction_none()
{
	return { 1, nullptr, nullptr, nullptr, 0 };
}

uint64_t kernel::reduction_load_arg(const void *pointer, size_t element)
{
	uint64_t arg = 0;

	memcpy(&arg, pointer, element);
	return arg;
}
