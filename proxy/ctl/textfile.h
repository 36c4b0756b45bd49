/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPIB_CTL_TEXTFILE_H
#define MPIB_CTL_TEXTFILE_H

#include "ctl/dial.h"

/* The text of a command into file, which is whole at every moment: the old one
 * or the new one. Readable for all. As in dial.h. */
int mpib_textfile_write(struct mpib_dial *d, const char *command,
			const char *file);

#endif
