/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the fuzz targets: a whole proxy in this process, on its own
 * software rails, so that a sanitizer sees the effect of a stranger's bytes on
 * any of its threads. Without a fuzzer the same targets replay their corpora
 * (replay.c).
 */
#ifndef MPIB_FUZZ_H
#define MPIB_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Start the proxy, or abort. It ends with the process. */
void fuzz_proxy_start(void);
/* Return a connected socket of its run directory. */
int fuzz_dial(const char *name, int type);
/* Connect to its peer link, from an address that the proxy considers another
 * node's. */
int fuzz_dial_peer(void);
/* Return a node's address for a HELLO on that link. */
uint32_t fuzz_peer_addr(void);
const char *fuzz_run_dir(void);

/* The input, read from the front; zeros after its end. */
struct fuzz_input {
	const uint8_t *at;
	size_t left;
};
void fuzz_take(struct fuzz_input *in, void *to, size_t n);
uint8_t fuzz_take8(struct fuzz_input *in);

/* End the process with a message, as a finding. */
void fuzz_found(const char *what) __attribute__((noreturn));

#endif
