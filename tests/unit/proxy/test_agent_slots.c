/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/agent/slots.h, with the proxies played by the test over its socket. */
#include "agent/slots.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static struct mpib_agent agent;
static char dir[64], why[MPIB_AGENT_WHY];

static int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/mpib-slots-XXXXXX");
	assert_non_null(mkdtemp(dir));
	assert_int_equal(mpib_agent_start(&agent, dir, 256, why), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	mpib_agent_stop(&agent);
	assert_int_equal(rmdir(dir), 0); /* nothing is left in it */
	return 0;
}

static void settle(void)
{
	while (mpib_loop_turn(&agent.loop, 0) > 0)
		;
}

static int dial(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/" MPIB_AGENT_SOCK,
		 dir);
	assert_int_equal(connect(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	return fd;
}

static void ask(int fd, uint32_t type, uint64_t id)
{
	struct mpib_agent_request r = { .type = type,
					.conn_id = id,
					.sout_src_ip = htonl(1),
					.sout_dst_ip = htonl(2) };

	assert_int_equal(send(fd, &r, sizeof(r), MSG_NOSIGNAL), sizeof(r));
	settle();
}

static struct mpib_agent_response enlist(int fd, uint64_t id)
{
	struct mpib_agent_response r;

	ask(fd, MPIB_AGENT_REGISTER, id);
	assert_int_equal(recv(fd, &r, sizeof(r), MSG_DONTWAIT), sizeof(r));
	return r;
}

static ino_t hints_found(void)
{
	struct stat st = { 0 };
	char path[96];

	snprintf(path, sizeof(path), "%s/" MPIB_AGENT_HINTS, dir);
	return stat(path, &st) < 0 ? 0 : st.st_ino;
}

static ino_t found_at_listen;

int __real_listen(int fd, int n);
int __wrap_listen(int fd, int n);

/* From here on a proxy is answered. */
int __wrap_listen(int fd, int n)
{
	found_at_listen = hints_found();
	return __real_listen(fd, n);
}

static bool hung_up(int fd)
{
	char c;

	settle();
	return recv(fd, &c, 1, MSG_DONTWAIT) == 0;
}

/* As a proxy has it. */
static const struct mpib_hint_shm *map(void)
{
	char path[96];
	struct stat st;
	void *p;
	int fd;

	snprintf(path, sizeof(path), "%s/" MPIB_AGENT_HINTS, dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 4112);
	assert_int_equal(st.st_mode & 0777, 0644);
	p = mmap(NULL, 4112, PROT_READ, MAP_SHARED, fd, 0);
	assert_true(p != MAP_FAILED);
	close(fd);
	return p;
}

static void a_registered_connection_has_an_entry(void **state)
{
	const struct mpib_hint_shm *shm = map();
	struct mpib_agent_response r;
	int fd = dial();

	(void)state;
	assert_int_equal(shm->header.magic, MPIB_HINT_MAGIC);
	assert_int_equal(shm->header.max_entries, 256);
	r = enlist(fd, 42ull << 16 | 7);
	assert_int_equal(r.status, 0);
	assert_int_equal(shm->entries[r.hint_slot].sup_bw, 256);
	assert_int_equal(shm->entries[r.hint_slot].seq % 2, 0);
	assert_int_equal(shm->entries[r.hint_slot].src_ip, htonl(1));
	assert_int_equal(shm->entries[r.hint_slot].dst_ip, htonl(2));
	assert_int_equal(mpib_agent_pid(&agent.slot[r.hint_slot]), 42);
	mpib_agent_hint(&agent, r.hint_slot, 300);
	assert_int_equal(mpib_hint_read(&shm->entries[r.hint_slot], 0), 300);
	ask(fd, MPIB_AGENT_DEREGISTER, 42ull << 16 | 7);
	assert_int_equal(mpib_hint_read(&shm->entries[r.hint_slot], 9), 0);
	assert_null(agent.slot[r.hint_slot].proxy);
	close(fd);
}

static void the_last_slot_is_the_last_and_comes_back(void **state)
{
	int a = dial(), b = dial();

	(void)state;
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(enlist(a, i).status, 0);
	for (unsigned i = 0; i < 56; i++)
		assert_int_equal(enlist(b, i).status, 0);
	assert_int_equal(enlist(b, 1000).status, -ENOSPC);
	/* A proxy that dies gives all of its own back, and nobody else's. */
	close(a);
	settle();
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(enlist(b, 1000 + i).status, 0);
	assert_int_equal(enlist(b, 2000).status, -ENOSPC);
	close(b);
}

static void the_same_connection_twice_is_refused(void **state)
{
	int a = dial(), b = dial();

	(void)state;
	assert_int_equal(enlist(a, 5).status, 0);
	assert_int_equal(enlist(a, 5).status, -EEXIST);
	/* Of another proxy it is another one. */
	assert_int_equal(enlist(b, 5).status, 0);
	ask(b, MPIB_AGENT_DEREGISTER, 77); /* never was there */
	assert_int_equal(enlist(b, 6).status, 0);
	close(a);
	close(b);
}

static void who_sends_nonsense_is_dropped(void **state)
{
	int a = dial(), b = dial(), c = dial();

	(void)state;
	ask(a, 77, 1);
	assert_true(hung_up(a));
	assert_int_equal(send(b, "hello", 5, 0), 5);
	assert_true(hung_up(b));
	assert_int_equal(enlist(c, 1).status, 0);
	close(a);
	close(b);
	close(c);
}

static void a_second_agent_leaves_the_first_alone(void **state)
{
	struct mpib_agent other;
	int fd = dial();

	(void)state;
	assert_int_equal(enlist(fd, 1).status, 0);
	assert_int_equal(mpib_agent_start(&other, dir, 0, why), -EADDRINUSE);
	assert_int_equal(enlist(fd, 2).status, 0);
	assert_int_equal(map()->entries[0].sup_bw, 256);
	close(fd);
}

static void what_a_killed_agent_left_is_taken_over(void **state)
{
	const struct mpib_hint_shm *old = map(), *new;
	struct mpib_agent dead = agent;

	(void)state;
	mpib_hint_write(&agent.shm->entries[3], 999);
	/* Its socket and file stay, nobody listens. */
	mpib_loop_del(&dead.loop, &dead.watch);
	close(dead.fd);
	close(dead.dir_fd);
	mpib_loop_fini(&dead.loop);
	assert_int_equal(mpib_agent_start(&agent, dir, 1, why), 0);
	new = map();
	assert_int_equal(new->entries[3].sup_bw, 0);
	assert_int_equal(old->entries[3].sup_bw, 999);
}

#define AGENT_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* The one before was killed, and its hints are still there. */
static void who_is_answered_finds_the_hints_of_now(void **state)
{
	char path[96], old[96];
	ino_t before;

	(void)state;
	snprintf(path, sizeof(path), "%s/" MPIB_AGENT_HINTS, dir);
	snprintf(old, sizeof(old), "%s/old", dir);
	assert_int_equal(rename(path, old), 0);
	mpib_agent_stop(&agent);
	assert_int_equal(rename(old, path), 0);
	before = hints_found();
	assert_int_equal(mpib_agent_start(&agent, dir, 256, why), 0);
	assert_int_not_equal(hints_found(), before);
	assert_int_equal(found_at_listen, hints_found());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		AGENT_TEST(a_registered_connection_has_an_entry),
		AGENT_TEST(the_last_slot_is_the_last_and_comes_back),
		AGENT_TEST(the_same_connection_twice_is_refused),
		AGENT_TEST(who_sends_nonsense_is_dropped),
		AGENT_TEST(a_second_agent_leaves_the_first_alone),
		AGENT_TEST(what_a_killed_agent_left_is_taken_over),
		cmocka_unit_test_setup_teardown(
			who_is_answered_finds_the_hints_of_now, setup,
			teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
