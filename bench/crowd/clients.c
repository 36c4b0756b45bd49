/* SPDX-License-Identifier: Apache-2.0 */
/* The clients of the measured proxy, see crowd.h. */
#include "crowd/crowd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "peers/peer.h"

static void client_must(int rc, const char *call)
{
	if (rc < 0)
		peer_die("%s: %s", call, mpib_strerror());
}

static void *client_zeroed(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		peer_die("no memory for %zu times %zu bytes", n, size);
	return p;
}

void crowd_attach(struct crowd_clients *c, struct crowd_world *w,
		  const char *run_dir)
{
	*c = (struct crowd_clients){ .w = w };
	for (unsigned k = 0; k < CROWD_CLIENTS; k++) {
		struct mpib_attach_opts opts = { .size = sizeof(opts),
						 .run_dir = run_dir,
						 .timeout_ms = 60000 };

		client_must(mpib_attach(&opts, &c->client[k]), "mpib_attach");
		c->conn[k] = client_zeroed(w->nodes, sizeof(*c->conn[k]));
		if (k >= CROWD_SENDERS)
			client_must(mpib_listen(c->client[k], &w->client[k],
						&c->listener[k]),
				    "mpib_listen");
	}
	c->talk = client_zeroed(w->nodes, sizeof(*c->talk));
}

void crowd_links(struct crowd_clients *c)
{
	struct mpib_conn **conn = client_zeroed(c->w->nodes, sizeof(*conn));

	for (unsigned i = 0; i < c->w->nodes; i++) {
		struct mpib_handle handle = c->w->node[i];

		handle.nonce++;
		client_must(mpib_connect(c->client[0], &handle, -1, &conn[i]),
			    "mpib_connect");
	}
	for (unsigned i = 0; i < c->w->nodes; i++) {
		int rc;

		while ((rc = mpib_ready(conn[i])) == 0)
			usleep(100);
		if (rc != -ECONNREFUSED)
			peer_die("node %u: %s", i, mpib_strerror());
		mpib_close(conn[i]);
	}
	free(conn);
}

void crowd_connect(struct crowd_clients *c, unsigned from, unsigned to)
{
	for (unsigned k = from; k < to; k++) {
		for (unsigned i = 0; i < c->w->nodes; i++) {
			struct mpib_conn **conn = &c->conn[k][i];

			if (k < CROWD_SENDERS)
				client_must(mpib_connect(c->client[k],
							 &c->w->node[i], -1,
							 conn),
					    "mpib_connect");
			else
				client_must(mpib_accept(c->listener[k], conn),
					    "mpib_accept");
		}
	}
	if (from >= CROWD_SENDERS)
		crowd_say(c->w, CROWD_CALLING);
	for (unsigned k = from; k < to; k++) {
		for (unsigned i = 0; i < c->w->nodes; i++) {
			int rc;

			while ((rc = mpib_ready(c->conn[k][i])) == 0)
				usleep(100);
			client_must(rc, "mpib_ready");
		}
	}
}

void crowd_talk_begin(struct crowd_clients *c)
{
	c->mem = mpib_mem_alloc(c->client[0], CROWD_BYTES);
	if (!c->mem)
		peer_die("mpib_mem_alloc: %s", mpib_strerror());
	memset(c->mem, 1, CROWD_BYTES);
	client_must(mpib_reg(c->client[0], c->mem, CROWD_BYTES, &c->region),
		    "mpib_reg");
}

static void talk_post(struct crowd_clients *c, unsigned i, uint64_t now)
{
	struct crowd_talk *t = &c->talk[i];

	client_must(mpib_isend(c->conn[0][i], c->mem, CROWD_BYTES, 0, c->region,
			       &t->req),
		    "mpib_isend");
	t->posted = now;
}

void crowd_talk_turn(struct crowd_clients *c, uint64_t pause_ns)
{
	uint64_t now = peer_ns();

	for (unsigned i = 0; i < c->w->nodes; i++) {
		struct crowd_talk *t = &c->talk[i];
		int done = 0;

		if (t->req) {
			client_must(mpib_test(t->req, &done, NULL),
				    "mpib_test");
			if (!done)
				continue;
			now = peer_ns();
			t->req = NULL;
			t->over = now;
			c->messages++;
			if (!t->moved && t->posted >= c->mark)
				t->moved = now;
		}
		if (now - t->over >= pause_ns || !t->moved)
			talk_post(c, i, now);
	}
}

void crowd_mark(struct crowd_clients *c, uint64_t now)
{
	c->mark = now;
	for (unsigned i = 0; i < c->w->nodes; i++)
		c->talk[i].moved = 0;
	crowd_talk_turn(c, 0);
}

uint64_t crowd_moved(const struct crowd_clients *c)
{
	uint64_t last = 0;

	for (unsigned i = 0; i < c->w->nodes; i++) {
		if (!c->talk[i].moved)
			return 0;
		if (c->talk[i].moved > last)
			last = c->talk[i].moved;
	}
	return last;
}
