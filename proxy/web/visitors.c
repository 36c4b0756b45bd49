/* SPDX-License-Identifier: Apache-2.0 */
#include "web/visitors.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "view/readers.h"
#include "web/caller.h"

/* From a connection's begin, or its last answer, to the next answer's end. */
#define PATIENCE (10 * MPIB_SEC)
/* Whom the kernel does not know: each address is one user like others. */
#define NOBODY ((uid_t)-1)
/* A handshake is a signature's time of the control thread, whoever asks for it:
 * so many at once, and one each so often. */
#define SHAKES 8
#define SHAKE_NS (MPIB_SEC / 20)

struct mpib_visitor {
	struct mpib_visitors *all;
	TAILQ_ENTRY(mpib_visitor) link;
	uid_t uid;
	in_addr_t from; /* of whom the uid is not known */
	int fd;
	struct mpib_timer timer;
};

void mpib_visitors_open(struct mpib_visitors *all, struct mpib_loop *loop,
			const struct sockaddr_in *own)
{
	all->loop = loop;
	TAILQ_INIT(&all->list);
	all->diag = mpib_caller_open(own);
	if (all->diag < 0)
		mpib_warn("metrics.listen: the kernel does not say which user "
			  "connects (%s), so that one can take all places",
			  strerror(-all->diag));
}

void mpib_visitors_close(struct mpib_visitors *all)
{
	if (all->diag >= 0)
		close(all->diag);
}

/* Whether there is room for next. */
static bool visitor_fits(const struct mpib_visitors *all,
			 const struct mpib_visitor *next)
{
	const struct mpib_visitor *v;
	unsigned others = 0, same = 0;

	TAILQ_FOREACH(v, &all->list, link)
	{
		others += v->uid != 0;
		same += v->uid == next->uid && v->from == next->from;
	}
	if (all->diag < 0 && next->from == htonl(INADDR_LOOPBACK))
		return others < MPIB_VISITORS_MAX;
	return mpib_reader_fits(next->uid, same, others, MPIB_VISITORS_MAX,
				MPIB_VISITORS_ROOT);
}

bool mpib_visitors_admit(struct mpib_visitors *all,
			 const struct sockaddr_in *from, bool tls)
{
	uint64_t now = mpib_loop_now(all->loop);

	all->next = *from;
	if (!tls)
		return true;
	if (all->paid < now)
		all->paid = now;
	if (all->paid - now >= SHAKES * SHAKE_NS)
		return false;
	all->paid += SHAKE_NS;
	return true;
}

/* Whose the connection is. It is asked for by the address that it came in at:
 * the listening socket's may be that of all networks. */
static void visitor_identify(struct mpib_visitor *v)
{
	const struct sockaddr_in *from = &v->all->next;
	struct sockaddr_in own;
	socklen_t len = sizeof(own);

	if (getsockname(v->fd, (struct sockaddr *)&own, &len) == 0 &&
	    mpib_caller_uid(v->all->diag, from, &own, &v->uid) == 0)
		return;
	v->uid = NOBODY;
	v->from = from->sin_addr.s_addr;
	/* This machine has as many of these as anybody likes. */
	if (ntohl(v->from) >> 24 == IN_LOOPBACKNET)
		v->from = htonl(INADDR_LOOPBACK);
}

static void on_late(void *arg)
{
	struct mpib_visitor *v = arg;

	mpib_debug("a reader of HTTP was dropped: it takes too long");
	shutdown(v->fd, SHUT_RDWR);
}

struct mpib_visitor *mpib_visitor_new(struct mpib_visitors *all, int fd)
{
	struct mpib_visitor *v = calloc(1, sizeof(*v));

	if (!v)
		goto err_hang_up;
	v->all = all;
	v->fd = fd;
	visitor_identify(v);
	if (!visitor_fits(all, v))
		goto err_free;
	TAILQ_INSERT_TAIL(&all->list, v, link);
	mpib_visitor_answered(v);
	return v;

err_free:
	free(v);
err_hang_up:
	shutdown(fd, SHUT_RDWR);
	return NULL;
}

void mpib_visitor_answered(struct mpib_visitor *v)
{
	mpib_timer_arm(v->all->loop, &v->timer, PATIENCE, on_late, v);
}

void mpib_visitor_free(struct mpib_visitor *v)
{
	mpib_timer_disarm(v->all->loop, &v->timer);
	TAILQ_REMOVE(&v->all->list, v, link);
	free(v);
}
