/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every type with every operation, of values of which each type holds the
 * result exactly: so nothing is forgiven, and no order of adding matters.
 */
#include <string.h>

#include <nccl.h>

/* The toolkit's are for C++ alone. */
#include "../cuda/cuda_bf16.h"
#include "../cuda/cuda_fp16.h"
#include "../cuda/cuda_fp8.h"
#include "rank.h"

static const struct type {
	const char *name;
	ncclDataType_t type;
	size_t size;
} types[] = {
	{ "int8", ncclInt8, 1 },
	{ "uint8", ncclUint8, 1 },
	{ "int32", ncclInt32, 4 },
	{ "uint32", ncclUint32, 4 },
	{ "int64", ncclInt64, 8 },
	{ "uint64", ncclUint64, 8 },
	{ "half", ncclHalf, 2 },
	{ "bfloat16", ncclBfloat16, 2 },
	{ "float8e4m3", ncclFloat8e4m3, 1 },
	{ "float8e5m2", ncclFloat8e5m2, 1 },
	{ "float", ncclFloat, 4 },
	{ "double", ncclDouble, 8 },
};

static const struct op {
	const char *name;
	ncclRedOp_t op;
} ops[] = {
	{ "sum", ncclSum }, { "prod", ncclProd }, { "max", ncclMax },
	{ "min", ncclMin }, { "avg", ncclAvg },
};

static void put(void *at, ncclDataType_t type, double value)
{
	switch (type) {
	case ncclInt8:
		*(int8_t *)at = (int8_t)value;
		break;
	case ncclUint8:
		*(uint8_t *)at = (uint8_t)value;
		break;
	case ncclInt32:
		*(int32_t *)at = (int32_t)value;
		break;
	case ncclUint32:
		*(uint32_t *)at = (uint32_t)value;
		break;
	case ncclInt64:
		*(int64_t *)at = (int64_t)value;
		break;
	case ncclUint64:
		*(uint64_t *)at = (uint64_t)value;
		break;
	case ncclHalf:
		*(__half *)at = __float2half((float)value);
		break;
	case ncclBfloat16:
		*(__nv_bfloat16 *)at = __float2bfloat16((float)value);
		break;
	case ncclFloat8e4m3:
		*(__nv_fp8_storage_t *)at = __nv_cvt_float_to_fp8(
			(float)value, __NV_SATFINITE, __NV_E4M3);
		break;
	case ncclFloat8e5m2:
		*(__nv_fp8_storage_t *)at = __nv_cvt_float_to_fp8(
			(float)value, __NV_SATFINITE, __NV_E5M2);
		break;
	case ncclFloat:
		*(float *)at = (float)value;
		break;
	default:
		*(double *)at = value;
	}
}

/* Ones and twos, and where there is a sign, their negatives. */
static double value_of(const struct type *t, size_t i, int rank)
{
	double value = (double)(1 + (i + (size_t)rank) % 2);
	bool has_sign = t->type != ncclUint8 && t->type != ncclUint32 &&
			t->type != ncclUint64;

	return has_sign && (i / 3 + (size_t)rank) % 2 ? -value : value;
}

static double combine(ncclRedOp_t op, double a, double b)
{
	switch (op) {
	case ncclProd:
		return a * b;
	case ncclMax:
		return a > b ? a : b;
	case ncclMin:
		return a < b ? a : b;
	default:
		return a + b;
	}
}

/* With a whole number for a result: all ranks have what rank 0 has. */
static int source_of(ncclRedOp_t op, int rank)
{
	return op == ncclAvg ? 0 : rank;
}

static void once(struct rank *r, const struct type *t, const struct op *o,
		 size_t count)
{
	char *in = device_alloc(r, count * t->size);
	char *out = device_alloc(r, count * t->size);

	for (size_t i = 0; i < count; i++)
		put(in + i * t->size, t->type,
		    value_of(t, i, source_of(o->op, r->rank)));
	memset(out, 0xa5, count * t->size);
	NCCL(r,
	     ncclAllReduce(in, out, count, t->type, o->op, r->comm, r->stream));
	stream_wait(r, r->comm, r->stream, "all-reduce");
	for (size_t i = 0; i < count; i++) {
		double want = value_of(t, i, source_of(o->op, 0));
		char bytes[8] = { 0 };

		for (int k = 1; k < r->n; k++)
			want = combine(o->op, want,
				       value_of(t, i, source_of(o->op, k)));
		if (o->op == ncclAvg)
			want /= r->n;
		put(bytes, t->type, want);
		if (memcmp(bytes, out + i * t->size, t->size))
			fail(r, "%s of %zu %s: at %zu it is not %g", o->name,
			     count, t->name, i, want);
	}
	device_free(r, in);
	device_free(r, out);
}

/* A factor of the user's own, of the host's memory and of the device's. */
static void scaled(struct rank *r, ncclScalarResidence_t where)
{
	size_t count = 5000;
	float *in = device_alloc(r, count * sizeof(float));
	float *out = device_alloc(r, count * sizeof(float));
	float *factor = device_alloc(r, sizeof(float));
	ncclRedOp_t op;

	*factor = 4;
	for (size_t i = 0; i < count; i++)
		in[i] = number(i, r->rank, 0) / 4;
	NCCL(r,
	     ncclRedOpCreatePreMulSum(&op, factor, ncclFloat, where, r->comm));
	NCCL(r,
	     ncclAllReduce(in, out, count, ncclFloat, op, r->comm, r->stream));
	stream_wait(r, r->comm, r->stream, "scaled sum");
	verify_sum(r, "scaled sum", out, count, 0, r->n, 0);
	NCCL(r, ncclRedOpDestroy(op, r->comm));
	device_free(r, factor);
	device_free(r, in);
	device_free(r, out);
}

void test_types(struct rank *r)
{
	static const size_t counts[] = { 1, 7, 4099, 70001 };

	for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++)
		for (size_t o = 0; o < sizeof(ops) / sizeof(ops[0]); o++)
			for (size_t c = 0; c < sizeof(counts) / sizeof(*counts);
			     c++)
				once(r, &types[t], &ops[o], counts[c]);
	scaled(r, ncclScalarHostImmediate);
	scaled(r, ncclScalarDevice);
	say(r, "%zu types, %zu operations", sizeof(types) / sizeof(types[0]),
	    sizeof(ops) / sizeof(ops[0]));
}
