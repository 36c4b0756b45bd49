// SPDX-License-Identifier: Apache-2.0
// Errors. Each thread has its own last error.
#include "standin.hpp"

#include <cstdio>
#include <unistd.h>

namespace
{
thread_local cudaError_t last = cudaSuccess;
}

cudaError_t standin::fail(cudaError_t error)
{
	last = error;
	return error;
}

void standin::not_done(const std::string &what)
{
	fprintf(stderr, "stand-in: %s is not supported\n", what.c_str());
	fflush(stderr);
	_exit(99);
}

STANDIN_API cudaError_t cudaGetLastError()
{
	cudaError_t error = last;

	last = cudaSuccess;
	return error;
}

STANDIN_API cudaError_t cudaPeekAtLastError()
{
	return last;
}

STANDIN_API const char *cudaGetErrorString(cudaError_t error)
{
	static thread_local char text[48];

	snprintf(text, sizeof(text), "CUDA error %d of the stand-in", error);
	return text;
}

STANDIN_API const char *cudaGetErrorName(cudaError_t error)
{
	return cudaGetErrorString(error);
}
