/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the stats socket share: two proxies, and readers.
 */
#ifndef ASK_H
#define ASK_H

#include <stdio.h>

#include "node.h"

extern struct node ask_a, ask_b;

/* Of the group. */
int ask_start(void **state);
int ask_stop(void **state);

/* A reader of n's, before its greeting. */
FILE *ask_reader(const struct node *n);
/* The same by the admin socket, where commands may change something. */
FILE *ask_admin(const struct node *n);
/* The next line as JSON, NULL at the end; or read past one. */
json_t *ask_next(FILE *f);
void ask_pass(FILE *f);
/* Data of the answer to a command that works. */
json_t *ask_data(FILE *f, const char *command);

/* Return a member; "" or 0 if it is missing. */
const char *ask_text(const json_t *o, const char *key);
json_int_t ask_num(const json_t *o, const char *key);
/* {"key": {"name": number}}, the form of values per rail. */
json_int_t ask_rail(const json_t *o, const char *key, const char *name);

#endif
