// SPDX-License-Identifier: Apache-2.0
// cuLaunchKernel() and cuLaunchKernelEx(), for driver.cc.
#ifndef STANDIN_LAUNCH_HPP
#define STANDIN_LAUNCH_HPP

#include "standin.hpp"

namespace standin
{

CUresult launch_kernel(CUfunction, unsigned int, unsigned int, unsigned int,
		       unsigned int, unsigned int, unsigned int, unsigned int,
		       CUstream stream, void **, void **extra);
CUresult launch_kernel_ex(const CUlaunchConfig *config, CUfunction, void **,
			  void **extra);

} // namespace standin

#endif
