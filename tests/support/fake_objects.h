/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of the fake engine. */
#ifndef MPIB_FAKE_OBJECTS_H
#define MPIB_FAKE_OBJECTS_H

#include "fake_engine.h"

/* Unless ok, a rule was broken: what says which. */
void fake_expect(bool ok, const char *what);
void fake_forget(void);
/* Call done(arg, 0) at a later dispatch; *mark, if any, is true from then. */
void fake_later(struct mpib_engine *e, mpib_done_fn *done, void *arg,
		bool *mark);
/* An event of connection, or of lane. */
void fake_event(struct mpib_engine *e, struct engine_conn *conn,
		struct mpib_lane *lane, int error, const char *why);

#endif
