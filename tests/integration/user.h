/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that repeatedly uses a little of every resource, for tests in which
 * resources run out. These functions never end the test, since they may run in
 * a child process.
 */
#ifndef USER_H
#define USER_H

#include <mpib/client.h>

/* The first failure of a user, with its message. */
struct outcome {
	int rc; /* 0 means no failure */
	char step[24], text[320];
};

/* A client's connection to itself, with memory of each kind. */
struct user {
	struct mpib_client *c;
	struct mpib_listener *l;
	struct mpib_conn *tx, *rx;
	struct mpib_region *sealed, *heap_from, *heap_to, *placed_region;
	void *placed; /* allocated by mpib_mem_alloc() */
	char *from, *to;
};

/* Listen, connect, accept, allocate and register. After a failure, *o describes
 * it. */
int user_open(struct user *u, struct mpib_client *c, struct outcome *o);
/* Move a message of ordinary memory, and a message of memory that needs no
 * copy. */
int user_move(struct user *u, struct outcome *o);
void user_close(struct user *u);

/* Open a user, move messages and close the user: user_once() with the given
 * client, user_new() with a new client. */
int user_once(struct mpib_client *c, struct outcome *o);
int user_attach(const char *run_dir, struct mpib_client **c, struct outcome *o);
int user_new(const char *run_dir, struct outcome *o);

/* Return why the outcome is wrong (a hang, a wrong byte, an empty text or a
 * wrong error), or NULL if it is acceptable. */
const char *user_wrong(const struct outcome *o);

#endif
