/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Raw TCP on loopback between two processes: the upper limit of a transport
 * over sockets.
 *
 *   bench-tcp HOW SIZE TOTAL          bw (GB/s), cpu (s/GB, both ends)
 *   bench-tcp block|spin lat ROUNDS   8 bytes, half a round trip, us
 *
 * Messages of SIZE bytes go from and to eight buffers in turn, as in NCCL; each
 * end has a CPU of its own. HOW:
 *   block     blocking send and recv
 *   spin      non-blocking send and recv
 *   reno      like block, with congestion control reno, whatever the system's
 *             default is, which NCCL's sockets use
 *   sendfile  like reno, and the sender sends pages of a memfd instead of
 *             copying; the receiver reports each message that it has, since the
 *             pages must not change before
 *   discard   like block, but the kernel discards what was received: the limit
 *             without the receiver's copy
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peers/args.h"
#include "peers/peer.h"

#define BUFFERS 8
#define PING 8

struct tcp_test {
	int flags; /* of send and recv; discard: MSG_TRUNC for recv */
	int discard, reno, sendfile;
	size_t size;
	uint64_t count;
	int listener;
	in_port_t port;
	double sender_cpu;
};

static void listen_here(struct tcp_test *t)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	t->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (t->listener < 0 ||
	    bind(t->listener, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    listen(t->listener, 1) < 0 ||
	    getsockname(t->listener, (struct sockaddr *)&a, &len) < 0)
		peer_die("listen: %s", strerror(errno));
	t->port = a.sin_port;
}

static void tune(const struct tcp_test *t, int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (t->reno &&
	    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) < 0)
		peer_die("TCP_CONGESTION: %s", strerror(errno));
}

static int answer(struct tcp_test *t)
{
	int fd = accept4(t->listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		peer_die("accept: %s", strerror(errno));
	tune(t, fd);
	return fd;
}

static int call(struct tcp_test *t)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = t->port };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		peer_die("connect: %s", strerror(errno));
	tune(t, fd);
	return fd;
}

static void check(ssize_t n, const char *what)
{
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		peer_die("%s: %s", what, n ? strerror(errno) : "closed");
}

static void send_all(const struct tcp_test *t, int fd, const char *at,
		     size_t len)
{
	while (len) {
		ssize_t n = send(fd, at, len, t->flags);

		if (n <= 0) {
			check(n, "send");
			continue;
		}
		at += n;
		len -= (size_t)n;
	}
}

static void recv_all(const struct tcp_test *t, int fd, char *at, size_t len)
{
	int flags = t->flags;

	if (t->discard)
		flags |= MSG_TRUNC;
	else if (!flags)
		flags = MSG_WAITALL;
	while (len) {
		ssize_t n = recv(fd, at, len, flags);

		if (n <= 0) {
			check(n, "recv");
			continue;
		}
		at += t->discard ? 0 : n;
		len -= (size_t)n;
	}
}

static char *buffers(const struct tcp_test *t)
{
	char *mem = aligned_alloc(4096, BUFFERS * t->size + 4096);

	if (!mem)
		peer_die("no memory");
	memset(mem, 1, BUFFERS * t->size);
	return mem;
}

/* A memfd with the same content as buffers(). */
static int buffer_file(const struct tcp_test *t)
{
	size_t len = BUFFERS * t->size;
	int file = memfd_create("bench-tcp", MFD_CLOEXEC);
	char *mem;

	if (file < 0 || ftruncate(file, (off_t)len) < 0)
		peer_die("memfd: %s", strerror(errno));
	mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (mem == MAP_FAILED)
		peer_die("mmap: %s", strerror(errno));
	memset(mem, 1, len);
	munmap(mem, len);
	return file;
}

static void send_pages(const struct tcp_test *t, int fd, int file, uint64_t i)
{
	off_t at = (off_t)(i % BUFFERS * t->size);
	size_t left = t->size;
	char said;

	/* Wait until the receiver reports that it has the message which used
	 * these pages before. */
	if (i >= BUFFERS)
		check(recv(fd, &said, 1, 0), "recv");
	while (left) {
		ssize_t n = sendfile(fd, file, &at, left);

		check(n, "sendfile");
		left -= n > 0 ? (size_t)n : 0;
	}
}

static void send_file(struct tcp_test *t, int fd)
{
	int file = buffer_file(t);
	double cpu = 0;

	for (uint64_t i = 0; i < t->count + BUFFERS; i++) {
		if (i == BUFFERS)
			cpu = peer_cpu();
		send_pages(t, fd, file, i);
	}
	t->sender_cpu = peer_cpu() - cpu;
	close(file);
}

/* The first BUFFERS messages are sent before the clock starts. */
static void send_stream(void *arg)
{
	struct tcp_test *t = arg;
	char *mem = buffers(t);
	double cpu = 0;
	int fd;

	peer_pin(1);
	fd = call(t);
	if (t->sendfile) {
		send_file(t, fd);
		shutdown(fd, SHUT_WR);
		/* Read the receiver's reports until it closes. */
		while (recv(fd, mem, t->size, 0) > 0)
			;
		close(fd);
		free(mem);
		return;
	}
	for (uint64_t i = 0; i < t->count + BUFFERS; i++) {
		if (i == BUFFERS)
			cpu = peer_cpu();
		send_all(t, fd, mem + i % BUFFERS * t->size, t->size);
	}
	t->sender_cpu = peer_cpu() - cpu;
	close(fd);
	free(mem);
}

static void recv_stream(void *arg)
{
	struct tcp_test *t = arg;
	char *mem = buffers(t);
	uint64_t begun = 0;
	double cpu = 0;
	int fd;

	peer_pin(0);
	fd = answer(t);

	for (uint64_t i = 0; i < t->count + BUFFERS; i++) {
		if (i == BUFFERS) {
			begun = peer_ns();
			cpu = peer_cpu();
		}
		recv_all(t, fd, mem + i % BUFFERS * t->size, t->size);
		if (t->sendfile)
			send_all(t, fd, "", 1);
	}
	begun = peer_ns() - begun;
	cpu = peer_cpu() - cpu;
	peer_say("bw", (double)(t->count * t->size) / (double)begun);
	/* EOF: the sender has set sender_cpu before it closed. */
	if (recv(fd, mem, 1, 0) == 0)
		peer_say("cpu", (cpu + t->sender_cpu) /
					((double)(t->count * t->size) / 1e9));
	close(fd);
	free(mem);
}

static void ping(void *arg)
{
	static struct perf_hist hist;
	struct tcp_test *t = arg;
	char word[PING] = { 0 };
	int fd;

	peer_pin(0);
	fd = answer(t);

	for (uint64_t i = 0; i < t->count + t->count / 10; i++) {
		uint64_t begun = peer_ns();

		send_all(t, fd, word, PING);
		recv_all(t, fd, word, PING);
		if (i >= t->count / 10)
			perf_hist_add(&hist, (peer_ns() - begun) / 2);
	}
	peer_say_latency(&hist);
	close(fd);
}

static void pong(void *arg)
{
	struct tcp_test *t = arg;
	char word[PING];
	int fd;

	peer_pin(1);
	fd = call(t);

	for (uint64_t i = 0; i < t->count + t->count / 10; i++) {
		recv_all(t, fd, word, PING);
		send_all(t, fd, word, PING);
	}
	close(fd);
}

static bool is_how(const char *text)
{
	static const char *const hows[] = { "block", "spin", "reno", "sendfile",
					    "discard" };

	for (size_t i = 0; i < sizeof(hows) / sizeof(*hows); i++)
		if (!strcmp(text, hows[i]))
			return true;
	return false;
}

int main(int argc, char **argv)
{
	struct tcp_test *t = peer_shared(sizeof(*t));

	peer_args(argc, argv, 3, 3,
		  "block|spin|reno|sendfile|discard SIZE TOTAL\n"
		  "block|spin lat ROUNDS");
	if (!is_how(argv[1]))
		peer_wrong("%s is no way to send", argv[1]);
	t->flags = strcmp(argv[1], "spin") ? 0 : MSG_DONTWAIT;
	t->discard = !strcmp(argv[1], "discard");
	t->sendfile = !strcmp(argv[1], "sendfile");
	t->reno = t->sendfile || !strcmp(argv[1], "reno");
	listen_here(t);
	if (!strcmp(argv[2], "lat")) {
		t->size = PING;
		t->count = peer_size("ROUNDS", argv[3], 1, UINT32_MAX);
		peer_pair(ping, pong, t);
		return 0;
	}
	t->size = peer_size("SIZE", argv[2], 1, 1 << 30);
	t->count = peer_size("TOTAL", argv[3], t->size, 1ull << 43) / t->size;
	peer_pair(recv_stream, send_stream, t);
	return 0;
}
