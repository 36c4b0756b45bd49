/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking devices of the software HCA away from proxies and giving them back,
 * and waiting for what the proxies report. A call that fails ends the test.
 */
#ifndef MPIB_TESTS_GONE_H
#define MPIB_TESTS_GONE_H

#include "moving.h"

/* Call gone_begin() before the first proxy starts. */
void gone_begin(void);
void gone_end(void);
/* Take away (or give back) the device of a rail, named as in struct node, for
 * all proxies that have it open. */
void gone_take(const char *rail);
void gone_return(const char *rail);

/* Each call below asks the proxy repeatedly. Meanwhile the traffic of m, unless
 * NULL, goes on. */
void gone_until_down(struct moving *m, const struct node *n, unsigned rail);
/* Return when the rail has carried bytes since this call. */
void gone_until_used(struct moving *m, const struct node *n, unsigned rail);
/* Return when the journal has an event whose text contains text. */
void gone_until_told(struct moving *m, const struct node *n, const char *text);

#endif
