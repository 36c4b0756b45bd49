/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole proxy that runs inside the process of a fuzz target, on its own
 * software rails. So a sanitizer detects errors that the input causes in any
 * thread of the proxy. If a target is built without a fuzzer, it replays its
 * corpus (replay.c).
 */
#ifndef MPIB_FUZZ_H
#define MPIB_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Start the proxy, or abort. The proxy ends with the process. */
void fuzz_proxy_start(void);
/* Connect to a socket of the proxy's run directory. Return the connected
 * socket. */
int fuzz_dial(const char *name, int type);
/* Connect to the proxy's peer link from an address that the proxy takes for the
 * address of another node. Return the connected socket. */
int fuzz_dial_peer(void);
/* Return the node address for a HELLO on this connection. */
uint32_t fuzz_peer_addr(void);
const char *fuzz_run_dir(void);

/* The part of the input that has not been read yet. The functions below read
 * from the front. Reads beyond the end return zeros. */
struct fuzz_input {
	const uint8_t *at;
	size_t left;
};
void fuzz_take(struct fuzz_input *in, void *to, size_t n);
uint8_t fuzz_take8(struct fuzz_input *in);

/* Print a message and abort, which the fuzzer reports as a finding. */
void fuzz_found(const char *what) __attribute__((noreturn));

#endif
