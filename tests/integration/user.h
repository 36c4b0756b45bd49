/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that uses a bit of everything, repeatedly. The tests of exhausted
 * resources use it. These functions never end the test, since they may run in a
 * child process.
 */
#ifndef USER_H
#define USER_H

#include <mpib/client.h>

/* The first failure and its message. */
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

/* Listen, connect, accept, allocate, register. *o describes a failure. */
int user_open(struct user *u, struct mpib_client *c, struct outcome *o);
/* Move a message of ordinary memory, and a message of memory that needs no
 * copy. */
int user_move(struct user *u, struct outcome *o);
void user_close(struct user *u);

/* Do all of this with a given client, or with a new one. */
int user_once(struct mpib_client *c, struct outcome *o);
int user_attach(const char *run_dir, struct mpib_client **c, struct outcome *o);
int user_new(const char *run_dir, struct outcome *o);

/* Return what is wrong with the outcome (a hang, a wrong byte, an empty or
 * wrong text), or NULL. */
const char *user_wrong(const struct outcome *o);

#endif
