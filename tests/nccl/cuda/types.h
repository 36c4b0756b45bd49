/* SPDX-License-Identifier: Apache-2.0 */
/* Types of the CUDA runtime API, for cuda_runtime_api.h. */
#ifndef STANDIN_TYPES_H
#define STANDIN_TYPES_H

#include <stddef.h>
#include <stdint.h>

#define CUDART_VERSION 12020
#define CUDART_CB

typedef enum cudaError {
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
	cudaErrorMemoryAllocation = 2,
	cudaErrorStubLibrary = 34,
	cudaErrorInvalidDevice = 101,
	cudaErrorMapBufferObjectFailed = 205,
	cudaErrorInvalidResourceHandle = 400,
	cudaErrorLossyQuery = 402,
	cudaErrorNotReady = 600,
	cudaErrorPeerAccessAlreadyEnabled = 704,
	cudaErrorMisalignedAddress = 716,
	cudaErrorLaunchFailure = 719,
	cudaErrorNotSupported = 801,
	cudaErrorUnknown = 999,
} cudaError_t;

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUfunc_st *cudaFunction_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphNode_st *cudaGraphNode_t;
typedef struct CUuserObject_st *cudaUserObject_t;
typedef struct CUmemPoolHandle_st *cudaMemPool_t;
typedef void (*cudaHostFn_t)(void *arg);

#define cudaStreamLegacy ((cudaStream_t)0x1)
#define cudaStreamNonBlocking 0x01
#define cudaEventDisableTiming 0x02
#define cudaEventWaitExternal 0x01
#define cudaHostAllocMapped 0x02
#define cudaMemAttachGlobal 0x01
#define cudaHostRegisterPortable 0x01
#define cudaHostRegisterMapped 0x02
#define cudaIpcMemLazyEnablePeerAccess 0x01
#define cudaEnableDefault 0

/* 64 bytes, as in CU_IPC_HANDLE_SIZE */
typedef struct cudaIpcMemHandle_st {
	char reserved[64];
} cudaIpcMemHandle_t;

typedef struct cudaUUID_st {
	char bytes[16];
} cudaUUID_t;

enum cudaDeviceAttr {
	cudaDevAttrMaxThreadsPerBlock = 1,
	cudaDevAttrMultiProcessorCount = 16,
	cudaDevAttrUnifiedAddressing = 41,
	cudaDevAttrComputeCapabilityMajor = 75,
	cudaDevAttrComputeCapabilityMinor = 76,
	cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
	cudaDevAttrGPUDirectRDMASupported = 116,
};

enum cudaLimit {
	cudaLimitStackSize = 0
};

struct cudaDeviceProp {
	char name[256];
	cudaUUID_t uuid;
	size_t totalGlobalMem;
	int warpSize;
	int major, minor;
	int multiProcessorCount;
	int pciBusID, pciDeviceID, pciDomainID;
};

enum cudaDriverEntryPointQueryResult {
	cudaDriverEntryPointSuccess = 0,
	cudaDriverEntryPointSymbolNotFound = 1,
};

enum cudaMemcpyKind {
	cudaMemcpyHostToHost = 0,
	cudaMemcpyHostToDevice = 1,
	cudaMemcpyDeviceToHost = 2,
	cudaMemcpyDeviceToDevice = 3,
	cudaMemcpyDefault = 4,
};

enum cudaMemoryType {
	cudaMemoryTypeUnregistered = 0,
	cudaMemoryTypeHost = 1,
	cudaMemoryTypeDevice = 2,
};

struct cudaPointerAttributes {
	enum cudaMemoryType type;
	int device;
	void *devicePointer;
	void *hostPointer;
};

enum cudaMemAllocationType {
	cudaMemAllocationTypePinned = 1
};
enum cudaMemAllocationHandleType {
	cudaMemHandleTypeNone = 0
};
enum cudaMemLocationType {
	cudaMemLocationTypeDevice = 1
};
enum cudaMemPoolAttr {
	cudaMemPoolAttrReleaseThreshold = 4
};

struct cudaMemLocation {
	enum cudaMemLocationType type;
	int id;
};

struct cudaMemPoolProps {
	enum cudaMemAllocationType allocType;
	enum cudaMemAllocationHandleType handleTypes;
	struct cudaMemLocation location;
	size_t maxSize;
};

enum cudaStreamCaptureStatus {
	cudaStreamCaptureStatusNone = 0,
	cudaStreamCaptureStatusActive = 1,
};

enum cudaStreamCaptureMode {
	cudaStreamCaptureModeGlobal = 0,
	cudaStreamCaptureModeThreadLocal = 1,
	cudaStreamCaptureModeRelaxed = 2,
};

enum {
	cudaStreamSetCaptureDependencies = 1,
	cudaGraphUserObjectMove = 1,
	cudaUserObjectNoDestructorSync = 1,
};

enum cudaLaunchMemSyncDomain {
	cudaLaunchMemSyncDomainDefault = 0,
	cudaLaunchMemSyncDomainRemote = 1,
};

enum cudaFuncAttribute {
	cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
	cudaFuncAttributePreferredSharedMemoryCarveout = 9,
};

struct cudaFuncAttributes {
	size_t sharedSizeBytes;
	size_t localSizeBytes;
	int maxThreadsPerBlock;
	int numRegs;
	int ptxVersion;
	int binaryVersion;
	int maxDynamicSharedSizeBytes;
};

#ifndef __cplusplus
typedef enum cudaStreamCaptureMode cudaStreamCaptureMode;
typedef enum cudaStreamCaptureStatus cudaStreamCaptureStatus;
#endif

/* The vector types that NCCL's headers use. */
typedef struct {
	int x, y, z, w;
} __attribute__((aligned(16))) int4;

typedef struct {
	unsigned long long x, y;
} __attribute__((aligned(16))) ulong2;

typedef struct dim3 {
	unsigned int x, y, z;
} dim3;

#endif
