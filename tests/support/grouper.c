/* SPDX-License-Identifier: Apache-2.0 */
/* Move and check messages with grouped receives, see grouper.h. */
#include "grouper.h"

#include <string.h>

static size_t room(const struct grouper *g)
{
	return g->m.room / GROUPER_N / 8 * 8;
}

static void fill(struct grouper *g)
{
	struct mover *m = &g->m;

	for (size_t i = 0; i + 8 <= m->room; i += 8) {
		m->seed = m->seed * 6364136223846793005u + 1442695040888963407u;
		memcpy(m->src + i, &m->seed, 8);
	}
	for (unsigned i = 0; i < GROUPER_N; i++)
		g->size[i] = (m->seed >> (20 + i)) % (room(g) + 1);
}

static int post_receive(struct grouper *g)
{
	struct mpib_region *mr[GROUPER_N];
	void *to[GROUPER_N];
	size_t size[GROUPER_N];
	int tag[GROUPER_N];

	for (unsigned i = 0; i < GROUPER_N; i++) {
		mr[i] = g->m.rx_mr;
		to[i] = g->m.dst + i * room(g);
		size[i] = room(g);
		tag[i] = (int)(100 + i);
	}
	return mpib_irecv(g->m.rx, GROUPER_N, to, size, tag, mr, &g->received);
}

static int post(struct grouper *g)
{
	int rc;

	if (!g->received) {
		fill(g);
		rc = post_receive(g);
		if (rc < 0 || !g->received)
			return rc;
		g->posted = 0;
	}
	while (g->posted < GROUPER_N) {
		unsigned i = (g->posted + (unsigned)g->m.messages) % GROUPER_N;

		rc = mpib_isend(g->m.tx, g->m.src + i * room(g), g->size[i],
				(int)(100 + i), g->m.tx_mr, &g->sent[i]);
		if (rc < 0 || !g->sent[i])
			return rc;
		g->posted++;
	}
	g->flying = true;
	return 1;
}

static void compare(struct grouper *g)
{
	for (unsigned i = 0; i < GROUPER_N; i++)
		g->m.wrong += g->got[i] != g->size[i] ||
			      memcmp(g->m.src + i * room(g),
				     g->m.dst + i * room(g), g->size[i]);
}

int grouper_step(struct grouper *g)
{
	int done, rc;

	if (!g->flying)
		return post(g);
	done = rc = mover_look(&g->received, g->got);
	for (unsigned i = 0; i < GROUPER_N && rc >= 0; i++) {
		rc = mover_look(&g->sent[i], NULL);
		done = done && rc;
	}
	if (rc < 0 || !done)
		return rc < 0 ? rc : 0;
	compare(g);
	g->m.messages++;
	g->flying = false;
	return 1;
}
