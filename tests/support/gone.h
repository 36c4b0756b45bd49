/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices of the software HCA that proxies lose, and that come back; and what
 * the proxies say of it. Every call ends the test when it cannot do what it says.
 */
#ifndef MPIB_TESTS_GONE_H
#define MPIB_TESTS_GONE_H

#include "moving.h"

/* Before the first proxy starts. */
void gone_begin(void);
void gone_end(void);
/* The device of a rail as struct node names it, for all who have it open. */
void gone_take(const char *rail);
void gone_return(const char *rail);

/* The proxy that would answer may be about to hand over: each of these asks
 * again. Traffic, if there is some (NULL: none), goes on meanwhile. */
void gone_until_down(struct moving *m, const struct node *n, unsigned rail);
json_int_t gone_readopted(struct moving *m, const struct node *n);
void gone_until_readopted(struct moving *m, const struct node *n,
			  json_int_t count);
/* The rail carries more than it did when this was called. */
void gone_until_used(struct moving *m, const struct node *n, unsigned rail);
/* An event has this in its text. */
void gone_until_told(struct moving *m, const struct node *n, const char *text);
json_int_t gone_upgrades(struct moving *m, const struct node *n);

#endif
