/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_proxy.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define LISTENER 5 /* id of all listeners */

void fake_set_state(struct fake_proxy *f, unsigned index, uint32_t state,
		    int32_t error)
{
	f->reply->conn[index].error = error;
	if (state == MPIB_CONN_FAILED)
		snprintf(f->reply->why[index], sizeof(f->reply->why[0]),
			 "the peer has no such listener");
	atomic_store(&f->reply->conn[index].state, state);
}

void fake_break(struct fake_proxy *f, unsigned index, int32_t error)
{
	atomic_store(&f->reply->conn[index].broken, error);
	fake_set_state(f, index, MPIB_CONN_FAILED, error);
}

static int answer(struct fake_proxy *f, const struct mpib_message *ask,
		  void *msg, size_t len, const int *fd, unsigned fds)
{
	struct mpib_ctl_header *h = msg;

	h->type = ask->h.type;
	h->id = ask->h.id;
	h->len = (uint32_t)len;
	return mpib_message_send(f->sock, h, fd, fds);
}

static int error(struct fake_proxy *f, const struct mpib_message *ask, int rc,
		 const char *why)
{
	struct mpib_ctl_error e = { .h = { .status = rc } };

	snprintf(e.why, sizeof(e.why), "%s", why);
	return answer(f, ask, &e, sizeof(e), NULL, 0);
}

static int hello(struct fake_proxy *f, const struct mpib_message *ask)
{
	const int fd[MPIB_CTL_FDS_MAX] = { f->status_seg.fd, f->submit_seg.fd,
					   f->reply_seg.fd, f->doorbell,
					   f->pidfd };

	if (f->refuse_hello)
		return error(f, ask, f->refuse_hello, "no room at the inn");
	f->welcome.device =
		((const struct mpib_ctl_hello *)(const void *)ask->bytes)
			->device;
	atomic_store(&f->reply->ended, 0);
	return answer(f, ask, &f->welcome, sizeof(f->welcome), fd,
		      f->pidfd < 0 ? 4 : 5);
}

/* Describe device number `d`. */
static int device(struct fake_proxy *f, const struct mpib_message *ask,
		  uint32_t d)
{
	struct mpib_ctl_device got = {
		.info.rails = 2,
		.info.carries = d % 2 ? 1 : 3,
		.info.rail = { { .name = "soft:127.0.0.1", .up = 1 },
			       { .name = "soft:127.0.0.2",
				 .speed_mbps = 400000 } },
	};

	if (d >= f->welcome.devices)
		return error(f, ask, -ENODEV, "there is no such device");
	snprintf(got.info.name, sizeof(got.info.name), "dev-%u", d);
	if (d > 0)
		got.info.rail[0].name[0] = (char)('a' + d % 26);
	return answer(f, ask, &got, sizeof(got), NULL, 0);
}

static int pool(struct fake_proxy *f, const struct mpib_message *ask)
{
	const struct mpib_ctl_pool *p = (const void *)ask->bytes;
	struct mpib_ctl_region r = { 0 };
	struct mpib_memseg *seg;

	while (r.mr < FAKE_POOLS && f->pool[r.mr].addr)
		r.mr++;
	seg = &f->pool[r.mr];
	if (atomic_load(&f->refuse_pool))
		return error(f, ask, f->refuse_pool, "others have it all");
	if (r.mr == FAKE_POOLS ||
	    mpib_memseg_create(seg, "pool", p->size, false) < 0)
		return error(f, ask, -ENOSPC, "the quota is used up");
	return answer(f, ask, &r, sizeof(r), &seg->fd, 1);
}

/* Record the parts of the message that tests check. */
static void note(struct fake_proxy *f, const struct mpib_message *ask)
{
	const struct mpib_ctl_accept *accept = (const void *)ask->bytes;
	const struct mpib_ctl_id *id = (const void *)ask->bytes;
	struct mpib_reply_end *end;

	atomic_store(&f->came_before[ask->h.type % 16], f->came++);
	switch (ask->h.type) {
	case MPIB_CTL_DEREG:
		if (id->id < FAKE_POOLS)
			mpib_memseg_fini(&f->pool[id->id]);
		break;
	case MPIB_CTL_CONNECT:
		memcpy(&f->connect, ask->bytes, sizeof(f->connect));
		end = &f->reply->end[f->connect.conn];
		end->key = f->connect.key;
		if (atomic_load(&f->was_ready))
			end->number = f->connect.number;
		end->base = atomic_load(&f->base);
		break;
	case MPIB_CTL_ACCEPT:
		end = &f->reply->end[accept->conn];
		end->key = atomic_load(&f->accept_key);
		end->addr[15] = 9;
		end->port = 4444;
		break;
	case MPIB_CTL_RESUME:
		memcpy(&f->resume, ask->bytes, sizeof(f->resume));
		end = &f->reply->end[f->resume.conn];
		end->key = f->resume.key;
		memcpy(end->addr, f->resume.handle.addr6, sizeof(end->addr));
		end->port = f->resume.handle.port;
		break;
	case MPIB_CTL_LISTEN:
		memcpy(&f->relisten, ask->bytes, sizeof(f->relisten));
		break;
	case MPIB_CTL_NEXT:
		memcpy(&f->next, ask->bytes, sizeof(f->next));
		break;
	default:
		break;
	}
}

static int begin(struct fake_proxy *f, const struct mpib_message *ask,
		 uint32_t index)
{
	struct mpib_ctl_id ok = { .id = index };
	int rc = atomic_load(&f->refuse_conn);

	if (rc < 0)
		fake_set_state(f, index, MPIB_CONN_FAILED, rc);
	else if (atomic_load(&f->hold_pending))
		fake_set_state(f, index, MPIB_CONN_PENDING, 0);
	else
		fake_set_state(f, index, MPIB_CONN_READY, 0);
	return answer(f, ask, &ok, sizeof(ok), NULL, 0);
}

static int refusal(const struct fake_proxy *f, const struct mpib_message *ask)
{
	const struct mpib_ctl_accept *accept = (const void *)ask->bytes;

	switch (ask->h.type) {
	case MPIB_CTL_REG_FD:
		return atomic_load(&f->refuse_reg);
	case MPIB_CTL_LISTEN:
		return atomic_load(&f->refuse_listen);
	case MPIB_CTL_ACCEPT:
		return accept->listen_id == LISTENER ? 0 : -ENOENT;
	case MPIB_CTL_RESUME:
		return atomic_load(&f->refuse_resume);
	default:
		return 0;
	}
}

static int serve(struct fake_proxy *f, const struct mpib_message *ask)
{
	const struct mpib_ctl_accept *accept = (const void *)ask->bytes;
	const struct mpib_ctl_id *id = (const void *)ask->bytes;
	struct mpib_ctl_listening l = { .listen_id = LISTENER };
	struct mpib_ctl_region r = { .mr = 999 };
	struct mpib_ctl_id ok = { 0 };

	note(f, ask);
	atomic_fetch_add(&f->asked[ask->h.type % 16], 1);
	if (f->mute || ask->h.type >= MPIB_CTL_NEXT)
		return 0;
	if (ask->h.type == atomic_load(&f->slow)) {
		f->begun = *ask;
		return 0;
	}
	if (refusal(f, ask))
		return error(f, ask, refusal(f, ask), "no such luck");
	switch (ask->h.type) {
	case MPIB_CTL_HELLO:
		return hello(f, ask);
	case MPIB_CTL_DEVICE:
		return device(f, ask, id->id);
	case MPIB_CTL_POOL:
		return pool(f, ask);
	case MPIB_CTL_REG_FD:
		return answer(f, ask, &r, sizeof(r), NULL, 0);
	case MPIB_CTL_LISTEN:
		l.handle.magic = MPIB_HANDLE_MAGIC;
		l.handle.nonce = 12345;
		return answer(f, ask, &l, sizeof(l), NULL, 0);
	case MPIB_CTL_CONNECT:
		atomic_store(&f->traffic_class, f->connect.traffic_class);
		return begin(f, ask, f->connect.conn);
	case MPIB_CTL_ACCEPT:
		return begin(f, ask, accept->conn);
	case MPIB_CTL_RESUME:
		return begin(f, ask, f->resume.conn);
	case MPIB_CTL_CLOSE:
		fake_set_state(f, id->id,
			       atomic_load(&f->hold_closing) ? MPIB_CONN_CLOSING
							     : MPIB_CONN_FREE,
			       0);
		return answer(f, ask, &ok, sizeof(ok), NULL, 0);
	default:
		return answer(f, ask, &ok, sizeof(ok), NULL, 0);
	}
}

void fake_end_slow(struct fake_proxy *f)
{
	pthread_mutex_lock(&f->lock);
	atomic_store(&f->slow, 0);
	serve(f, &f->begun);
	pthread_mutex_unlock(&f->lock);
}

/* Accept the next client, or serve the client's next message. */
static void hear(struct fake_proxy *f)
{
	struct mpib_message m;

	if (f->sock < 0) {
		f->sock = accept4(f->listen, NULL, NULL, SOCK_CLOEXEC);
	} else if (mpib_message_recv(f->sock, &m) == 1) {
		/* Close the received descriptors before the answer, because
		 * tests count the open descriptors after the answer. */
		mpib_message_close_fds(&m);
		pthread_mutex_lock(&f->lock);
		serve(f, &m);
		pthread_mutex_unlock(&f->lock);
	} else {
		atomic_store(&f->reply->ended, 1);
		close(f->sock);
		f->sock = -1;
	}
}

/* Serve one client after the other until the test stops the proxy. */
static void *run(void *arg)
{
	struct fake_proxy *f = arg;

	for (;;) {
		struct pollfd p[2] = {
			{ .fd = f->stop, .events = POLLIN },
			{ .fd = f->sock >= 0 ? f->sock : f->listen,
			  .events = POLLIN },
		};

		bool held = atomic_load(&f->hold);

		if (poll(p, held ? 1 : 2, held ? 0 : -1) < 0 && errno != EINTR)
			return NULL;
		if (p[0].revents)
			return NULL;
		if (held)
			sched_yield();
		/* The test may have set `hold` during the poll. */
		if (held || atomic_load(&f->hold) || !p[1].revents)
			continue;
		hear(f);
	}
}

static int make_segments(struct fake_proxy *f)
{
	if (mpib_memseg_create(&f->status_seg, "status", sizeof(*f->status),
			       true) < 0 ||
	    mpib_memseg_create(&f->submit_seg, "submit", sizeof(*f->submit),
			       false) < 0 ||
	    mpib_memseg_create(&f->reply_seg, "reply", sizeof(*f->reply),
			       true) < 0)
		return -1;
	f->status = f->status_seg.addr;
	f->submit = f->submit_seg.addr;
	f->reply = f->reply_seg.addr;
	return 0;
}

static int open_socket(struct fake_proxy *f)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/" MPIB_CONTROL_SOCK,
		 f->dir);
	unlink(sun.sun_path);
	f->listen = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (bind(f->listen, (struct sockaddr *)&sun, sizeof(sun)) < 0)
		return -1;
	return listen(f->listen, 4);
}

static int begin_life(struct fake_proxy *f)
{
	f->sock = -1;
	f->stop = eventfd(0, EFD_CLOEXEC);
	if (make_segments(f) < 0 || open_socket(f) < 0)
		return -1;
	return -pthread_create(&f->thread, NULL, run, f);
}

static void end_segments(struct fake_proxy *f)
{
	for (unsigned i = 0; i < FAKE_POOLS; i++)
		mpib_memseg_fini(&f->pool[i]);
	mpib_memseg_fini(&f->status_seg);
	mpib_memseg_fini(&f->submit_seg);
	mpib_memseg_fini(&f->reply_seg);
}

void fake_proxy_mortal(struct fake_proxy *f, uint32_t grace_ms)
{
	f->welcome.grace_ms = grace_ms;
	f->process = fork();
	if (f->process == 0) {
		/* The child must not keep descriptors of the client open. */
		for (int fd = 3; fd < 1024; fd++)
			close(fd);
		for (;;)
			pause();
	}
	f->pidfd = (int)syscall(SYS_pidfd_open, f->process, 0);
}

void fake_proxy_end(struct fake_proxy *f)
{
	kill(f->process, SIGKILL);
	waitpid(f->process, NULL, 0);
	close(f->pidfd);
	f->process = 0;
	f->pidfd = -1;
}

void fake_proxy_return(struct fake_proxy *f)
{
	end_segments(f);
	memset(f->conn, 0, sizeof(f->conn));
	fake_proxy_mortal(f, f->welcome.grace_ms);
	if (begin_life(f) < 0)
		abort();
}

struct fake_proxy *fake_proxy_start(void)
{
	struct fake_proxy *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->welcome = (struct mpib_ctl_welcome){
		.version = MPIB_ABI_VERSION,
		.client = 7,
		.shard = 1,
		.devices = 1,
		.window = 64 << 10,
		.part = 16 << 10,
		.answer_ms = 10000,
	};
	f->pidfd = -1;
	f->accept_key = 777;
	f->seed = 1;
	f->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&f->lock, NULL);
	strcpy(f->dir, "/tmp/mpib-fake-XXXXXX");
	if (!mkdtemp(f->dir) || begin_life(f) < 0)
		return NULL;
	return f;
}

struct fake_proxy *fake_proxy_beside(struct fake_proxy *f)
{
	struct fake_proxy *g = calloc(1, sizeof(*g));

	g->welcome = f->welcome;
	g->accept_key = f->accept_key;
	g->seed = 1;
	g->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&g->lock, NULL);
	strcpy(g->dir, f->dir);
	fake_proxy_mortal(g, f->welcome.grace_ms);
	if (begin_life(g) < 0)
		abort();
	return g;
}

void fake_tell_next(struct fake_proxy *f, uint32_t number)
{
	const struct mpib_ctl_next next = {
		.h = { .type = MPIB_CTL_NEXT, .len = sizeof(next) },
		.number = number,
	};

	if (mpib_message_send(f->sock, &next.h, NULL, 0) < 0)
		abort();
}

static void join(struct fake_proxy *f)
{
	uint64_t one = 1;

	if (write(f->stop, &one, sizeof(one)) == sizeof(one))
		pthread_join(f->thread, NULL);
	close(f->stop);
	f->stop = -1;
	close(f->listen);
	if (f->sock >= 0)
		close(f->sock);
}

void fake_proxy_die(struct fake_proxy *f)
{
	join(f);
}

void fake_proxy_stop(struct fake_proxy *f)
{
	char path[64];

	if (f->stop >= 0)
		join(f);
	if (f->process)
		fake_proxy_end(f);
	end_segments(f);
	close(f->doorbell);
	snprintf(path, sizeof(path), "%s/" MPIB_CONTROL_SOCK, f->dir);
	unlink(path);
	rmdir(f->dir);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

int fake_attach(struct fake_proxy *f, struct mpib_client **client)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts),
					 .run_dir = f->dir,
					 .timeout_ms = f->mute ? 50 : 0 };

	return mpib_attach(&opts, client);
}
