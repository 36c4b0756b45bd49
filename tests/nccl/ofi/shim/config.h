/* SPDX-License-Identifier: Apache-2.0 */
/* What aws-ofi-nccl's configure writes and its functional tests read. */
#define HAVE_CUDA 1
#define OFI_UNLIKELY(x) __builtin_expect(!!(x), 0)
