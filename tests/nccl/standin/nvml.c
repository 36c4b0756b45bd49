/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A replacement for libnvidia-ml.so.1, which NCCL opens. The replacement has
 * the devices of STANDIN_GPUS (see device.cc), all of which can reach each
 * other. NCCL gets links and fabrics from its topology file, so functions about
 * these return "not supported".
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define API __attribute__((visibility("default")))

enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NOT_FOUND = 6,
};

/* The handle of a device is its number, counted from 1. */
typedef void *nvmlDevice_t;

static const char *list(void)
{
	const char *gpus = getenv("STANDIN_GPUS");

	return gpus ? gpus : "0000:10:00.0";
}

static unsigned int count(void)
{
	unsigned int n = 1;

	for (const char *c = list(); *c; c++)
		n += *c == ',';
	return n;
}

API const char *nvmlErrorString(int error);
API const char *nvmlErrorString(int error)
{
	return error ? "error of the stand-in" : "success";
}

API int nvmlInit_v2(void);
API int nvmlInit_v2(void)
{
	return NVML_SUCCESS;
}

API int nvmlShutdown(void);
API int nvmlShutdown(void)
{
	return NVML_SUCCESS;
}

API int nvmlDeviceGetCount_v2(unsigned int *n);
API int nvmlDeviceGetCount_v2(unsigned int *n)
{
	*n = count();
	return NVML_SUCCESS;
}

API int nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device);
API int nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
	if (index >= count())
		return NVML_ERROR_INVALID_ARGUMENT;
	*device = (nvmlDevice_t)(uintptr_t)(index + 1);
	return NVML_SUCCESS;
}

API int nvmlDeviceGetHandleByPciBusId(const char *id, nvmlDevice_t *device);
API int nvmlDeviceGetHandleByPciBusId(const char *id, nvmlDevice_t *device)
{
	unsigned int index = 0;
	size_t length = strlen(id);

	for (const char *c = list(); c; c = strchr(c, ','), index++) {
		c += *c == ',';
		if (!strncasecmp(c, id, length) &&
		    (c[length] == ',' || !c[length]))
			return nvmlDeviceGetHandleByIndex(index, device);
	}
	return NVML_ERROR_NOT_FOUND;
}

API int nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index);
API int nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
	*index = (unsigned int)(uintptr_t)device - 1;
	return NVML_SUCCESS;
}

API int nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major,
					   int *minor);
API int nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major,
					   int *minor)
{
	const char *text = getenv("STANDIN_SM");
	int sm = text ? atoi(text) : 90;

	(void)device;
	*major = sm / 10;
	*minor = sm % 10;
	return NVML_SUCCESS;
}

API int nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t peer,
			       int capability, int *status);
API int nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t peer,
			       int capability, int *status)
{
	(void)device;
	(void)peer;
	(void)capability;
	*status = 0;
	return NVML_SUCCESS;
}

API int nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device,
					    unsigned int *generation);
API int nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device,
					    unsigned int *generation)
{
	(void)device;
	*generation = 5;
	return NVML_SUCCESS;
}

API int nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device,
				       unsigned int *width);
API int nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int *width)
{
	(void)device;
	*width = 16;
	return NVML_SUCCESS;
}

static int not_supported(void)
{
	return NVML_ERROR_NOT_SUPPORTED;
}

#define NOT_SUPPORTED API __attribute__((alias("not_supported")))

NOT_SUPPORTED int nvmlDeviceGetNvLinkState(void);
NOT_SUPPORTED int nvmlDeviceGetNvLinkRemotePciInfo(void);
NOT_SUPPORTED int nvmlDeviceGetNvLinkCapability(void);
NOT_SUPPORTED int nvmlDeviceGetFieldValues(void);
NOT_SUPPORTED int nvmlDeviceGetPciInfo_v3(void);
NOT_SUPPORTED int nvmlDeviceGetPciInfoExt(void);
NOT_SUPPORTED int nvmlDeviceGetPcieLinkMaxSpeed(void);
NOT_SUPPORTED int nvmlDeviceGetGpuFabricInfoV(void);
NOT_SUPPORTED int nvmlDeviceGetPlatformInfo(void);
NOT_SUPPORTED int nvmlSystemGetConfComputeState(void);
NOT_SUPPORTED int nvmlSystemGetConfComputeSettings(void);
