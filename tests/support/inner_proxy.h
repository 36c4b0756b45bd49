/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole proxy in the test's own process, but without its main(). The test
 * calls the turns of the proxy's control thread, and may read and change the
 * proxy's state between two turns. A process can start only one proxy, because
 * only the end of the process frees its objects.
 */
#ifndef MPIB_TESTS_INNER_PROXY_H
#define MPIB_TESTS_INNER_PROXY_H

#include "ipc/message.h"
#include "proxy.h"

extern struct mpib_proxy inner;

/* Prepare the settings: the rails, and a run directory in `scratch`. Return 0,
 * or -1 for cmocka. */
int inner_init(void **state);
void inner_set(const char *section, const char *key, const char *value);
/* Start the proxy. Return 0, or print an error and return -1. */
int inner_start(void);
/* Stop the proxy and remove its files, as a group teardown for cmocka. */
int inner_stop(void **state);

/* Wait until the control thread has work, and do this work. */
void inner_turn(void);

/* Connect to the control socket and attach. Return the socket. If this or one
 * of the next functions fails, the test fails. */
int inner_attach(void);
void inner_tell(int sock, const struct mpib_ctl_header *h);
/* Make turns until the next answer arrives. inner_hear() closes the answer's
 * descriptors. inner_hear_status() returns only the answer's status. */
void inner_hear(int sock, struct mpib_message *m);
int inner_hear_status(int sock);

#endif
