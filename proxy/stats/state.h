/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file "state" of the run directory lists the operator's run-time changes,
 * as the admin commands that make them. The next proxy, after a restart, a
 * crash or an upgrade, carries them out at its start. Without such changes the
 * file does not exist. Control thread.
 */
#ifndef MPIB_PROXY_STATS_STATE_H
#define MPIB_PROXY_STATS_STATE_H

#include "stats/command.h"

#define MPIB_STATE_FILE "state"

/* Write a new file and rename it over the old one. */
void mpib_state_save(const struct mpib_admin *admin);

/* Carry out the file's commands. Commands that the proxy does not understand
 * are skipped with a warning. */
void mpib_state_load(const struct mpib_admin *admin);

#endif
