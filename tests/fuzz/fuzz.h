/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fuzz targets share a whole proxy in this process, on its own software
 * rails. So a sanitizer sees the effect of a stranger's bytes on any of the
 * proxy's threads. Without a fuzzer, the same targets replay their corpora
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
/* Connect to a socket of its run directory. Return the connected socket. */
int fuzz_dial(const char *name, int type);
/* Connect to its peer link from an address that the proxy takes for another
 * node's. */
int fuzz_dial_peer(void);
/* Return a node's address for a HELLO on that link. */
uint32_t fuzz_peer_addr(void);
const char *fuzz_run_dir(void);

/* The input, which is read from the front. After its end zeros are read. */
struct fuzz_input {
	const uint8_t *at;
	size_t left;
};
void fuzz_take(struct fuzz_input *in, void *to, size_t n);
uint8_t fuzz_take8(struct fuzz_input *in);

/* End the process with a message, as a finding. */
void fuzz_found(const char *what) __attribute__((noreturn));

#endif
