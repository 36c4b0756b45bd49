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
/* Whom the kernel does not know: one user like others. */
#define NOBODY ((uid_t)-1)

struct mpib_visitor {
	struct mpib_visitors *all;
	TAILQ_ENTRY(mpib_visitor) link;
	uid_t uid;
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
static bool visitor_fits(const struct mpib_visitors *all)
{
	const struct mpib_visitor *v;
	unsigned others = 0, same = 0;

	TAILQ_FOREACH(v, &all->list, link)
	{
		others += v->uid != 0;
		same += v->uid == all->next;
	}
	if (all->diag < 0)
		return others < MPIB_VISITORS_MAX;
	return mpib_reader_fits(all->next, same, others, MPIB_VISITORS_MAX,
				MPIB_VISITORS_ROOT);
}

bool mpib_visitors_admit(struct mpib_visitors *all,
			 const struct sockaddr_in *from)
{
	if (mpib_caller_uid(all->diag, from, &all->own, &all->next) < 0)
		all->next = NOBODY;
	return visitor_fits(all);
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
		return NULL;
	v->all = all;
	v->uid = all->next;
	v->fd = fd;
	TAILQ_INSERT_TAIL(&all->list, v, link);
	mpib_visitor_answered(v);
	return v;
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
