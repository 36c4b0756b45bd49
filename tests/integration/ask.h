/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the tests of the stats socket: two proxies, and readers.
 */
#ifndef ASK_H
#define ASK_H

#include <stdio.h>

#include "node.h"

extern struct node ask_a, ask_b;

/* Set-up of the test group. */
int ask_start(void **state);
int ask_stop(void **state);

/* Connect a reader to node n; its greeting is still unread. */
FILE *ask_reader(const struct node *n);
/* The same on the admin socket, where commands may change state. */
FILE *ask_admin(const struct node *n);
/* Read the next line as JSON, NULL at the end; or skip a line. */
json_t *ask_next(FILE *f);
void ask_pass(FILE *f);
/* Send a command that must succeed. Returns the data of its answer. */
json_t *ask_data(FILE *f, const char *command);

/* Return a member; "" or 0 if it is missing. */
const char *ask_text(const json_t *o, const char *key);
json_int_t ask_num(const json_t *o, const char *key);
/* Return a value per rail, of the form {"key": {"name": number}}. */
json_int_t ask_rail(const json_t *o, const char *key, const char *name);

#endif
