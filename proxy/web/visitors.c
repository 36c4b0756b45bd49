/* SPDX-License-Identifier: Apache-2.0 */
#include "web/visitors.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/rate.h"
#include "metrics/gather.h"
#include "web/access.h"

/* From a connection's begin, or its last answer, to the next answer's end. */
#define PATIENCE (10 * MPIB_SEC)
/* The uid of callers that the kernel does not know, as those from other machines:
 * each address counts as one user. */
#define NOBODY ((uid_t)-1)
/* A handshake is a signature's time of the control thread, whoever asks for it:
 * so many at once, and one each so often; a user, or an address, has a quarter of
 * either. */
#define SHAKES 32
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
	all->own = *own;
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

/* The user, or else the address, that counts for a connection between these. */
static void visitor_identify(const struct mpib_visitors *all,
			     const struct sockaddr_in *from,
			     const struct sockaddr_in *to, uid_t *uid,
			     in_addr_t *addr)
{
	*addr = 0;
	if (mpib_caller_uid(all->diag, from, to, uid) == 0)
		return;
	*uid = NOBODY;
	*addr = from->sin_addr.s_addr;
	/* This machine has as many of these as anybody likes. */
	if (ntohl(*addr) >> 24 == IN_LOOPBACKNET)
		*addr = htonl(INADDR_LOOPBACK);
}

static struct mpib_shaker *shaker_of(struct mpib_visitors *all)
{
	struct mpib_shaker *s = all->shaker, who = { 0 };
	struct sockaddr_in to = all->own;

	/* Not accepted yet. A listener on all networks is mostly called at the
	 * address that a caller of this machine calls from. */
	if (to.sin_addr.s_addr == htonl(INADDR_ANY))
		to.sin_addr = all->next.sin_addr;
	visitor_identify(all, &all->next, &to, &who.uid, &who.from);
	for (unsigned i = 0; i < MPIB_VISITORS_SHAKERS; i++) {
		struct mpib_shaker *one = &all->shaker[i];

		if (one->paid && one->uid == who.uid && one->from == who.from)
			return one;
		if (one->paid < s->paid)
			s = one;
	}
	*s = who;
	return s;
}

static bool shake(uint64_t *paid, uint64_t now, unsigned most, uint64_t each)
{
	if (mpib_rate_wait(*paid, now, most * each - 1))
		return false;
	mpib_rate_pay(paid, now, each);
	return true;
}

bool mpib_visitors_admit(struct mpib_visitors *all,
			 const struct sockaddr_in *from, bool tls)
{
	uint64_t now = mpib_loop_now(all->loop);
	struct mpib_shaker *s;

	all->next = *from;
	if (!tls)
		return true;
	s = shaker_of(all);
	return shake(&s->paid, now, SHAKES / 4, 4 * SHAKE_NS) &&
	       (s->uid == 0 || shake(&all->paid, now, SHAKES, SHAKE_NS));
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
	struct sockaddr_in own;
	socklen_t len = sizeof(own);

	if (!v)
		goto err_hang_up;
	v->all = all;
	v->fd = fd;
	/* The address that it came in at: the listener's may be that of all
	 * networks. */
	if (getsockname(fd, (struct sockaddr *)&own, &len) < 0)
		goto err_free;
	visitor_identify(all, &all->next, &own, &v->uid, &v->from);
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
