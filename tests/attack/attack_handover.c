/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What clients change while a proxy is handed over: they attach and leave, open
 * and close, register memory and make holes in it, talk nonsense, write over
 * their rings and take the pages away, are stopped and killed. The operator's
 * upgrades succeed all the same, and a victim's traffic goes on over them.
 */
#include <fcntl.h>
#include <mpib/client.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "draw.h"
#include "ipc/message.h"
#include "raw_client.h"
#include "test.h"
#include "victim.h"

#define BYTES (1u << 20)
#define UPGRADES 4
#define PAIRS 4u

static struct node node[2];
static struct victim *victim;

static int setup(void **state)
{
	victim = victim_between(node, NULL);
	return 0;
}

static char *map_memfd(int *fd)
{
	char *p;

	*fd = memfd_create("held", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0 || ftruncate(*fd, BYTES) ||
	    fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK))
		return NULL;
	p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (p == MAP_FAILED)
		return NULL;
	memset(p, 1, BYTES);
	return p;
}

/* A connection, accepted or not, of which all, some or nothing is closed. */
static bool open_one(struct mpib_client *c, struct mpib_client *to,
		     uint64_t *rng)
{
	struct mpib_conn *tx = NULL, *rx = NULL;
	struct mpib_listener *l;
	struct mpib_handle h;

	if (mpib_listen(to, &h, &l) < 0)
		return false;
	if (mpib_connect(c, &h, -1, &tx) >= 0 && draw(rng, 4) &&
	    mpib_accept(l, &rx) >= 0 && draw(rng, 2)) {
		for (unsigned n = 0; n < 100 && !mpib_ready(tx); n++)
			usleep(100);
	}
	if (draw(rng, 2))
		mpib_close_listen(l);
	if (rx && draw(rng, 2))
		mpib_close(rx);
	if (tx && draw(rng, 2))
		mpib_close(tx);
	return true;
}

/* Opens and closes connections of both nodes. */
static int open_and_close(void *arg)
{
	uint64_t rng = 1;

	(void)arg;
	for (;;) {
		struct mpib_client *c = tenant_attach(&node[draw(&rng, 2)]);
		struct mpib_client *to = tenant_attach(&node[draw(&rng, 2)]);

		for (unsigned i = 0; c && to && i < 32; i++) {
			if (!open_one(c, to, &rng))
				break;
		}
		if (c)
			mpib_detach(c);
		if (to)
			mpib_detach(to);
	}
	return 0;
}

/* Registers memory and lets it go, and takes its pages away meanwhile. */
static int register_and_take_away(void *arg)
{
	uint64_t rng = 2;
	int fd;
	char *p = map_memfd(&fd);

	(void)arg;
	while (p) {
		struct mpib_client *c = tenant_attach(&node[draw(&rng, 2)]);

		for (unsigned i = 0; c && i < 64; i++) {
			size_t at = draw(&rng, BYTES / 4096) * 4096;
			struct mpib_region *r;

			if (mpib_reg_fd(c, p, BYTES, 0, fd, MPIB_REG_MEMFD,
					&r) < 0)
				break;
			fallocate(fd,
				  FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				  (off_t)at, 4096);
			if (draw(&rng, 4))
				mpib_dereg(r);
			memset(p, 1, BYTES);
		}
		if (c)
			mpib_detach(c);
	}
	return 1;
}

/* Control messages of any type, length and content, with descriptors or not. */
static int talk_nonsense(void *arg)
{
	uint64_t rng = 3, word[MPIB_CTL_MAX / 8];
	int sock = -1;

	(void)arg;
	for (;;) {
		struct mpib_ctl_header *h = (void *)word;
		int fd = STDERR_FILENO;
		char byte;

		if (sock < 0)
			sock = tenant_hello(node[draw(&rng, 2)].dir);
		for (unsigned i = 0; i < MPIB_CTL_MAX / 8; i++)
			word[i] = draw(&rng, 3) ? draw(&rng, 64)
						: draw(&rng, UINT64_MAX);
		h->type = (uint32_t)draw(&rng, 14);
		h->len = (uint32_t)(sizeof(*h) + draw(&rng, 200));
		if (sock >= 0 && draw(&rng, 8))
			mpib_message_send(sock, h, &fd, draw(&rng, 4) == 0);
		else if (sock >= 0)
			(void)!send(sock, word, draw(&rng, 300) + 1,
				    MSG_NOSIGNAL | MSG_DONTWAIT);
		/* Answers are read, or not, until the proxy hangs up. */
		while (sock >= 0 && draw(&rng, 3) == 0 &&
		       recv(sock, &byte, 1, MSG_DONTWAIT) > 0)
			;
		if (sock >= 0 &&
		    recv(sock, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0) {
			close(sock);
			sock = -1;
		}
		usleep(200);
	}
	return 0;
}

static void write_over(struct raw_client *x, uint64_t *rng)
{
	for (unsigned i = 0; i < 2 * PAIRS; i++) {
		struct mpib_desc d = { .op = (uint8_t)draw(rng, 6),
				       .req = (uint8_t)draw(rng, 40),
				       .n = (uint8_t)draw(rng, 10),
				       .gen = (uint32_t)draw(rng, 8),
				       .mr = (uint32_t)draw(rng, 8),
				       .off = draw(rng, 2 * BYTES),
				       .len = (uint32_t)draw(rng, 2 * BYTES) };

		raw_push(x, i, &d);
	}
	for (unsigned i = 0; i < 64; i++) {
		uint64_t at = draw(rng, sizeof(*x->submit) / 8);

		((volatile uint64_t *)x->submit)[at] = draw(rng, UINT64_MAX);
	}
	raw_ring(x, (unsigned)draw(rng, 16), draw(rng, UINT64_MAX));
}

/* Writes over its rings, takes their pages away, and unmaps them. */
static int write_over_rings(void *arg)
{
	uint64_t rng = 4;

	(void)arg;
	for (;;) {
		struct raw_client x;
		int sock = tenant_dial(node[draw(&rng, 2)].dir,
				       MPIB_CONTROL_SOCK, SOCK_SEQPACKET);

		if (sock < 0 || !raw_attach(&x, sock)) {
			close(sock);
			usleep(1000);
			continue;
		}
		for (uint32_t i = 0; i < PAIRS; i++)
			raw_pair(&x, 2 * i, 2 * i + 1);
		for (unsigned i = 0; i < 200; i++) {
			write_over(&x, &rng);
			if (i % 50 == 49)
				madvise(x.submit, sizeof(*x.submit),
					MADV_REMOVE);
			usleep(500);
		}
		munmap(x.submit, sizeof(*x.submit));
		munmap((void *)(uintptr_t)x.reply, sizeof(*x.reply));
		usleep(draw(&rng, 100000));
		close(x.sock);
		close(x.doorbell);
	}
	return 0;
}

/* Stops such processes at any instant, has them go on, and kills them. */
static int stop_and_kill(void *arg)
{
	static int (*const doing[])(void *) = { open_and_close,
						register_and_take_away,
						write_over_rings };
	const pid_t self = getpid();
	uint64_t rng = 5;

	for (;;) {
		pid_t pid = fork();

		if (pid < 0)
			return 1;
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != self)
				_exit(1);
			_exit(doing[draw(&rng, 3)](arg));
		}
		draw(&rng, 3);
		usleep(20000 + draw(&rng, 100000));
		kill(pid, SIGSTOP);
		usleep(draw(&rng, 3000000));
		kill(pid, SIGCONT);
		usleep(draw(&rng, 100000));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return 0;
}

/* And of those who did it nothing is left. */
static void attack(int (*const *fn)(void *), unsigned n)
{
	pid_t pid[5];

	attack_needs_root();
	for (unsigned i = 0; i < n; i++)
		pid[i] = tenant_begin(ATTACKER, fn[i], NULL);
	usleep(200000);
	victim_goes_on_over_upgrades(victim, node, UPGRADES);
	for (unsigned i = 0; i < n; i++)
		child_kill(pid[i]);
	for (unsigned i = 0; i < 2; i++)
		node_until_usage(&node[i], "attached",
				 victim_is_here(victim) ? 1 : 0);
}

static void who_opens_and_closes_stops_no_upgrade(void **state)
{
	static int (*const fn[])(void *) = { open_and_close };

	attack(fn, 1);
}

static void memory_that_comes_and_goes_stops_no_upgrade(void **state)
{
	static int (*const fn[])(void *) = { register_and_take_away };

	attack(fn, 1);
}

static void nonsense_stops_no_upgrade(void **state)
{
	static int (*const fn[])(void *) = { talk_nonsense };

	attack(fn, 1);
}

static void rings_that_are_written_over_stop_no_upgrade(void **state)
{
	static int (*const fn[])(void *) = { write_over_rings };

	attack(fn, 1);
}

static void all_of_it_stopped_and_killed_stops_no_upgrade(void **state)
{
	static int (*const fn[])(
		void *) = { open_and_close, register_and_take_away,
			    talk_nonsense, write_over_rings, stop_and_kill };

	attack(fn, 5);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(who_opens_and_closes_stops_no_upgrade),
	cmocka_unit_test(memory_that_comes_and_goes_stops_no_upgrade),
	cmocka_unit_test(nonsense_stops_no_upgrade),
	cmocka_unit_test(rings_that_are_written_over_stop_no_upgrade),
	cmocka_unit_test(all_of_it_stopped_and_killed_stops_no_upgrade),
	{ 0 },
};
struct test_group test_group = { setup, victim_teardown };
