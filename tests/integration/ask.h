/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tests of the stats socket share two proxies, and functions that connect
 * to the socket and read its answers.
 */
#ifndef ASK_H
#define ASK_H

#include <stdio.h>

#include "node.h"

extern struct node ask_a, ask_b;

/* Set-up and teardown of the test group. */
int ask_start(void **state);
int ask_stop(void **state);

/* Connect to the stats socket of node `n`. The caller must read the
 * greeting. */
FILE *ask_reader(const struct node *n);
/* Connect to the admin socket of node `n`, which also accepts commands that
 * change state. */
FILE *ask_admin(const struct node *n);
/* ask_next() returns the next line as JSON, or NULL at the end of the stream.
 * ask_pass() skips a line. */
json_t *ask_next(FILE *f);
void ask_pass(FILE *f);
/* Send a command that must succeed. Return the `data` member of the answer. */
json_t *ask_data(FILE *f, const char *command);

/* Return the value of the member `key`. If the member is missing, return "" or
 * 0. */
const char *ask_text(const json_t *o, const char *key);
json_int_t ask_num(const json_t *o, const char *key);
/* The member `key` of `o` is an object with one number per rail. Return the
 * number of the rail `name`. */
json_int_t ask_rail(const json_t *o, const char *key, const char *name);

#endif
