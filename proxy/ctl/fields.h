/* SPDX-License-Identifier: Apache-2.0 */
/* Option -o of mpibctl: chosen fields of an answer, for scripts. One line per
 * row, a tab between fields, numbers not rounded. */
#ifndef MPIB_CTL_FIELDS_H
#define MPIB_CTL_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/*
 * Print the fields of list, such as "name,tx_bytes.sout". data is one row or an
 * array of rows. False when no row has one of the fields; why then holds "what:
 * why (remedy)".
 */
bool mpib_fields_print(json_t *data, const char *list, FILE *out, char *why,
		       size_t len);

#endif
