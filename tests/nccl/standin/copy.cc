// SPDX-License-Identifier: Apache-2.0
// Copies, and memory that is allocated and freed in the order of a stream.
#include "standin.hpp"

#include <cstring>

STANDIN_API cudaError_t cudaMemcpy(void *to, const void *from, size_t size,
				   enum cudaMemcpyKind)
{
	standin::stream_drain(nullptr);
	memmove(to, from, size);
	return cudaSuccess;
}

// Memory that is not from CUDA may be freed before the stream runs, so copy it
// immediately.
STANDIN_API cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size,
					enum cudaMemcpyKind,
					cudaStream_t stream)
{
	standin::Range range;

	if (standin::memory_find(from, &range)) {
		standin::stream_add(
			stream, [=] { memmove(to, from, size); }, true);
		return cudaSuccess;
	}
	std::vector<char> staged((const char *)from, (const char *)from + size);
	standin::stream_add(
		stream,
		[to, staged = std::move(staged)] {
			memcpy(to, staged.data(), staged.size());
		},
		true);
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaMemset(void *device, int byte, size_t size)
{
	standin::stream_drain(nullptr);
	memset(device, byte, size);
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaMemsetAsync(void *device, int byte, size_t size,
					cudaStream_t stream)
{
	standin::stream_add(
		stream, [=] { memset(device, byte, size); }, true);
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaMallocAsync(void **device, size_t size,
					cudaStream_t)
{
	return cudaMalloc(device, size);
}

STANDIN_API cudaError_t cudaMallocFromPoolAsync(void **device, size_t size,
						cudaMemPool_t, cudaStream_t)
{
	return cudaMalloc(device, size);
}

STANDIN_API cudaError_t cudaFreeAsync(void *device, cudaStream_t stream)
{
	standin::stream_add(
		stream, [=] { standin::memory_free(device); }, true);
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool,
					  const struct cudaMemPoolProps *)
{
	static char only;

	*pool = (cudaMemPool_t)&only;
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaMemPoolDestroy(cudaMemPool_t)
{
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t,
						enum cudaMemPoolAttr, void *)
{
	return cudaSuccess;
}
