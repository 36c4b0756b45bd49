// SPDX-License-Identifier: Apache-2.0
// Devices. The environment defines the devices:
//
//   STANDIN_GPUS    PCI addresses of the devices that this process sees,
//                   separated by commas
//   STANDIN_SM      compute capability, such as 90; up to 80 NCCL flushes the
//                   data that the network wrote
//   STANDIN_DMABUF  0 means that memory of devices cannot be exported
#include "standin.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <strings.h>

namespace
{

std::vector<std::string> read_devices()
{
	const char *list = getenv("STANDIN_GPUS");
	std::istringstream names(list ? list : "0000:10:00.0");
	std::vector<std::string> devices;

	for (std::string name; getline(names, name, ',');)
		devices.push_back(name);
	return devices;
}

const std::vector<std::string> &devices()
{
	static const std::vector<std::string> all = read_devices();

	return all;
}

int capability()
{
	static const char *text = getenv("STANDIN_SM");

	return text ? atoi(text) : 90;
}

bool exports()
{
	static const char *text = getenv("STANDIN_DMABUF");

	return !text || strcmp(text, "0");
}

thread_local int current;

} // namespace

int standin::device_count()
{
	return (int)devices().size();
}

int standin::device_current()
{
	return current;
}

const std::string &standin::device_bus(int device)
{
	return devices().at(device);
}

int standin::device_attribute(int attribute)
{
	switch (attribute) {
	case cudaDevAttrComputeCapabilityMajor:
		return capability() / 10;
	case cudaDevAttrComputeCapabilityMinor:
		return capability() % 10;
	case cudaDevAttrMultiProcessorCount:
		return 132;
	case cudaDevAttrMaxThreadsPerBlock:
		return 1024;
	case cudaDevAttrMaxSharedMemoryPerBlockOptin:
		return 232448;
	case cudaDevAttrUnifiedAddressing:
		return 1;
	case cudaDevAttrGPUDirectRDMASupported:
	case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
		return exports();
	default:
		return 0;
	}
}

STANDIN_API cudaError_t cudaRuntimeGetVersion(int *version)
{
	*version = CUDART_VERSION;
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaDriverGetVersion(int *version)
{
	*version = CUDART_VERSION;
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaGetDeviceCount(int *count)
{
	*count = standin::device_count();
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaGetDevice(int *device)
{
	*device = current;
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaSetDevice(int device)
{
	if (device < 0 || device >= standin::device_count())
		return standin::fail(cudaErrorInvalidDevice);
	current = device;
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaDeviceGetAttribute(int *value,
					       enum cudaDeviceAttr attr, int)
{
	*value = standin::device_attribute(attr);
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int device)
{
	if (device < 0 || device >= standin::device_count())
		return standin::fail(cudaErrorInvalidDevice);
	snprintf(id, size, "%s", standin::device_bus(device).c_str());
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id)
{
	for (int i = 0; i < standin::device_count(); i++) {
		if (!strcasecmp(standin::device_bus(i).c_str(), id)) {
			*device = i;
			return cudaSuccess;
		}
	}
	return standin::fail(cudaErrorInvalidDevice);
}

STANDIN_API cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop,
						int device)
{
	unsigned domain, bus, slot;

	if (device < 0 || device >= standin::device_count())
		return standin::fail(cudaErrorInvalidDevice);
	*prop = {};
	snprintf(prop->name, sizeof(prop->name), "CPU as a GPU");
	prop->major = capability() / 10;
	prop->minor = capability() % 10;
	prop->multiProcessorCount = 132;
	prop->warpSize = 32;
	prop->totalGlobalMem = (size_t)16 << 30;
	if (sscanf(standin::device_bus(device).c_str(), "%x:%x:%x", &domain,
		   &bus, &slot) == 3) {
		prop->pciDomainID = (int)domain;
		prop->pciBusID = (int)bus;
		prop->pciDeviceID = (int)slot;
	}
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaDeviceSetLimit(enum cudaLimit, size_t)
{
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	*can = device != peer;
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaDeviceEnablePeerAccess(int, unsigned int)
{
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaDeviceSynchronize()
{
	standin::stream_drain_all();
	return cudaSuccess;
}

STANDIN_API cudaError_t
cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long,
			enum cudaDriverEntryPointQueryResult *result)
{
	*function = standin::driver_function(symbol);
	if (result)
		*result = *function ? cudaDriverEntryPointSuccess
				    : cudaDriverEntryPointSymbolNotFound;
	return cudaSuccess;
}
