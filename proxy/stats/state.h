/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file "state" of the run directory lists the operator's run-time changes
 * as admin commands. After a restart, a crash or an upgrade, the next proxy
 * executes these commands at its start. Without run-time changes the file does
 * not exist. Control thread.
 */
#ifndef MPIB_PROXY_STATS_STATE_H
#define MPIB_PROXY_STATS_STATE_H

#include "stats/command.h"

#define MPIB_STATE_FILE "state"

/* Write a new file and rename it over the old one. */
void mpib_state_save(const struct mpib_admin *admin);

/* Execute the file's commands. Skip, with a warning, commands that the proxy
 * does not understand. */
void mpib_state_load(const struct mpib_admin *admin);

#endif
