/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the fuzz targets share: a whole proxy in this process, on software
 * rails of its own, so that a sanitizer sees whatever a stranger's bytes do
 * to any of its threads. The same targets replay their corpora without a fuzzer
 * (replay.c).
 */
#ifndef MPIB_FUZZ_H
#define MPIB_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Start it; aborts when it cannot. It goes with the process. */
void fuzz_proxy_start(void);
/* A connected socket of its run directory. */
int fuzz_dial(const char *name, int type);
/* Its peer link, from an address that it takes for another node's. */
int fuzz_dial_peer(void);
/* A node's address that may be used in a HELLO on that link. */
uint32_t fuzz_peer_addr(void);
const char *fuzz_run_dir(void);

/* Bytes taken from the front; zeros when there are too few. */
struct fuzz_input {
	const uint8_t *at;
	size_t left;
};
void fuzz_take(struct fuzz_input *in, void *to, size_t n);
uint8_t fuzz_take8(struct fuzz_input *in);

/* Ends the process with a message, as a finding. */
void fuzz_found(const char *what) __attribute__((noreturn));

#endif
