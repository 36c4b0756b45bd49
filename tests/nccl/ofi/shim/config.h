/* SPDX-License-Identifier: Apache-2.0 */
/* The macros of aws-ofi-nccl's configure that its functional tests use. */
#define HAVE_CUDA 1
#define OFI_UNLIKELY(x) __builtin_expect(!!(x), 0)
