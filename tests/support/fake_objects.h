/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that only the files of the fake engine call. */
#ifndef MPIB_FAKE_OBJECTS_H
#define MPIB_FAKE_OBJECTS_H

#include "fake_engine.h"

/* At a later dispatch, call `done`(`arg`, 0), and set *`mark` to true if `mark`
 * is not NULL. */
void fake_later(struct mpib_engine *e, mpib_done_fn *done, void *arg,
		bool *mark);
/* Queue an event of `conn`, or of `lane` if `conn` is NULL. */
void fake_event(struct mpib_engine *e, struct engine_conn *conn,
		struct mpib_lane *lane, int error, const char *why);

#endif
