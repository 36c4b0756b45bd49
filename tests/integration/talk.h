/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tests of clients share a proxy, and functions that send messages to its
 * control socket. With these functions, a test can act as a client that breaks
 * the protocol.
 */
#ifndef TALK_H
#define TALK_H

#include "ipc/message.h"
#include "node.h"

extern struct node talk_node;

/* talk_start() and talk_stop() are the set-up and the teardown of the test
 * group. talk_nothing_is_left() is the teardown of each test. It checks that
 * the proxy's usage counters are zero, and that the proxy serves a client that
 * follows the protocol. */
int talk_start(void **state);
int talk_stop(void **state);
int talk_nothing_is_left(void **state);
#define TALK_TEST(f) TEST_OF(f, NULL, talk_nothing_is_left)

/* Open a control socket. talk_dial() sends no HELLO. talk_attach() sends a
 * HELLO, which must be accepted. */
int talk_dial(void);
int talk_attach(void);

/* Send raw bytes. */
void talk_tell(int sock, const void *msg, size_t len);
void talk_tell_fd(int sock, const void *msg, int fd);
void talk_hello(int sock, uint32_t version);
/* Read the next answer. Return the message's length, or 0 if the proxy hung
 * up. */
size_t talk_hear(int sock, struct mpib_message *m);
/* Read the answer to the request with this type and id. Return its status. */
int talk_hear_status(int sock, uint32_t type, uint32_t id);

#endif
