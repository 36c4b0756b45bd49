/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types of the driver functions that NCCL requests. The name of a type ends
 * with the version of the API that introduced the function.
 */
#ifndef STANDIN_CUDA_TYPEDEFS_H
#define STANDIN_CUDA_TYPEDEFS_H

#include <cuda.h>

typedef CUresult (*PFN_cuGetErrorString_v6000)(CUresult, const char **);
typedef CUresult (*PFN_cuGetErrorName_v6000)(CUresult, const char **);
typedef CUresult (*PFN_cuDeviceGet_v2000)(CUdevice *, int);
typedef CUresult (*PFN_cuDeviceGetAttribute_v2000)(int *, CUdevice_attribute,
						   CUdevice);
typedef CUresult (*PFN_cuDeviceGetUuid_v9020)(CUuuid *, CUdevice);
typedef CUresult (*PFN_cuCtxCreate_v11040)(CUcontext *, void *, int,
					   unsigned int, CUdevice);
typedef CUresult (*PFN_cuCtxDestroy_v4000)(CUcontext);
typedef CUresult (*PFN_cuCtxGetCurrent_v4000)(CUcontext *);
typedef CUresult (*PFN_cuCtxSetCurrent_v4000)(CUcontext);
typedef CUresult (*PFN_cuCtxGetDevice_v2000)(CUdevice *);
typedef CUresult (*PFN_cuPointerGetAttribute_v4000)(void *, CUpointer_attribute,
						    CUdeviceptr);
typedef CUresult (*PFN_cuMemGetAddressRange_v3020)(CUdeviceptr *, size_t *,
						   CUdeviceptr);
typedef CUresult (*PFN_cuMemGetHandleForAddressRange_v11070)(
	void *, CUdeviceptr, size_t, CUmemRangeHandleType, unsigned long long);
typedef CUresult (*PFN_cuLaunchKernel_v4000)(CUfunction, unsigned int,
					     unsigned int, unsigned int,
					     unsigned int, unsigned int,
					     unsigned int, unsigned int,
					     CUstream, void **, void **);
typedef CUresult (*PFN_cuLaunchKernelEx_v11060)(const CUlaunchConfig *,
						CUfunction, void **, void **);

typedef CUresult (*PFN_cuMemAddressReserve_v10020)(CUdeviceptr *, size_t,
						   size_t, CUdeviceptr,
						   unsigned long long);
typedef CUresult (*PFN_cuMemAddressFree_v10020)(CUdeviceptr, size_t);
typedef CUresult (*PFN_cuMemCreate_v10020)(CUmemGenericAllocationHandle *,
					   size_t, const CUmemAllocationProp *,
					   unsigned long long);
typedef CUresult (*PFN_cuMemGetAllocationGranularity_v10020)(
	size_t *, const CUmemAllocationProp *,
	CUmemAllocationGranularity_flags);
typedef CUresult (*PFN_cuMemExportToShareableHandle_v10020)(
	void *, CUmemGenericAllocationHandle, CUmemAllocationHandleType,
	unsigned long long);
typedef CUresult (*PFN_cuMemImportFromShareableHandle_v10020)(
	CUmemGenericAllocationHandle *, void *, CUmemAllocationHandleType);
typedef CUresult (*PFN_cuMemMap_v10020)(CUdeviceptr, size_t, size_t,
					CUmemGenericAllocationHandle,
					unsigned long long);
typedef CUresult (*PFN_cuMemUnmap_v10020)(CUdeviceptr, size_t);
typedef CUresult (*PFN_cuMemRelease_v10020)(CUmemGenericAllocationHandle);
typedef CUresult (*PFN_cuMemRetainAllocationHandle_v11000)(
	CUmemGenericAllocationHandle *, void *);
typedef CUresult (*PFN_cuMemSetAccess_v10020)(CUdeviceptr, size_t,
					      const CUmemAccessDesc *, size_t);
typedef CUresult (*PFN_cuMemGetAllocationPropertiesFromHandle_v10020)(
	CUmemAllocationProp *, CUmemGenericAllocationHandle);

typedef CUresult (*PFN_cuMulticastAddDevice_v12010)(
	CUmemGenericAllocationHandle, CUdevice);
typedef CUresult (*PFN_cuMulticastBindMem_v12010)(CUmemGenericAllocationHandle,
						  size_t,
						  CUmemGenericAllocationHandle,
						  size_t, size_t,
						  unsigned long long);
typedef CUresult (*PFN_cuMulticastBindAddr_v12010)(CUmemGenericAllocationHandle,
						   size_t, CUdeviceptr, size_t,
						   unsigned long long);
typedef CUresult (*PFN_cuMulticastCreate_v12010)(CUmemGenericAllocationHandle *,
						 const CUmulticastObjectProp *);
typedef CUresult (*PFN_cuMulticastGetGranularity_v12010)(
	size_t *, const CUmulticastObjectProp *, CUmulticastGranularity_flags);
typedef CUresult (*PFN_cuMulticastUnbind_v12010)(CUmemGenericAllocationHandle,
						 CUdevice, size_t, size_t);

typedef CUresult (*PFN_cuStreamBatchMemOp_v11070)(CUstream, unsigned int,
						  CUstreamBatchMemOpParams *,
						  unsigned int);
typedef CUresult (*PFN_cuStreamWaitValue32_v11070)(CUstream, CUdeviceptr,
						   uint32_t, unsigned int);
typedef CUresult (*PFN_cuStreamWaitValue64_v11070)(CUstream, CUdeviceptr,
						   uint64_t, unsigned int);
typedef CUresult (*PFN_cuStreamWriteValue32_v11070)(CUstream, CUdeviceptr,
						    uint32_t, unsigned int);
typedef CUresult (*PFN_cuStreamWriteValue64_v11070)(CUstream, CUdeviceptr,
						    uint64_t, unsigned int);

#endif
