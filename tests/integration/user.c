/* SPDX-License-Identifier: Apache-2.0 */
#include "user.h"

#include <errno.h>
#include <fcntl.h>
#include <mpib/control.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BYTES (40u << 10)
#define HANGS 60 /* seconds after which a request counts as hung */

static int failed(struct outcome *o, const char *step, int rc)
{
	o->rc = rc;
	snprintf(o->step, sizeof(o->step), "%s", step);
	snprintf(o->text, sizeof(o->text), "%s", mpib_strerror());
	return rc;
}

static int wrong(struct outcome *o, const char *step, const char *what)
{
	o->rc = -ENOTRECOVERABLE;
	snprintf(o->step, sizeof(o->step), "%s", step);
	snprintf(o->text, sizeof(o->text), "%s", what);
	return o->rc;
}

const char *user_wrong(const struct outcome *o)
{
	switch (o->rc) {
	case 0:
		return NULL;
	case -ENOTRECOVERABLE:
		return "it went wrong";
	case -EPIPE:
	case -EPROTO:
	case -EOWNERDEAD:
	case -ETIMEDOUT:
	case -ECONNRESET:
		return "a wrong error: it is not about missing resources";
	default:
		return strlen(o->text) < 8 || !strcmp(o->text, "no error")
			       ? "the error has no text"
			       : NULL;
	}
}

static int wait_ready(struct mpib_conn *conn, struct outcome *o)
{
	time_t end = time(NULL) + HANGS;
	int rc;

	while ((rc = mpib_ready(conn)) == 0) {
		if (time(NULL) > end)
			return wrong(o, "ready", "it never is");
		sched_yield();
	}
	return rc < 0 ? failed(o, "ready", rc) : 0;
}

/* Call mpib_test() for both requests alternately: each end copies to or from
 * its window only within this call. */
static int finish_both(struct mpib_request *r, struct mpib_request *s,
		       struct outcome *o)
{
	time_t end = time(NULL) + HANGS;
	int r_done = 0, s_done = 0, rc = 0;

	while (rc == 0 && !(r_done && s_done)) {
		if (!r_done)
			rc = mpib_test(r, &r_done, NULL);
		if (rc == 0 && !s_done)
			rc = mpib_test(s, &s_done, NULL);
		if (time(NULL) > end)
			return wrong(o, "move", "it never ends");
		if (!r_done || !s_done)
			sched_yield();
	}
	return rc < 0 ? failed(o, "move", rc) : 0;
}

static int move(struct user *u, char *from, struct mpib_region *from_region,
		char *to, struct mpib_region *to_region, struct outcome *o)
{
	struct mpib_request *s = NULL, *r = NULL;
	time_t end = time(NULL) + HANGS;
	size_t size = BYTES / 2;
	void *at = to;
	int rc = 0;

	for (size_t i = 0; i < size; i++)
		from[i] = (char)(i * 11 + (i >> 8));
	memset(to, 0, size);
	/* If the post returns no request, post again: another thread of the
	 * library may hold the client's lock. */
	while (rc == 0 && !(r && s)) {
		if (!r)
			rc = mpib_irecv(u->rx, 1, &at, &size, NULL, &to_region,
					&r);
		if (rc == 0 && !s)
			rc = mpib_isend(u->tx, from, size, 0, from_region, &s);
		if (time(NULL) > end)
			return wrong(o, "post",
				     "a post finds no room in an empty ring");
	}
	if (rc < 0)
		return failed(o, "post", rc);
	rc = finish_both(r, s, o);
	if (rc == 0 && memcmp(from, to, size) != 0)
		rc = wrong(o, "move", "wrong bytes");
	return rc;
}

int user_move(struct user *u, struct outcome *o)
{
	char *placed = u->placed;
	int rc = move(u, u->from, u->heap_from, u->to, u->heap_to, o);

	return rc < 0 ? rc
		      : move(u, placed, u->placed_region, placed + BYTES / 2,
			     u->placed_region, o);
}

static int reg_sealed(struct user *u, struct outcome *o)
{
	int fd = memfd_create("user", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int rc;

	if (fd < 0 || ftruncate(fd, BYTES) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0) {
		rc = -errno;
		if (fd >= 0)
			close(fd);
		failed(o, "memfd", rc);
		snprintf(o->text, sizeof(o->text),
			 "memfd of the test itself: %s", strerror(-rc));
		return rc;
	}
	rc = mpib_reg_fd(u->c, u->from, BYTES, 0, fd, MPIB_REG_MEMFD,
			 &u->sealed);
	close(fd);
	return rc < 0 ? failed(o, "reg_fd", rc) : 0;
}

static int get_memory(struct user *u, struct outcome *o)
{
	int rc;

	u->from = malloc(BYTES);
	u->to = malloc(BYTES);
	if (!u->from || !u->to) {
		failed(o, "malloc", -ENOMEM);
		snprintf(o->text, sizeof(o->text),
			 "malloc() of the test itself");
		return -ENOMEM;
	}
	u->placed = mpib_mem_alloc(u->c, BYTES);
	if (!u->placed)
		return failed(o, "mem_alloc", -errno);
	rc = mpib_reg(u->c, u->placed, BYTES, &u->placed_region);
	if (rc == 0)
		rc = mpib_reg(u->c, u->from, BYTES, &u->heap_from);
	if (rc == 0)
		rc = mpib_reg(u->c, u->to, BYTES, &u->heap_to);
	if (rc < 0)
		return failed(o, "reg", rc);
	return reg_sealed(u, o);
}

static int connect_self(struct user *u, struct outcome *o)
{
	struct mpib_handle h;
	int rc = mpib_listen(u->c, &h, &u->l);

	if (rc < 0)
		return failed(o, "listen", rc);
	rc = mpib_accept(u->l, &u->rx);
	if (rc < 0)
		return failed(o, "accept", rc);
	rc = mpib_connect(u->c, &h, -1, &u->tx);
	if (rc < 0)
		return failed(o, "connect", rc);
	rc = wait_ready(u->tx, o);
	return rc < 0 ? rc : wait_ready(u->rx, o);
}

int user_open(struct user *u, struct mpib_client *c, struct outcome *o)
{
	int rc;

	*u = (struct user){ .c = c };
	*o = (struct outcome){ 0 };
	rc = connect_self(u, o);
	if (rc == 0)
		rc = get_memory(u, o);
	/* Move a message, because the connections get their windows only with
	 * the first message. */
	return rc < 0 ? rc : user_move(u, o);
}

void user_close(struct user *u)
{
	struct mpib_region *r[] = { u->sealed, u->heap_from, u->heap_to,
				    u->placed_region };

	for (unsigned i = 0; i < sizeof(r) / sizeof(r[0]); i++) {
		if (r[i])
			mpib_dereg(r[i]);
	}
	if (u->tx)
		mpib_close(u->tx);
	if (u->rx)
		mpib_close(u->rx);
	if (u->l)
		mpib_close_listen(u->l);
	if (u->placed)
		mpib_mem_free(u->c, u->placed);
	free(u->from);
	free(u->to);
}

int user_once(struct mpib_client *c, struct outcome *o)
{
	struct user u;
	int rc = user_open(&u, c, o);

	if (rc == 0)
		rc = user_move(&u, o);
	user_close(&u);
	return rc;
}

int user_attach(const char *run_dir, struct mpib_client **c, struct outcome *o)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts),
					 .run_dir = run_dir,
					 .timeout_ms = HANGS * 1000 };
	int rc = mpib_attach(&opts, c);

	*o = (struct outcome){ 0 };
	return rc < 0 ? failed(o, "attach", rc) : 0;
}

int user_new(const char *run_dir, struct outcome *o)
{
	struct mpib_client *c;
	int rc = user_attach(run_dir, &c, o);

	if (rc < 0)
		return rc;
	rc = user_once(c, o);
	mpib_detach(c);
	return rc;
}
