/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why the last engine call failed, as text, kept until the caller reports it by
 * mpib_engine_last_error(). Control thread.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/shard.h"
#include "verbs/explain.h"

int mpib_last_error(const struct mpib_shard *s, unsigned rail, const char *call,
		    int rc)
{
	struct mpib_engine *e = s->engine;

	if (rc >= 0)
		return rc;
	e->last_error_rc = rc;
	mpib_verbs_explain(mpib_rail_spec(s, rail), &s->rail[rail].port.dev,
			   call, rc, e->last_error, sizeof(e->last_error));
	return rc;
}

int mpib_last_error_set(struct mpib_engine *e, int rc, const char *fmt, ...)
{
	va_list ap;

	e->last_error_rc = rc;
	va_start(ap, fmt);
	vsnprintf(e->last_error, sizeof(e->last_error), fmt, ap);
	va_end(ap);
	return rc;
}

int mpib_last_error_crowded(const struct mpib_shard *s, unsigned rail,
			    const char *what)
{
	return mpib_last_error_set(
		s->engine, -ENOSPC,
		"rail %s of shard %u has no room for %s: of %u completions "
		"%u are kept for users' receives and QPs (raise "
		"proxy.threads, or lower srq.high)",
		mpib_rail_name(rail), s->index, what, s->rail[rail].budget.size,
		atomic_load_explicit(&s->rail[rail].budget.promised,
				     memory_order_relaxed));
}

const char *mpib_engine_last_error(struct mpib_engine *engine, int rc)
{
	if (engine->last_error_rc != rc)
		return strerror(-rc);
	engine->last_error_rc = 0; /* tell it once: a later failure with the
				      same rc may have another cause */
	return engine->last_error;
}
