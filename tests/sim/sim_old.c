/* SPDX-License-Identifier: Apache-2.0 */
/* A peer of the oldest protocol that is spoken: it says and hears of none newer.
 * What differs between the two is what the version decides (p->version). */
#include "peer/protocol.h"
#include "sim_node.h"
#include "sim_task.h"

#define OLD MPIB_PEER_VERSION_MIN

static bool is_newer(const struct mpib_peer_msg *m)
{
	return m->conn.slots && m->conn.slots != MPIB_SLOTS;
}

size_t __real_mpib_peer_encode(const struct mpib_peer_msg *m, uint8_t *buf);
size_t __wrap_mpib_peer_encode(const struct mpib_peer_msg *m, uint8_t *buf);
int __real_mpib_peer_decode(const uint8_t *buf, size_t len,
			    struct mpib_peer_msg *m);
int __wrap_mpib_peer_decode(const uint8_t *buf, size_t len,
			    struct mpib_peer_msg *m);

static bool is_old(void)
{
	const struct sim_proc *p = sim_proc_self();

	return p && p->is_old;
}

size_t __wrap_mpib_peer_encode(const struct mpib_peer_msg *m, uint8_t *buf)
{
	struct mpib_peer_msg old = *m;

	if (!is_old())
		return __real_mpib_peer_encode(m, buf);
	if (m->type == MPIB_PEER_HELLO)
		old.version = OLD;
	if (is_newer(m))
		sim_fail("a peer of protocol %u says %s", OLD,
			 mpib_peer_type_name(m->type));
	return __real_mpib_peer_encode(&old, buf);
}

int __wrap_mpib_peer_decode(const uint8_t *buf, size_t len,
			    struct mpib_peer_msg *m)
{
	int rc = __real_mpib_peer_decode(buf, len, m);

	if (rc < 0 || !is_old())
		return rc;
	if (m->type == MPIB_PEER_HELLO && m->version > OLD)
		m->version = OLD;
	/* Liars say it, too. */
	if (is_newer(m) && !sim_liars_came())
		sim_fail("a peer of protocol %u is told %s", OLD,
			 mpib_peer_type_name(m->type));
	return rc;
}
