/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of fill.h share: a proxy whose control thread is the test's,
 * and clients that keep no rule.
 */
#ifndef FILLED_H
#define FILLED_H

#include <stdatomic.h>
#include <stddef.h>

#include "client/filler.h"
#include "ipc/message.h"
#include "proxy.h"

extern struct mpib_proxy filled;
/* Bytes of a region that takes many steps. */
extern size_t large;

/* Of the group. */
int filled_start(void **state);
int filled_stop(void **state);
/* Of each test: in the end its clients go, and what the proxy holds is what it
 * held. */
int filled_look(void **state);
int filled_nothing_is_left(void **state);
#define FILL_TEST(f)                                                           \
	cmocka_unit_test_setup_teardown(f, filled_look, filled_nothing_is_left)

/* The kernel makes pages for so many calls more, refuses the next with an error
 * and all after it with another; errors of 0: it makes them. */
void filled_fail(unsigned calls, int first, int then);

/* 1: the next step waits in the kernel, as for another thread of the client's that
 * punches a hole; 2: it does; 0: it does not any more. */
extern _Atomic int filled_stuck;

/* The kernel says what it says of ordinary memory where shmem_enabled is always. */
extern atomic_bool filled_by_huge_pages;

/* mincore(2) fails with it, if it is not 0. */
extern atomic_int filled_mincore_error;
/* So often has the kernel to be told that memory will be needed until it has read in
 * what of it is in swap. */
extern atomic_uint filled_in_swap;
/* Its owner seals it against writing when it is mapped next; -1: nobody does. */
extern atomic_int filled_sealed_when_mapped;

/* Steps that the control thread made itself. */
extern _Atomic unsigned filled_by_control;
/* One turn, when there is something to do. Returns how long that took, ns. */
uint64_t turn(void);
/* A client, newest() then, until the test's end or leave(). */
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
