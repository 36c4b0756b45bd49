/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a call of the control thread failed of, kept for whoever has
 * somebody to tell.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/shard.h"
#include "verbs/explain.h"

int mpib_trouble(struct mpib_engine *e, unsigned rail, const char *call, int rc)
{
	if (rc >= 0)
		return rc;
	e->trouble_rc = rc;
	mpib_verbs_explain(&e->cfg.rail[rail], call, rc, e->trouble,
			   sizeof(e->trouble));
	return rc;
}

int mpib_trouble_say(struct mpib_engine *e, int rc, const char *fmt, ...)
{
	va_list ap;

	e->trouble_rc = rc;
	va_start(ap, fmt);
	vsnprintf(e->trouble, sizeof(e->trouble), fmt, ap);
	va_end(ap);
	return rc;
}

int mpib_trouble_crowded(const struct mpib_shard *s, unsigned rail,
			 const char *what)
{
	return mpib_trouble_say(
		s->engine, -ENOSPC,
		"rail %s of shard %u has no room for %s: of %u completions "
		"%u are kept for users' receives and QPs (raise "
		"proxy.threads, or lower srq.high)",
		mpib_rail_name(rail), s->index, what, s->rail[rail].budget.size,
		atomic_load_explicit(&s->rail[rail].budget.promised,
				     memory_order_relaxed));
}

const char *mpib_engine_trouble(struct mpib_engine *engine, int rc)
{
	if (engine->trouble_rc != rc)
		return strerror(-rc);
	engine->trouble_rc = 0; /* told; a later failure may be another's */
	return engine->trouble;
}
