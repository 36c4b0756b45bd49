/* SPDX-License-Identifier: Apache-2.0 */
/* A directory for each test, which is removed when the test ends. */
#ifndef MPIB_TESTS_SCRATCH_H
#define MPIB_TESTS_SCRATCH_H

extern char scratch[64];

/* Make and remove the directory, as a setup and teardown for cmocka. */
int scratch_make(void **state);
int scratch_remove(void **state);

/* Return the path of `name` in the directory. The result is valid until the
 * next call. */
const char *scratch_path(const char *name);
/* Make a directory or a file, with its parent directories. */
void scratch_dir(const char *name);
void scratch_write(const char *name, const char *text);

#endif
