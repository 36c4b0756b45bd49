/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that uses a bit of everything, repeatedly, for the tests of
 * exhausted resources. Nothing here ends the test, since it may run in a child
 * process.
 */
#ifndef USER_H
#define USER_H

#include <mpib/client.h>

/* what failed first, and how it was reported */
struct outcome {
	int rc; /* 0: all went well */
	char step[24], text[320];
};

/* A connection of a client to itself, with memory of each kind. */
struct user {
	struct mpib_client *c;
	struct mpib_listener *l;
	struct mpib_conn *tx, *rx;
	struct mpib_region *sealed, *heap_from, *heap_to, *placed_region;
	void *placed; /* mpib_mem_alloc()'s */
	char *from, *to;
};

/* Listen, connect, accept, allocate, register; what fails is in *o. */
int user_open(struct user *u, struct mpib_client *c, struct outcome *o);
/* A message of ordinary memory and one of memory that needs no copy. */
int user_move(struct user *u, struct outcome *o);
void user_close(struct user *u);

/* Do all of this, on a given client, or on a client of its own. */
int user_once(struct mpib_client *c, struct outcome *o);
int user_attach(const char *run_dir, struct mpib_client **c, struct outcome *o);
int user_new(const char *run_dir, struct outcome *o);

/* Return what is wrong with the outcome (a hang, a wrong byte, an empty or
 * wrong text), or NULL. */
const char *user_wrong(const struct outcome *o);

#endif
