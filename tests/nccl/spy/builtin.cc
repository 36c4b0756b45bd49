// SPDX-License-Identifier: Apache-2.0
// A transport of NCCL's own, BUILTIN, as a plugin, for what measures plugins:
// mpib-perf --plugin, bench/compare --socket and --peer, bench/budget --peer.
#include <nccl.h>
#include <nccl_net.h>

extern ncclNet_t BUILTIN;

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 30, 0)
#define TABLE ncclNetPlugin_v12
#else
#define TABLE ncclNetPlugin_v11
#endif

extern "C" __attribute__((visibility("default"))) ncclNet_t TABLE;
ncclNet_t TABLE;

namespace
{

// Before the table is looked for.
__attribute__((constructor)) void begin()
{
	TABLE = BUILTIN;
}

} // namespace
