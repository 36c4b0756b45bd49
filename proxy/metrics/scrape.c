/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics socket: one snapshot as text per reader, then close. */
#include "metrics/scrape.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/acceptor.h"
#include "base/closer.h"
#include "base/log.h"
#include "base/waking.h"
#include "metrics/gather.h"
#include "metrics/texts.h"

#define PATIENCE (5 * MPIB_SEC)
#define FOR_ROOT 8u /* places beside limit.readers */

struct scrape {
	struct mpib_scrapes *sock;
	TAILQ_ENTRY(scrape) link;
	int fd;
	uid_t uid;
	struct mpib_waking waking;
	struct mpib_io watch;
	struct mpib_timer timer;
	uint64_t ticket; /* of the text that is waited for */
	char *out; /* NULL until it is there */
	size_t len, at;
};

struct mpib_scrapes {
	struct mpib_gather *gather;
	struct mpib_acceptor acceptor;
	TAILQ_HEAD(, scrape) scrapes;
	struct mpib_texts texts;
};

static void scrape_drop(struct scrape *s)
{
	struct mpib_scrapes *m = s->sock;

	mpib_timer_disarm(m->gather->loop, &s->timer);
	mpib_loop_del(m->gather->loop, &s->watch);
	mpib_close_of(s->uid, s->fd);
	TAILQ_REMOVE(&m->scrapes, s, link);
	free(s->out);
	free(s);
}

static void on_slow(void *arg)
{
	scrape_drop(arg);
}

static void scrape_flush(struct scrape *s)
{
	while (s->at < s->len) {
		uint64_t began = mpib_waking_begin();
		ssize_t n = send(s->fd, s->out + s->at, s->len - s->at,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (!mpib_waking_end(&s->waking, began))
			break;
		if (n < 0 && errno == EAGAIN) {
			mpib_loop_mod(s->sock->gather->loop, &s->watch,
				      EPOLLOUT);
			return;
		}
		if (n < 0)
			break;
		s->at += (size_t)n;
	}
	scrape_drop(s);
}

/* Tell the text to s, or drop it. */
static void scrape_tell(struct scrape *s, const char *text)
{
	s->out = text ? strdup(text) : NULL;
	if (!s->out) {
		mpib_warn("metrics: out of memory");
		scrape_drop(s);
		return;
	}
	s->len = strlen(s->out);
	scrape_flush(s);
}

static void scrapes_on_text(void *arg, enum mpib_text which, uint64_t ticket,
			    char *text)
{
	struct mpib_scrapes *m = arg;
	struct scrape *s, *next;

	(void)which;
	for (s = TAILQ_FIRST(&m->scrapes); s; s = next) {
		next = TAILQ_NEXT(s, link);
		if (!s->out && s->ticket <= ticket)
			scrape_tell(s, text);
	}
	free(text);
}

static void on_peer(void *arg, uint32_t events)
{
	struct scrape *s = arg;

	if (s->out && !(events & (EPOLLHUP | EPOLLERR)))
		scrape_flush(s);
	else
		scrape_drop(s); /* the reader hung up */
}

static bool scrape_fits(const struct mpib_scrapes *m, uid_t uid)
{
	unsigned others = 0, same = 0;
	const struct scrape *s;

	TAILQ_FOREACH(s, &m->scrapes, link)
	{
		others += s->uid != 0;
		same += s->uid == uid;
	}
	return mpib_reader_fits(uid, same, others,
				m->gather->view.cfg->max_readers, FOR_ROOT);
}

static void scrape_on_accept(void *arg, int fd)
{
	struct mpib_scrapes *m = arg;
	struct mpib_gather *g = m->gather;
	uid_t uid = mpib_accepted_uid(fd);
	struct scrape *s;

	s = scrape_fits(m, uid) ? calloc(1, sizeof(*s)) : NULL;
	if (!s || mpib_loop_add(g->loop, &s->watch, fd, 0, on_peer, s) < 0) {
		free(s);
		mpib_close_of(uid, fd);
		return;
	}
	s->sock = m;
	s->fd = fd;
	s->uid = uid;
	TAILQ_INSERT_TAIL(&m->scrapes, s, link);
	mpib_timer_arm(g->loop, &s->timer, PATIENCE, on_slow, s);
	s->ticket = mpib_texts_ask(&m->texts, MPIB_TEXT_OPENMETRICS);
}

int mpib_scrapes_open(struct mpib_gather *g, int fd, struct mpib_scrapes **sock)
{
	struct mpib_scrapes *m = calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return -ENOMEM;
	m->gather = g;
	m->acceptor = (struct mpib_acceptor){ .loop = g->loop,
					      .fd = fd,
					      .a_second = MPIB_ACCEPTS_A_SECOND,
					      .of_users = true,
					      .who = "a reader of the metrics "
						     "socket",
					      .fn = scrape_on_accept,
					      .arg = m };
	m->texts = (struct mpib_texts){ .gather = g,
					.fn = scrapes_on_text,
					.arg = m };
	TAILQ_INIT(&m->scrapes);
	rc = mpib_acceptor_open(&m->acceptor);
	if (rc < 0) {
		free(m);
		return rc;
	}
	*sock = m;
	return 0;
}

struct mpib_acceptor *mpib_scrapes_acceptor(struct mpib_scrapes *sock)
{
	return sock ? &sock->acceptor : NULL;
}

void mpib_scrapes_close(struct mpib_scrapes *sock)
{
	mpib_acceptor_close(&sock->acceptor);
	mpib_texts_stop(&sock->texts);
	while (!TAILQ_EMPTY(&sock->scrapes))
		scrape_drop(TAILQ_FIRST(&sock->scrapes));
	free(sock);
}
