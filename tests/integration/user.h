/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that uses a little of every resource, for tests in which resources
 * run out. The functions return errors instead of ending the test, since they
 * may run in a child process.
 */
#ifndef USER_H
#define USER_H

#include <mpib/client.h>

/* The first failure of a user, with its message. */
struct outcome {
	int rc; /* 0 means no failure */
	char step[24], text[320];
};

/* A client, a connection from it to itself, and memory of each kind. */
struct user {
	struct mpib_client *c;
	struct mpib_listener *l;
	struct mpib_conn *tx, *rx;
	struct mpib_region *sealed, *heap_from, *heap_to, *placed_region;
	void *placed; /* allocated by mpib_mem_alloc() */
	char *from, *to;
};

/* Listen, connect, accept, allocate and register. If a step fails, store the
 * failure in *`o`. */
int user_open(struct user *u, struct mpib_client *c, struct outcome *o);
/* Move one message from ordinary memory, and one from memory that needs no
 * copy. */
int user_move(struct user *u, struct outcome *o);
void user_close(struct user *u);

/* Open a user, move messages and close the user. user_once() does this with the
 * client `c`, and user_new() with a new client. */
int user_once(struct mpib_client *c, struct outcome *o);
int user_attach(const char *run_dir, struct mpib_client **c, struct outcome *o);
int user_new(const char *run_dir, struct outcome *o);

/* Return NULL if the outcome is acceptable. Otherwise return the reason: a
 * hang, a wrong byte, an error without a text, or a wrong error. */
const char *user_wrong(const struct outcome *o);

#endif
