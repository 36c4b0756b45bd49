// SPDX-License-Identifier: Apache-2.0
// Functions of the driver. NCCL looks them up by name. Virtual memory,
// multicast, and operations of streams on memory are missing. NCCL works
// without them.
#include "launch.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

namespace
{

CUresult error_text(CUresult error, const char **text)
{
	*text = cudaGetErrorString((cudaError_t)error);
	return CUDA_SUCCESS;
}

CUresult device_get(CUdevice *device, int ordinal)
{
	if (ordinal < 0 || ordinal >= standin::device_count())
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

CUresult device_get_attribute(int *value, CUdevice_attribute attr, CUdevice)
{
	*value = standin::device_attribute(attr);
	return CUDA_SUCCESS;
}

// Return a context for each device of each node.
CUresult device_get_uuid(CUuuid *uuid, CUdevice device)
{
	const char *node = getenv("NCCL_HOSTID");

	memset(uuid, 0, sizeof(*uuid));
	snprintf(uuid->bytes, sizeof(uuid->bytes), "%.7s%.8s",
		 standin::device_bus(device).c_str() + strlen("0000:"),
		 node ? node : "");
	return CUDA_SUCCESS;
}

// Contexts have no effect here: only the device of a thread matters.
CUcontext context()
{
	static char only;

	return (CUcontext)&only;
}

CUresult context_create(CUcontext *made, void *, int, unsigned int, CUdevice)
{
	*made = context();
	return CUDA_SUCCESS;
}

CUresult context_destroy(CUcontext)
{
	return CUDA_SUCCESS;
}

CUresult context_get(CUcontext *current)
{
	*current = context();
	return CUDA_SUCCESS;
}

CUresult context_set(CUcontext)
{
	return CUDA_SUCCESS;
}

CUresult context_device(CUdevice *device)
{
	*device = standin::device_current();
	return CUDA_SUCCESS;
}

CUresult address_range(CUdeviceptr *begin, size_t *size, CUdeviceptr address)
{
	standin::Range range;

	if (!standin::memory_find((void *)address, &range))
		return CUDA_ERROR_NOT_FOUND;
	if (begin)
		*begin = range.begin;
	if (size)
		*size = range.size;
	return CUDA_SUCCESS;
}

CUresult pointer_attribute(void *value, CUpointer_attribute attr,
			   CUdeviceptr address)
{
	standin::Range range = {};
	bool known = standin::memory_find((void *)address, &range);

	switch (attr) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		if (!known)
			return CUDA_ERROR_INVALID_VALUE;
		*(CUmemorytype *)value =
			range.kind == standin::Kind::device ||
					range.kind == standin::Kind::opened
				? CU_MEMORYTYPE_DEVICE
				: CU_MEMORYTYPE_HOST;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)value = known ? range.device : -2;
		break;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(int *)value = known && range.kind == standin::Kind::device;
		break;
	default:
		*(int *)value = 0;
	}
	return CUDA_SUCCESS;
}

CUresult granularity(size_t *bytes, const CUmemAllocationProp *,
		     CUmemAllocationGranularity_flags)
{
	*bytes = 2 << 20;
	return CUDA_SUCCESS;
}

CUresult export_handle(void *handle, CUdeviceptr begin, size_t size,
		       CUmemRangeHandleType type, unsigned long long)
{
	if (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD)
		return CUDA_ERROR_NOT_SUPPORTED;
	return standin::export_range((int *)handle, begin, size);
}

} // namespace

void *standin::driver_function(const std::string &name)
{
	static const std::map<std::string, void *> functions = {
		{ "cuGetErrorString", (void *)error_text },
		{ "cuGetErrorName", (void *)error_text },
		{ "cuDeviceGet", (void *)device_get },
		{ "cuDeviceGetAttribute", (void *)device_get_attribute },
		{ "cuDeviceGetUuid", (void *)device_get_uuid },
		{ "cuCtxCreate", (void *)context_create },
		{ "cuCtxDestroy", (void *)context_destroy },
		{ "cuCtxGetCurrent", (void *)context_get },
		{ "cuCtxSetCurrent", (void *)context_set },
		{ "cuCtxGetDevice", (void *)context_device },
		{ "cuMemGetAddressRange", (void *)address_range },
		{ "cuMemGetAllocationGranularity", (void *)granularity },
		{ "cuMemGetHandleForAddressRange", (void *)export_handle },
		{ "cuPointerGetAttribute", (void *)pointer_attribute },
		{ "cuLaunchKernel", (void *)launch_kernel },
		{ "cuLaunchKernelEx", (void *)launch_kernel_ex },
	};
	auto found = functions.find(name);

	return found == functions.end() ? nullptr : found->second;
}
