// SPDX-License-Identifier: Apache-2.0
// Tables of kernels from NCCL's device code. This file includes no header of
// NCCL, because the headers declare the tables constant. The linker does not
// notice that, since names of variables are not mangled.
//
// There is only one kernel, and only its address is used. The ID of a function
// is its row in the table.
namespace
{
constexpr int rows = 16384;
void kernel_of_all()
{
}
} // namespace

extern "C" {
extern const int ncclDevKernelCount;
const int ncclDevKernelCount = 1;
void *ncclDevKernelList[2] = { (void *)kernel_of_all, nullptr };
int ncclDevKernelRequirements[2];

int ncclDevFuncRowToId[rows];
void *ncclDevKernelForFunc[rows];
bool ncclDevKernelForFuncIsSpecialized[rows];

extern const int ncclSymkKernelCount;
const int ncclSymkKernelCount = 0;
void *ncclSymkKernelList[1];
int ncclSymkKernelRequirements[1];
int ncclSymkKernelMaxDynamicSmem[1];
}

namespace
{
struct Fill {
	Fill()
	{
		for (int i = 0; i < rows; i++) {
			ncclDevFuncRowToId[i] = i;
			ncclDevKernelForFunc[i] = (void *)kernel_of_all;
		}
	}
} fill;
} // namespace
