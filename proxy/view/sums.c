/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of a snapshot's connections. */
#include "view/sums.h"

void mpib_sums_add(struct mpib_rail_counts *sum,
		   const struct mpib_rail_counts *n)
{
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		mpib_rail_counts_add(&sum[r], &n[r]);
}

void mpib_sums_of_client(const struct mpib_snapshot *snap, uint32_t client,
			 struct mpib_client_sums *sums)
{
	*sums = (struct mpib_client_sums){ 0 };
	for (uint32_t i = 0; i < snap->conns; i++) {
		const struct mpib_snap_conn *f = &snap->conn[i];

		if (f->client != client)
			continue;
		sums->connections++;
		sums->messages += f->messages;
		mpib_sums_add(sums->n, f->n);
	}
	for (uint32_t i = 0; i < snap->clients; i++) {
		const struct mpib_snap_client *c = &snap->client[i];

		if (c->id != client)
			continue;
		sums->messages += c->closed_messages;
		sums->limited = c->held;
		mpib_sums_add(sums->closed, c->closed);
		mpib_sums_add(sums->n, c->closed);
	}
}

/* A rail counts what all connections ever moved; what is left after taking off
 * the open connections was moved by closed ones. */
void mpib_sums_closed(const struct mpib_snapshot *snap,
		      struct mpib_rail_counts *closed)
{
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		closed[r] = (struct mpib_rail_counts){ 0 };
	for (unsigned r = 0; r < mpib_snap_rails(snap); r++)
		mpib_rail_counts_add(&closed[r % snap->rails],
				     &snap->rail[r].n);
	for (uint32_t i = 0; i < snap->conns; i++) {
		for (unsigned r = 0; r < MPIB_RAILS; r++)
			mpib_rail_counts_sub(&closed[r], &snap->conn[i].n[r]);
	}
}
