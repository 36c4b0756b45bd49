/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registration of a client's memory at another proxy. The requests are sent without
 * waiting for the answers to those before, so that many regions do not cost as many
 * round trips.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ipc/client.h"
#include "ipc/message.h"

/* Send the request. -EAGAIN: the socket is full. */
static int memory_send(struct mpib_client *c, struct mpib_attached *at,
		       struct mpib_memory *memory, unsigned i)
{
	struct mpib_ctl_reg_fd ask = {
		.h = { .type = MPIB_CTL_REG_FD,
		       .id = mpib_rpc_id(c),
		       .len = sizeof(ask) },
		.offset = memory->offset,
		.size = memory->size,
		.flags = memory->flags,
	};
	int fd = mpib_keep_lend(c, memory->kept), rc;

	if (fd < 0)
		return mpib_fail(fd,
				 "no descriptor is left to register memory "
				 "again: %s (raise the limit, ulimit -n)",
				 mpib_errtext(fd));
	rc = mpib_message_send(at->sock, &ask.h, &fd, 1);
	close(fd);
	if (rc < 0)
		return rc == -EAGAIN
			       ? rc
			       : mpib_fail(rc, "asking the proxy at %s: %s",
					   c->path, mpib_errtext(rc));
	memory->at = at->number;
	at->registering[i].memory = memory;
	at->registering[i].id = ask.h.id;
	return 0;
}

/* The memory that is to be registered next at this proxy; NULL: none. */
static struct mpib_memory *memory_next(const struct mpib_client *c,
				       const struct mpib_attached *at)
{
	struct mpib_region *r;
	struct mpib_pool *p;

	LIST_FOREACH(p, &c->pools, link)
	{
		if (p->memory.at != at->number)
			return &p->memory;
	}
	LIST_FOREACH(r, &c->regions, link)
	{
		if (r->own_mr && r->memory.at != at->number)
			return &r->memory;
	}
	return NULL;
}

/* Send what the socket takes. *waits: for how many answers. */
static int memory_send_all(struct mpib_client *c, struct mpib_attached *at,
			   unsigned *waits)
{
	struct mpib_memory *memory = memory_next(c, at);
	bool full = false;
	int rc;

	*waits = 0;
	for (unsigned i = 0; i < MPIB_REGISTERING; i++) {
		if (!at->registering[i].id && memory && !full) {
			rc = memory_send(c, at, memory, i);
			full = rc == -EAGAIN;
			if (rc < 0 && !full)
				return rc;
			memory = memory_next(c, at);
		}
		*waits += at->registering[i].id != 0;
	}
	if (full && *waits == 0)
		return mpib_fail(-ETIMEDOUT, "the proxy at %s reads nothing",
				 c->path);
	return 0;
}

/* Without waiting for the answer: no peer has a key of this region yet. */
static void memory_deregister(struct mpib_client *c,
			      const struct mpib_attached *at, uint32_t mr)
{
	struct mpib_ctl_id ask = { .h = { .type = MPIB_CTL_DEREG,
					  .id = mpib_rpc_id(c),
					  .len = sizeof(ask) },
				   .id = mr };

	/* The helper attaches again after this. */
	if (mpib_message_send(at->sock, &ask.h, NULL, 0) < 0)
		shutdown(at->sock, SHUT_RDWR);
}

void mpib_memory_drop(struct mpib_client *c, struct mpib_memory *memory)
{
	struct mpib_attached *at = c->successor;
	bool asked = false;

	mpib_keep_close(c, memory->kept);
	if (!at || memory->at != at->number)
		return;
	for (unsigned i = 0; i < MPIB_REGISTERING; i++) {
		if (at->registering[i].memory == memory) {
			asked |= at->registering[i].id != 0;
			at->registering[i].memory = NULL;
		}
	}
	if (!asked)
		memory_deregister(c, at, memory->mr);
}

static int memory_answered(struct mpib_client *c, struct mpib_attached *at,
			   struct mpib_message *m)
{
	const struct mpib_ctl_region *got = (const void *)m->bytes;
	unsigned i = 0;
	int rc;

	while (i < MPIB_REGISTERING && at->registering[i].id != m->h.id)
		i++;
	if (m->h.type == MPIB_CTL_NEXT)
		at->serves = true;
	if (i == MPIB_REGISTERING || !m->h.id) {
		mpib_message_close_fds(m);
		return 0;
	}
	at->registering[i].id = 0;
	rc = mpib_rpc_check(m, sizeof(*got));
	if (rc < 0)
		return rc;
	if (at->registering[i].memory)
		at->registering[i].memory->mr = got->mr;
	else
		memory_deregister(c, at, got->mr);
	mpib_message_close_fds(m);
	return 0;
}

/* Take the answers that came. */
static int memory_hear(struct mpib_client *c, struct mpib_attached *at)
{
	struct mpib_message m;
	int rc, got;

	while ((got = mpib_message_recv(at->sock, &m)) == 1) {
		rc = memory_answered(c, at, &m);
		if (rc < 0)
			return rc;
	}
	if (got == -EAGAIN)
		return 0;
	return mpib_fail(-EPIPE, "the proxy at %s hung up (see its log)",
			 c->path);
}

int mpib_memory_step(struct mpib_client *c, struct mpib_attached *at)
{
	unsigned waits = 0;
	int rc = memory_hear(c, at);

	if (rc == 0)
		rc = memory_send_all(c, at, &waits);
	return rc < 0 ? rc : waits > 0;
}

int mpib_memory_register(struct mpib_client *c, struct mpib_attached *at)
{
	int rc;

	for (;;) {
		rc = mpib_memory_step(c, at);
		if (rc < 0 || (rc == 0 && at->serves))
			return rc;
		rc = mpib_wait_socket(c, at->sock, POLLIN,
				      mpib_now_ms() + c->answer_ms);
		if (rc < 0)
			return rc;
	}
}
