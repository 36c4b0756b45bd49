/* SPDX-License-Identifier: Apache-2.0 */
/* Division of a send op's bytes between the rails, by the current policy. Shard
 * thread, except mpib_policy_home(). */
#include <mpib/agent.h>

#include "base/copy.h"
#include "engine/conn/conn.h"
#include "engine/split/mode.h"

static uint32_t hint_slot(const struct engine_conn *f)
{
	/* Relaxed: engine_conn_set_hint() publishes only this number. */
	return atomic_load_explicit(&f->hint_slot, memory_order_relaxed);
}

/* Return the agent's entry for this connection. NULL: no agent, no hint, or a
 * hint number out of range. */
static const struct mpib_hint_entry *hint_of(const struct engine_conn *f)
{
	const struct mpib_hint_shm *shm = f->shard->engine->hints;
	uint32_t slot = hint_slot(f);

	if (!shm || slot >= MPIB_HINT_SLOTS_MAX)
		return NULL;
	return mpib_hint_at(shm, slot);
}

/* Read the hint. In adaptive mode, MPIB_HINT_OWN and a missing hint both leave
 * the split to the lane's measurements. In advanced mode, SUP carries nothing
 * if the hint is missing. */
static uint32_t read_hint(struct engine_conn *f)
{
	const struct mpib_hint_entry *entry = hint_of(f);
	bool adaptive = f->shard->engine->cfg.mode == MPIB_MODE_ADAPTIVE;
	uint32_t sup_bw = adaptive ? MPIB_HINT_OWN : 0;

	if (entry) {
		/* If the agent has shortened its file, the read returns
		 * zeros. */
		mpib_bus_begin(entry, entry, sizeof(*entry));
		sup_bw = mpib_hint_read(entry, f->hint);
		mpib_bus_end();
	}
	if (sup_bw > MPIB_SUP_BW_ALL)
		sup_bw = adaptive ? MPIB_HINT_OWN : MPIB_SUP_BW_ALL;
	if (sup_bw != f->hint) {
		f->hint = sup_bw;
		f->hint_since = f->shard->now;
	}
	return sup_bw;
}

/* Return whether other send ops wait for the rails: of this connection, of its
 * group, or of another connection of the shard. */
static inline bool has_company(const struct engine_conn *f)
{
	return f->tx.range_head - f->tx.range_tail > 1 || f->tx.group.n ||
	       f->drr.parent->children > 1 ||
	       f->drr.parent->parent->children > 1 ||
	       f->shard->drrs.children > 1;
}

static inline uint32_t split_measured(struct engine_conn *f, uint32_t total,
				      uint32_t len, const uint32_t *planned)
{
	struct mpib_lane *lane = f->lane;
	enum mpib_adapt_op op = total <= MPIB_ADAPT_SMALL ? MPIB_ADAPT_SHORT
				: has_company(f)	  ? MPIB_ADAPT_FOLLOWED
							  : MPIB_ADAPT_ALONE;

	return mpib_adapt_split(&lane->adapt, lane->track, op, len, planned,
				f->shard->now);
}

static uint64_t policy_later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Fill in the split of adaptive mode. It comes from the hint or, without a
 * hint, from the lane's measurements. A hint does not cut small messages.
 * Return the time since which the split applies. */
static uint64_t policy_adaptive(const struct engine_conn *f, uint32_t hint,
				struct mpib_split_why *why)
{
	const struct mpib_adapt *adapt = &f->lane->adapt;

	why->small = hint && hint != MPIB_SUP_BW_ALL ? MPIB_ADAPT_SMALL : 0;
	if (hint <= MPIB_SUP_BW_ALL) {
		why->source = MPIB_SPLIT_HINT;
		why->sup_bw = hint;
		return f->hint_since;
	}
	why->source = MPIB_SPLIT_ADAPTIVE;
	why->sup_bw = adapt->share;
	return policy_later(adapt->since, f->hint_since);
}

/* Fill in the current split for a send op that starts at byte `pos` of its
 * message. All send ops of a message use the hint that was read at its start.
 * Return the time since which the split applies; 0: always. */
static uint64_t policy_of(struct engine_conn *f, uint32_t pos,
			  struct mpib_split_why *why)
{
	const struct mpib_engine *e = f->shard->engine;
	const struct mpib_lane *lane = f->lane;
	bool intra = lane->path == MPIB_PATH_INTRA;
	bool sup = lane->use & mpib_rail_bit(MPIB_RAIL_SUP);

	if (lane->use != lane->all) {
		/* If one rail has failed and the other is drained, report the
		 * failure as the source. */
		why->source = lane->open != lane->all ? MPIB_SPLIT_FAILOVER
						      : MPIB_SPLIT_DRAIN;
		why->sup_bw = sup ? MPIB_SUP_BW_ALL : 0;
		return 0;
	}
	switch ((enum mpib_mode)e->cfg.mode) {
	case MPIB_MODE_VANILLA:
		why->source = MPIB_SPLIT_ISOLATION;
		why->sup_bw = intra ? MPIB_SUP_BW_ALL : 0;
		return 0;
	case MPIB_MODE_ADVANCED:
		why->source = MPIB_SPLIT_HINT;
		why->sup_bw = pos == 0 ? read_hint(f) : f->hint;
		if (why->sup_bw && lane->path == MPIB_PATH_INTER)
			why->small = e->cfg.bdp;
		return f->hint_since;
	case MPIB_MODE_ADAPTIVE:
		return policy_adaptive(f, pos == 0 ? read_hint(f) : f->hint,
				       why);
	case MPIB_MODE_STATIC:
		break;
	}
	why->source = MPIB_SPLIT_STATIC;
	/* Relaxed: mpib_engine_tune() may change the value between two send
	 * ops. */
	why->sup_bw = __atomic_load_n(&e->cfg.sup_bw, __ATOMIC_RELAXED);
	return atomic_load_explicit(&e->sup_bw_since, memory_order_relaxed);
}

/* Split by a policy other than the lane's measurements. */
__attribute__((noinline)) static uint32_t
split_ruled(struct engine_conn *conn, uint32_t total, uint32_t pos,
	    uint32_t len, const uint32_t *planned)
{
	bool adaptive = conn->shard->engine->cfg.mode == MPIB_MODE_ADAPTIVE;
	struct mpib_split_why why = { 0 };
	bool small;

	if (!len)
		return 0;
	policy_of(conn, pos, &why);
	small = total <= why.small;
	if (why.source == MPIB_SPLIT_ADAPTIVE || (adaptive && small))
		return split_measured(conn, total, len, planned);
	conn->lane->adapt.answer = MPIB_ADAPT_NONE;
	return small ? 0 : mpib_sup_bytes(why.sup_bw, len);
}

uint32_t mpib_split_both(struct engine_conn *conn, uint32_t total, uint32_t pos,
			 uint32_t len, const uint32_t *planned)
{
	const struct mpib_engine *e = conn->shard->engine;

	/* The usual case: the lane's measurements decide. */
	if (len && conn->lane->use == conn->lane->all &&
	    e->cfg.mode == MPIB_MODE_ADAPTIVE && !e->hints &&
	    conn->hint > MPIB_SUP_BW_ALL)
		return split_measured(conn, total, len, planned);
	return split_ruled(conn, total, pos, len, planned);
}

uint8_t mpib_policy_home(const struct mpib_lane *lane)
{
	const struct mpib_engine_config *cfg = &lane->shard->engine->cfg;
	bool sup = false;

	if (cfg->mode == MPIB_MODE_VANILLA)
		sup = lane->path == MPIB_PATH_INTRA;
	else if (cfg->mode == MPIB_MODE_STATIC)
		sup = cfg->sup_bw >= MPIB_SUP_BW_ALL;
	return sup && lane->rails > 1 ? MPIB_RAIL_SUP : MPIB_RAIL_SOUT;
}

void mpib_policy_why(struct engine_conn *conn, struct mpib_split_why *why)
{
	const struct mpib_lane *lane = conn->lane;
	uint8_t mode = conn->shard->engine->cfg.mode;
	uint64_t since = 0;

	*why = (struct mpib_split_why){ .source = MPIB_SPLIT_STATIC,
					.hint_slot = UINT32_MAX };
	if (mode == MPIB_MODE_ADVANCED || mode == MPIB_MODE_ADAPTIVE)
		why->hint_slot = hint_slot(conn);
	/* Between messages, and at a receiver, read the hint that the next
	 * message would use. */
	if (lane->rails == MPIB_RAILS)
		since = policy_of(conn, conn->is_sender ? conn->tx.pos : 0,
				  why);
	else
		why->source = mode == MPIB_MODE_VANILLA ? MPIB_SPLIT_ISOLATION
							: MPIB_SPLIT_ONE_RAIL;
	/* A change of the rails in use also changes the split. The split is not
	 * older than the connection. */
	since = policy_later(policy_later(since, lane->use_since), conn->since);
	why->age_ns = conn->shard->now > since ? conn->shard->now - since : 0;
}
