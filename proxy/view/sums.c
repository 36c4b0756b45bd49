/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of a snapshot's connections. */
#include "view/sums.h"

#include <stdlib.h>

#include "base/hash.h"

struct sums_client {
	uint32_t id;
	struct mpib_client_sums sums;
	UT_hash_handle hh;
};

struct mpib_sums {
	struct sums_client *by_id;
	struct sums_client client[]; /* of the snapshot, in its order */
};

void mpib_sums_add(struct mpib_rail_counts *sum,
		   const struct mpib_rail_counts *n)
{
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		mpib_rail_counts_add(&sum[r], &n[r]);
}

static void sums_open(struct mpib_client_sums *sums,
		      const struct mpib_snap_conn *f)
{
	sums->connections++;
	sums->messages += f->messages;
	mpib_sums_add(sums->n, f->n);
}

static void sums_closed(struct mpib_client_sums *sums,
			const struct mpib_snap_client *c)
{
	sums->messages += c->closed_messages;
	sums->limited = c->held;
	mpib_sums_add(sums->closed, c->closed);
	mpib_sums_add(sums->n, c->closed);
}

void mpib_sums_of_client(const struct mpib_snapshot *snap, uint32_t client,
			 struct mpib_client_sums *sums)
{
	*sums = (struct mpib_client_sums){ 0 };
	for (uint32_t i = 0; i < snap->conns; i++) {
		if (snap->conn[i].client == client)
			sums_open(sums, &snap->conn[i]);
	}
	for (uint32_t i = 0; i < snap->clients; i++) {
		if (snap->client[i].id == client)
			sums_closed(sums, &snap->client[i]);
	}
}

static struct sums_client *sums_find(const struct mpib_sums *all, uint32_t id)
{
	struct sums_client *c;

	HASH_FIND(hh, all->by_id, &id, sizeof(id), c);
	return c;
}

struct mpib_sums *mpib_sums_all(const struct mpib_snapshot *snap)
{
	struct mpib_sums *all = calloc(
		1, sizeof(*all) + snap->clients * sizeof(all->client[0]));
	struct sums_client *c;

	if (!all)
		return NULL;
	for (uint32_t i = 0; i < snap->clients; i++) {
		c = &all->client[i];
		c->id = snap->client[i].id;
		sums_closed(&c->sums, &snap->client[i]);
		HASH_ADD(hh, all->by_id, id, sizeof(c->id), c);
	}
	for (uint32_t i = 0; i < snap->conns; i++) {
		c = sums_find(all, snap->conn[i].client);
		if (c)
			sums_open(&c->sums, &snap->conn[i]);
	}
	return all;
}

const struct mpib_client_sums *mpib_sums_get(const struct mpib_sums *all,
					     uint32_t client)
{
	static const struct mpib_client_sums nothing;
	const struct sums_client *c = sums_find(all, client);

	return c ? &c->sums : &nothing;
}

void mpib_sums_free(struct mpib_sums *all)
{
	HASH_CLEAR(hh, all->by_id);
	free(all);
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
