// SPDX-License-Identifier: Apache-2.0
// Launches. There is only one kernel, kernel/kernel.hpp. Its arguments
// determine what it does.
#include "launch.hpp"
#include "kernel.hpp"

#include <cstring>

namespace
{

// The arguments come as one buffer in the "extra" of a launch.
bool arguments(void **extra, const char **buffer, size_t *size)
{
	*buffer = nullptr;
	*size = 0;
	if (!extra)
		return false;
	for (void **option = extra; *option != CU_LAUNCH_PARAM_END;
	     option += 2) {
		if (option[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			*buffer = (const char *)option[1];
		else if (option[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
			*size = *(size_t *)option[1];
	}
	return *buffer && *size;
}

// The arguments are aligned as on a device.
struct Copy {
	struct Line {
		alignas(64) char bytes[64];
	};
	std::vector<Line> lines;

	Copy(const char *from, size_t size) : lines((size + 63) / 64)
	{
		memcpy(lines.data(), from, size);
	}
};

CUresult launch(CUstream stream, void **extra)
{
	const char *buffer;
	size_t size;

	if (!arguments(extra, &buffer, &size))
		standin::not_done("a launch without a buffer of arguments");
	auto args = std::make_shared<Copy>(buffer, size);
	standin::stream_add(stream,
			    [args] { kernel::run(args->lines.data()); });
	return CUDA_SUCCESS;
}

} // namespace

CUresult standin::launch_kernel(CUfunction, unsigned int, unsigned int,
				unsigned int, unsigned int, unsigned int,
				unsigned int, unsigned int, CUstream stream,
				void **, void **extra)
{
	return launch(stream, extra);
}

CUresult standin::launch_kernel_ex(const CUlaunchConfig *config, CUfunction,
				   void **, void **extra)
{
	CUresult result = launch(config->hStream, extra);

	for (unsigned int i = 0; i < config->numAttrs; i++) {
		const CUlaunchAttribute &attr = config->attrs[i];

		// Blocks are threads, so they need no resources of a device.
		if (attr.id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
			event_happened(attr.value.launchCompletionEvent.event);
	}
	return result;
}

STANDIN_API cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr,
					      const void *)
{
	*attr = {};
	attr->numRegs = 96;
	attr->maxThreadsPerBlock = 1024;
	attr->binaryVersion = attr->ptxVersion = 90;
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaFuncSetAttribute(const void *,
					     enum cudaFuncAttribute, int)
{
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaGetFuncBySymbol(cudaFunction_t *function,
					    const void *symbol)
{
	*function = (cudaFunction_t)symbol;
	return cudaSuccess;
}
