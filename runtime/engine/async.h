/* SPDX-License-Identifier: Apache-2.0 */
/* Engine-internal: a shard's notice to the control thread that a connection or
 * a lane broke. */
#ifndef MPIB_ENGINE_ASYNC_H
#define MPIB_ENGINE_ASYNC_H

#include <stdarg.h>

#include "engine/conn/conn.h"

struct mpib_async_error {
	struct mpib_msg msg;
	void *what;
	int error;
	char why[200];
};

/* Create a notice. This is the only allocation that a shard thread makes, and
 * only if something broke. Aborts without memory. */
struct mpib_async_error *mpib_async_error_new(void *what, int error,
					      const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));

/* The shard sees the rail's port go up or down, or has lost its device. why is
 * for the event. Control thread. */
void mpib_async_port(struct mpib_shard *s, unsigned rail, bool up,
		     const char *why);
/* Message handlers: run on the control thread, call the engine's event and free
 * the notice. */
void mpib_async_error_conn(struct mpib_msg *msg);
void mpib_async_error_lane(struct mpib_msg *msg);

#endif
