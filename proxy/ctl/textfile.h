/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPIB_CTL_TEXTFILE_H
#define MPIB_CTL_TEXTFILE_H

#include "ctl/dial.h"

/* Write the text that the proxy answers to command into file, by rename(): a
 * reader sees the old text or the new one. All users may read file. Returns an
 * exit status and sets d->why like the calls of dial.h. */
int mpib_textfile_write(struct mpib_dial *d, const char *command,
			const char *file);

#endif
