// SPDX-License-Identifier: Apache-2.0
// NCCL's own transport BUILTIN as a plugin, for programs that measure plugins:
// mpib-perf --plugin, bench/compare --socket and --peer, and bench/budget
// --peer.
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

// This runs before NCCL looks up the table.
__attribute__((constructor)) void begin()
{
	TABLE = BUILTIN;
}

} // namespace
