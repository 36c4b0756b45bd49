/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports at the start of the engine. A port that is down makes its rail away, as
 * if its device had failed (absent.h): the next proxy uses it, once the port is
 * up. A node that just booted is so never taken for one with
 * fewer rails. Nor is one with a device that does not answer, of which no context
 * need be there. Control thread, before the shards run.
 */
#include <errno.h>
#include <mpib/wire.h>
#include <stdio.h>
#include <sys/epoll.h>

#include "base/event.h"
#include "engine/rail/absent.h"
#include "verbs/rdma/rdma.h"

bool mpib_rail_silent(struct mpib_shard *s, unsigned r, int rc)
{
	if (rc != -EIO)
		return false;
	s->rail[r].port.state = IBV_PORT_NOP;
	return true;
}

/* What every lane says of every rail, and where the rail is, though the device
 * never told it. */
static void down_assume(struct mpib_shard *s)
{
	for (unsigned r = 0; r < s->engine->cfg.rails; r++) {
		struct mpib_port_info *port = &s->rail[r].port;
		const struct mpib_rail *other =
			&s->rail[s->engine->cfg.rails - 1 - r];

		if (s->rail[r].ctx)
			continue;
		if (mpib_rail_spec(s, r)->provider == MPIB_PROVIDER_RDMA)
			mpib_rdma_place(mpib_rail_spec(s, r), port);
		port->mtu = other->ctx ? other->port.mtu : IBV_MTU_1024;
		port->max_msg_sz =
			other->ctx ? other->port.max_msg_sz : MPIB_MSG_LEAST;
		port->link_layer = other->ctx ? other->port.link_layer
					      : IBV_LINK_LAYER_ETHERNET;
	}
}

int mpib_rails_open(struct mpib_shard *s, char *why, size_t why_len)
{
	for (unsigned r = 0; r < s->engine->cfg.rails; r++) {
		int rc = mpib_rail_open(&s->rail[r], mpib_rail_spec(s, r),
					65536, why, why_len);

		if (rc < 0 && !mpib_rail_silent(s, r, rc)) {
			while (r-- > 0)
				mpib_rail_close(&s->rail[r]);
			return rc;
		}
	}
	*why = '\0';
	down_assume(s);
	return 0;
}

static void down_tell(const struct mpib_shard *s, unsigned r)
{
	unsigned number = mpib_rail_number(s, r);
	struct mpib_event_about about = { .rails = 1u << number };

	/* All shards of a device see the same port. */
	if (s->index % s->engine->cfg.shards)
		return;
	if (s->rail[r].port.state == IBV_PORT_NOP)
		mpib_event(MPIB_LOG_WARN, "rail_down", &about,
			   "rail %u (%s): the device does not answer, the rail "
			   "is away until it does (its firmware may hang: see "
			   "dmesg)",
			   number, mpib_rail_spec(s, r)->name);
	else
		mpib_event(
			MPIB_LOG_WARN, "rail_down", &about,
			"rail %u (%s): the port is down, the rail is away "
			"until it comes up (look at cable and switch; RoCE: ip "
			"link set up; InfiniBand: is a subnet manager "
			"running?)",
			number, mpib_rail_spec(s, r)->name);
}

static void down_settle(struct mpib_shard *s, unsigned r)
{
	struct mpib_rail *rail = &s->rail[r];

	rail->up = rail->port.state == IBV_PORT_ACTIVE;
	rail->dead = rail->lost = !rail->up;
	s->engine->rail_up[mpib_rail_number(s, r)] = rail->up;
	if (rail->up)
		return;
	/* Nobody would read the event that a device which fails leaves there. */
	if (rail->ctx)
		epoll_ctl(s->epfd, EPOLL_CTL_DEL, rail->channel->fd, NULL);
	down_tell(s, r);
}

/* A port or a device that changed between the shards' opens is away for all of
 * them, for clients of the device have any of them. */
static void down_agree(struct mpib_shard *s, unsigned r)
{
	const struct mpib_shard *first = s - s->index % s->engine->cfg.shards;
	uint8_t state = IBV_PORT_ACTIVE;

	for (unsigned i = 0; i < s->engine->cfg.shards; i++) {
		if (first[i].rail[r].port.state != IBV_PORT_ACTIVE)
			state = first[i].rail[r].port.state;
	}
	s->rail[r].port.state = state;
}

void mpib_engine_settle_ports(struct mpib_engine *e)
{
	for (unsigned i = 0; i < e->shards; i++) {
		struct mpib_shard *s = &e->shard[i];

		for (unsigned r = 0; r < e->cfg.rails; r++) {
			down_agree(s, r);
			down_settle(s, r);
		}
	}
}
