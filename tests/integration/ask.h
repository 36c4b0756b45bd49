/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tests of the stats socket share two proxies and functions for readers.
 */
#ifndef ASK_H
#define ASK_H

#include <stdio.h>

#include "node.h"

extern struct node ask_a, ask_b;

/* Set-up of the test group. */
int ask_start(void **state);
int ask_stop(void **state);

/* Connect a reader to node `n`. The caller has to read the greeting. */
FILE *ask_reader(const struct node *n);
/* Connect a reader to the admin socket, where commands may change state. */
FILE *ask_admin(const struct node *n);
/* Read the next line as JSON, or skip a line. NULL means the end. */
json_t *ask_next(FILE *f);
void ask_pass(FILE *f);
/* Send a command that must succeed. Return the data of the answer. */
json_t *ask_data(FILE *f, const char *command);

/* Return the value of a member. If the member is missing, return "" or 0. */
const char *ask_text(const json_t *o, const char *key);
json_int_t ask_num(const json_t *o, const char *key);
/* The member `key` is an object with one number for each rail. Return the
 * number of the rail `name`. */
json_int_t ask_rail(const json_t *o, const char *key, const char *name);

#endif
