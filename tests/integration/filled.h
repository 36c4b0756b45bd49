/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the tests of fill.h: a proxy whose control thread is the test's,
 * and clients that break every rule.
 */
#ifndef FILLED_H
#define FILLED_H

#include <stdatomic.h>
#include <stddef.h>

#include "client/client.h"
#include "ipc/message.h"
#include "proxy.h"

extern struct mpib_proxy filled;
/* Bytes of a region that takes many steps. */
extern size_t large;

/* Of the group. */
int filled_start(void **state);
int filled_stop(void **state);
/* Set-up and teardown of each test: at the end its clients leave, and the proxy
 * must hold no more than before. */
int filled_look(void **state);
int filled_nothing_is_left(void **state);
#define FILL_TEST(f)                                                           \
	cmocka_unit_test_setup_teardown(f, filled_look, filled_nothing_is_left)

/* Let the kernel allocate pages for this many further calls, fail the next with
 * one error and all later ones with another; errors of 0: do not fail. */
void filled_fail(unsigned calls, int first, int then);

/* 1: the next step will wait in the kernel, as while another thread of the
 * client punches a hole; 2: it waits; 0: it no longer waits. */
extern _Atomic int filled_stuck;

/* Let the kernel report ordinary memory as if shmem_enabled were "always". */
extern atomic_bool filled_by_huge_pages;

/* mincore(2) fails with it, if it is not 0. */
extern atomic_int filled_mincore_error;
/* How many calls of madvise(MADV_WILLNEED) it takes until the kernel has read
 * memory back from swap. */
extern atomic_uint filled_in_swap;
/* A memfd that its owner seals against writing at the next mapping; -1:
 * none. */
extern atomic_int filled_sealed_when_mapped;

/* Steps that the control thread made itself. */
extern _Atomic unsigned filled_by_control;
/* Make one turn when there is something to do. Returns how long that took,
 * ns. */
uint64_t turn(void);
/* Attach a client, then newest(), until the test's end or leave(). */
int attach(void);
void leave(int sock);
struct proxy_client *newest(void);
/* Turn until there is an answer; its status. */
void hear(int sock, struct mpib_message *m);
int hear_status(int sock);

/* Without waiting for the answer. flags are memfd_create(2)'s. _holes: of memory
 * without pages. */
void ask_reg(int sock, unsigned flags, uint64_t offset, uint64_t size);
void ask_reg_holes(int sock, uint64_t size);
void ask_pool(int sock, uint64_t size);
void ask_why(int sock);

#endif
