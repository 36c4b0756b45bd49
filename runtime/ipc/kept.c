/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that a sender keeps for tags that have none outstanding. A send holds
 * its request while it waits for its receive, so sends of one tag could else take
 * all of them for ever, and keep out the tag that a receive waits for. A receive
 * may wait for a send of each of MPIB_KEPT tags. On the connection's thread, when
 * it has no other request left.
 */
#include "ipc/client.h"

void mpib_kept_free(struct mpib_conn *conn, int tag)
{
	struct mpib_request *r;
	uint32_t idle = 0;

	for (r = conn->kept; r; r = r->next)
		idle |= 1u << mpib_request_index(r);
	for (unsigned i = 0; i < MPIB_REQUESTS; i++) {
		if (!(idle >> i & 1) && conn->req[i].buf[0].tag == tag)
			return;
	}
	r = conn->kept;
	if (!r)
		return;
	conn->kept = r->next;
	r->next = NULL;
	conn->free = r;
}
