/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the engine: what a shard tells the control thread unasked.
 */
#ifndef MPIB_ENGINE_ASYNC_ERROR_H
#define MPIB_ENGINE_ASYNC_ERROR_H

#include <stdarg.h>

#include "engine/conn/conn.h"

struct mpib_async_error {
	struct mpib_msg msg;
	void *what;
	int error;
	char why[200];
};

/* The one allocation on a shard, made when something broke. Aborts when there
 * is no memory. */
struct mpib_async_error *mpib_async_error_new(void *what, int error,
					      const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));

/* Run on the control thread and free the notice. */
void mpib_async_error_conn(struct mpib_msg *msg);
void mpib_async_error_lane(struct mpib_msg *msg);

#endif
