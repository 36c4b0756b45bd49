/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/agent/slots.h. The test takes the place of the proxies at the agent's
 * socket. */
#include "steered.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scratch.h"
#include "stall.h"
#include "test.h"

static void settle(void)
{
	while (mpib_loop_turn(&agent.loop, 0) > 0)
		;
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

	return stat(scratch_path(MPIB_AGENT_HINTS), &st) < 0 ? 0 : st.st_ino;
}

static ino_t found_at_listen;

/* Note which hint file exists when the agent begins to listen. */
WRAPS(int, listen, int fd, int n)
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

/* Map the hint file, as a proxy does. */
static const struct mpib_hint_shm *map(void)
{
	struct stat st;
	void *p;
	int fd;

	fd = open(scratch_path(MPIB_AGENT_HINTS), O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 16 + 16 * 4096);
	assert_int_equal(st.st_mode & 0777, 0644);
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	assert_true(p != MAP_FAILED);
	close(fd);
	return p;
}

#define CASE(name) TEST_OF(name, steered_begin, steered_end)

CASE(a_registered_connection_has_a_hint_entry)
{
	const struct mpib_hint_shm *shm = map();
	struct mpib_agent_response r;
	int fd = steered_dial();

	assert_int_equal(shm->header.magic, MPIB_HINT_MAGIC);
	assert_int_equal(shm->header.max_entries, 256);
	assert_int_equal(shm->header.more, 3840);
	r = enlist(fd, 42ull << 16 | 7);
	assert_int_equal(r.status, 0);
	assert_int_equal(shm->entries[r.hint_slot].sup_bw, 0);
	assert_int_equal(shm->entries[r.hint_slot].seq % 2, 0);
	assert_int_equal(shm->entries[r.hint_slot].dst_ip, htonl(2));
	mpib_agent_hint(&agent, r.hint_slot, 300);
	assert_int_equal(mpib_hint_read(&shm->entries[r.hint_slot], 0), 300);
	ask(fd, MPIB_AGENT_DEREGISTER, 42ull << 16 | 7);
	assert_int_equal(mpib_hint_read(&shm->entries[r.hint_slot], 9), 0);
	assert_int_equal(agent.slot[r.hint_slot].users, 0);
	close(fd);
}

static struct mpib_agent_response ask_of(int fd,
					 const struct mpib_agent_request *q)
{
	struct mpib_agent_response r;

	assert_int_equal(send(fd, q, sizeof(*q), MSG_NOSIGNAL), sizeof(*q));
	settle();
	assert_int_equal(recv(fd, &r, sizeof(r), MSG_DONTWAIT), sizeof(r));
	return r;
}

static struct mpib_agent_response enlist_to(int fd, uint64_t id, uint32_t peer)
{
	struct mpib_agent_request q = { .type = MPIB_AGENT_REGISTER,
					.conn_id = id,
					.sout_dst_ip = htonl(peer) };

	return ask_of(fd, &q);
}

CASE(connections_to_a_peer_share_a_hint)
{
	const struct mpib_hint_shm *shm = map();
	struct mpib_agent_response r, same, other;
	int a = steered_dial(), b = steered_dial();

	/* Connections to the same peer share a hint, even if they belong to
	 * different proxies. Connections to another peer have another hint. */
	r = enlist_to(a, 5000, 2);
	same = enlist_to(b, 5000, 2);
	other = enlist_to(b, 5001, 3);
	assert_int_equal(r.status, 0);
	assert_int_equal(same.hint_slot, r.hint_slot);
	assert_int_not_equal(other.hint_slot, r.hint_slot);
	mpib_agent_hint(&agent, r.hint_slot, 200);
	/* When the first proxy's connection is gone, the hint of the other
	 * proxy's connection stays. */
	ask(a, MPIB_AGENT_DEREGISTER, 5000);
	assert_int_equal(mpib_hint_read(mpib_hint_at(shm, r.hint_slot), 9),
			 200);
	close(b);
	settle();
	assert_int_equal(mpib_hint_read(mpib_hint_at(shm, r.hint_slot), 9), 0);
	close(a);
}

/* A proxy in advanced mode would take MPIB_HINT_OWN for "all on SUP". A
 * connection with only one rail must not share a hint with connections that
 * have two. */
CASE(only_connections_of_the_same_kind_share_a_hint)
{
	struct mpib_agent_request q = { .type = MPIB_AGENT_REGISTER,
					.sout_dst_ip = htonl(2) };
	uint32_t slot[4];
	int a = steered_dial();

	for (unsigned i = 0; i < 8; i++) {
		struct mpib_agent_response r;

		q.conn_id = 5000 + i;
		q.flags = i & 1 ? MPIB_AGENT_ADAPTIVE : 0;
		q.sup_dst_ip = i & 2 ? htonl(3) : 0;
		r = ask_of(a, &q);
		assert_int_equal(r.status, 0);
		assert_int_equal(agent.slot[r.hint_slot].adaptive, i & 1);
		assert_int_equal(agent.slot[r.hint_slot].alone, !(i & 2));
		if (i < 4)
			slot[i] = r.hint_slot;
		else
			assert_int_equal(r.hint_slot, slot[i - 4]);
	}
	close(a);
}

CASE(more_peers_than_hints_are_refused)
{
	int a = steered_dial(), b = steered_dial();

	for (unsigned i = 0; i < MPIB_HINT_SLOTS_MAX; i++)
		assert_int_equal(enlist_to(a, i, 10 + i).status, 0);
	assert_int_equal(enlist_to(b, 1, 9).status, -ENOSPC);
	assert_int_equal(enlist_to(b, 2, 10).status, 0);
	/* A proxy that ends releases all its slots, and only these. */
	close(a);
	settle();
	assert_int_equal(agent.slot[enlist_to(b, 3, 10).hint_slot].users, 2);
	assert_int_equal(enlist_to(b, 4, 9).status, 0);
	close(b);
}

CASE(a_second_registration_of_a_connection_is_refused)
{
	int a = steered_dial(), b = steered_dial();

	assert_int_equal(enlist(a, 5).status, 0);
	assert_int_equal(enlist(a, 5).status, -EEXIST);
	/* The same number from another proxy names another connection. */
	assert_int_equal(enlist(b, 5).status, 0);
	/* This connection was never registered. */
	ask(b, MPIB_AGENT_DEREGISTER, 77);
	assert_int_equal(enlist(b, 6).status, 0);
	close(a);
	close(b);
}

CASE(a_proxy_that_sends_invalid_messages_is_disconnected)
{
	int a = steered_dial(), b = steered_dial(), c = steered_dial();

	ask(a, 77, 1);
	assert_true(hung_up(a));
	assert_int_equal(send(b, "hello", 5, 0), 5);
	assert_true(hung_up(b));
	assert_int_equal(enlist(c, 1).status, 0);
	close(a);
	close(b);
	close(c);
}

CASE(a_second_agent_does_not_disturb_the_first)
{
	struct mpib_agent other;
	int fd = steered_dial();

	assert_int_equal(enlist(fd, 1).status, 0);
	assert_int_equal(mpib_agent_start(&other, scratch, "nobody", why),
			 -EADDRINUSE);
	assert_int_equal(enlist(fd, 2).status, 0);
	assert_int_equal(map()->entries[0].dst_ip, htonl(2));
	close(fd);
}

/* Open the socket to all users, and connect as the user `uid`. */
static int dial_as(uid_t uid)
{
	int fd;

	assert_int_equal(chmod(scratch, 0755), 0);
	assert_int_equal(chmod(scratch_path(MPIB_AGENT_SOCK), 0666), 0);
	assert_int_equal(setegid(61000), 0);
	assert_int_equal(seteuid(uid), 0);
	fd = steered_dial();
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(setegid(0), 0);
	return fd;
}

/* Return whether the mode and ACL of the socket at `path` allow this user to
 * connect. */
static bool admitted(const char *path, uid_t uid, gid_t gid)
{
	bool yes;

	assert_int_equal(chmod(scratch, 0755), 0);
	assert_int_equal(setegid(gid), 0);
	assert_int_equal(seteuid(uid), 0);
	yes = faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0;
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(setegid(0), 0);
	return yes;
}

CASE(only_proxies_of_known_users_are_served)
{
	const struct passwd *pw = getpwnam("nobody");
	const char *path = scratch_path(MPIB_AGENT_SOCK);
	struct stat st;
	int fd;

	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0007, 0);
	if (geteuid() != 0 || !pw)
		skip_as("needs root, to act as two users");
	assert_int_equal(setgroups(0, NULL), 0);
	assert_true(admitted(path, pw->pw_uid, pw->pw_gid));
	assert_false(admitted(path, 61001, 61000));
	fd = dial_as(61001);
	assert_true(hung_up(fd));
	close(fd);
	fd = dial_as(pw->pw_uid);
	assert_int_equal(enlist(fd, 1).status, 0);
	close(fd);
}

CASE(lingering_sockets_of_refused_users_do_not_block_the_agent)
{
	struct mpib_agent_request r = { 0 };
	int fd, lingers;

	if (geteuid() != 0)
		skip_as("needs root, to act as two users");
	assert_int_equal(setgroups(0, NULL), 0);
	lingers = stall_socket();
	fd = dial_as(61001);
	assert_int_equal(stall_send(fd, &r, sizeof(r), &lingers, 1), sizeof(r));
	close(lingers);
	alarm(30); /* a blocking close would never return */
	settle();
	alarm(0);
	assert_true(recv(fd, &r, sizeof(r), MSG_DONTWAIT) == 0 ||
		    errno == ECONNRESET);
	close(fd);
	fd = steered_dial();
	assert_int_equal(enlist(fd, 1).status, 0);
	close(fd);
}

CASE(a_new_agent_takes_over_the_files_of_a_killed_one)
{
	const struct mpib_hint_shm *old = map(), *new;
	struct mpib_agent dead = agent;

	mpib_hint_write(mpib_hint_at(agent.shm, 3), 999);
	/* The socket and the hint file of the dead agent remain, but no process
	 * listens. */
	mpib_loop_del(&dead.loop, &dead.acceptor.watch);
	close(dead.fd);
	close(dead.lock);
	close(dead.dir_fd);
	mpib_loop_fini(&dead.loop);
	assert_int_equal(mpib_agent_start(&agent, scratch, "nobody", why), 0);
	new = map();
	assert_int_equal(new->entries[3].sup_bw, 0);
	assert_int_equal(old->entries[3].sup_bw, 999);
}

/* The hints of a killed agent still exist when a new agent starts. */
CASE(a_proxy_that_gets_an_answer_finds_the_current_hints)
{
	char path[96], old[96];
	ino_t before;

	snprintf(path, sizeof(path), "%s", scratch_path(MPIB_AGENT_HINTS));
	snprintf(old, sizeof(old), "%s", scratch_path("old"));
	assert_int_equal(rename(path, old), 0);
	mpib_agent_stop(&agent);
	assert_int_equal(rename(old, path), 0);
	before = hints_found();
	assert_int_equal(mpib_agent_start(&agent, scratch, "nobody", why), 0);
	assert_int_not_equal(hints_found(), before);
	assert_int_equal(found_at_listen, hints_found());
}
