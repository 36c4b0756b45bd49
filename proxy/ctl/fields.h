/* SPDX-License-Identifier: Apache-2.0 */
/* -o: chosen fields of an answer, for scripts. One row a line, a tab between
 * fields, exact numbers. */
#ifndef MPIB_CTL_FIELDS_H
#define MPIB_CTL_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/*
 * list is "name,tx_bytes.sout". data is one row, or an array of them. False,
 * with why as "what: why (remedy)", when a field is in no row.
 */
bool mpib_fields_print(json_t *data, const char *list, FILE *out, char *why,
		       size_t len);

#endif
