/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_SAVE_H
#define PERF_SAVE_H

#include <jansson.h>
#include <stdbool.h>

/* Write the file of --json, "-" for standard output. False after a line on
 * stderr. */
bool perf_save_json(const char *path, const json_t *all);

#endif
