/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file "state" of the run directory: what an operator changed at run time, as
 * the admin commands that make these changes. The next proxy, after a restart, a
 * crash or an upgrade, carries them out at its start. While nothing is changed there
 * is no file. Control thread.
 */
#ifndef MPIB_PROXY_STATS_STATE_H
#define MPIB_PROXY_STATS_STATE_H

#include "stats/command.h"

#define MPIB_STATE_FILE "state"

/* Write the file, beside the one that is there and then in its place. */
void mpib_state_save(const struct mpib_admin *admin);

/* Carry out the file's commands. What is not understood is left out, with a
 * warning. */
void mpib_state_load(const struct mpib_admin *admin);

#endif
