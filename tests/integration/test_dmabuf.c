/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way of a dma-buf's descriptor from a client to the rails, with a sealed
 * memfd in its place: a GPU's dma-buf and an HCA take the same way, but that
 * was not run here.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mpib/client.h>
#include <mpib/control.h>
#include <mpib/segment.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "ipc/message.h"
#include "node.h"

#define SIZE 65536u

static struct node node;
static int sock;

static int start(void **state)
{
	(void)state;
	node_start(&node, 7, "--dmabuf", "yes", "--quota-fds", "41", NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	node_stop(&node);
	return 0;
}

/* Descriptors of the proxy on memory of this name. */
static unsigned held(const char *name)
{
	char dir[64], path[400], target[256];
	struct dirent *e;
	unsigned n = 0;
	DIR *d;

	snprintf(dir, sizeof(dir), "/proc/%d/fd", node.pid);
	d = opendir(dir);
	assert_non_null(d);
	while ((e = readdir(d))) {
		ssize_t len;

		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		len = readlink(path, target, sizeof(target) - 1);
		if (len <= 0)
			continue;
		target[len] = '\0';
		n += strstr(target, name) != NULL;
	}
	closedir(d);
	return n;
}

/* A refused one is closed after the refusal was sent. */
static void until_held(const char *name, unsigned n)
{
	unsigned long long until = node_ms() + 60000;

	while (held(name) != n) {
		if (node_ms() > until)
			fail_msg("%s stays open %u times", name, held(name));
		usleep(1000);
	}
}

static bool mapped(const char *name)
{
	char path[64], line[512];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", node.pid);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		found |= strstr(line, name) != NULL;
	fclose(f);
	return found;
}

static int make_buffer(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, SIZE), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	return fd;
}

static void send_reg(uint32_t id, int fd)
{
	struct mpib_ctl_reg_fd r = {
		.h = { .type = MPIB_CTL_REG_FD, .id = id, .len = sizeof(r) },
		.size = SIZE,
		.flags = MPIB_REG_DMABUF
	};

	assert_int_equal(mpib_message_send(sock, &r.h, &fd, 1), 0);
}

static int hear(uint32_t id, struct mpib_message *m)
{
	char byte;

	assert_int_equal(recv(sock, &byte, 1, MSG_PEEK), 1);
	assert_int_equal(mpib_message_recv(sock, m), 1);
	assert_int_equal(m->h.id, id);
	mpib_message_close_fds(m);
	return m->h.status;
}

static uint32_t hear_region(uint32_t id)
{
	struct mpib_message m;
	const struct mpib_ctl_region *r = (const void *)m.bytes;

	assert_int_equal(hear(id, &m), 0);
	return r->mr;
}

static void dereg(uint32_t mr)
{
	struct mpib_ctl_id ask = {
		.h = { .type = MPIB_CTL_DEREG, .id = 77, .len = sizeof(ask) },
		.id = mr,
	};
	struct mpib_message m;

	assert_int_equal(mpib_message_send(sock, &ask.h, NULL, 0), 0);
	assert_int_equal(hear(77, &m), 0);
}

static int attach(void **state)
{
	struct mpib_ctl_hello h = {
		.h = { .type = MPIB_CTL_HELLO, .id = 1, .len = sizeof(h) },
		.version = MPIB_ABI_VERSION,
		.name = "dmabuf",
	};
	struct mpib_message m;

	(void)state;
	sock = node_dial(&node, MPIB_CONTROL_SOCK, SOCK_SEQPACKET);
	assert_int_equal(mpib_message_send(sock, &h.h, NULL, 0), 0);
	assert_int_equal(hear(1, &m), 0);
	return 0;
}

static int detach(void **state)
{
	(void)state;
	close(sock);
	node_until_usage(&node, "clients", 0);
	assert_int_equal(held("memfd:d-"), 0);
	assert_false(mapped("memfd:d-"));
	return 0;
}

/* Nothing is answered before the last of them is sent, so each must travel
 * with its own message. */
static void each_message_brings_its_own_descriptor(void **state)
{
	static const char *const name[] = { "d-first", "d-second", "d-third" };
	uint32_t mr[3];
	int fd[3];

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		fd[i] = make_buffer(name[i]);
		send_reg(10 + i, fd[i]);
	}
	for (unsigned i = 0; i < 3; i++) {
		mr[i] = hear_region(10 + i);
		close(fd[i]);
	}
	/* Who goes by its handle is the one that came with its message. */
	dereg(mr[1]);
	assert_int_equal(held("d-first"), 1);
	assert_int_equal(held("d-second"), 0);
	assert_int_equal(held("d-third"), 1);
	dereg(mr[0]);
	assert_int_equal(held("d-first"), 0);
	assert_int_equal(held("d-third"), 1);
	dereg(mr[2]);
}

/* NCCL closes the descriptor as soon as regMrDmaBuf returns. */
static void the_clients_own_may_be_closed_before_the_answer(void **state)
{
	int fd = make_buffer("d-gone");
	uint32_t mr;

	(void)state;
	send_reg(20, fd);
	close(fd);
	mr = hear_region(20);
	assert_int_equal(held("d-gone"), 1);
	assert_true(mapped("d-gone"));
	dereg(mr);
}

static void by_the_answer_to_deregister_it_is_closed(void **state)
{
	int fd = make_buffer("d-freed");
	uint32_t mr;

	(void)state;
	send_reg(30, fd);
	close(fd);
	mr = hear_region(30);
	dereg(mr);
	assert_int_equal(held("d-freed"), 0);
	assert_false(mapped("d-freed"));
}

static void a_refused_one_is_closed_too(void **state)
{
	int fd = memfd_create("d-unsealed", MFD_CLOEXEC);
	struct mpib_message m;

	(void)state;
	assert_int_equal(ftruncate(fd, SIZE), 0);
	send_reg(40, fd);
	assert_int_equal(hear(40, &m), -EPERM);
	until_held("d-unsealed", 0);
	close(fd);
}

static void a_client_that_dies_leaves_none(void **state)
{
	int fd = make_buffer("d-orphan");

	(void)state;
	send_reg(50, fd);
	hear_region(50);
	close(fd);
	assert_int_equal(held("d-orphan"), 1);
	/* detach() looks that it went */
}

static void they_count_as_descriptors_of_their_user(void **state)
{
	int fd = make_buffer("d-many");
	struct mpib_message m;

	(void)state;
	for (uint32_t i = 0; i < 36; i++) {
		send_reg(60, fd);
		hear_region(60);
	}
	send_reg(60, fd);
	assert_int_equal(hear(60, &m), -EDQUOT);
	until_held("d-many", 36);
	close(fd);
}

/* The client library on both ends, and the bytes seen through the test's own
 * map of what it gave away. */
struct end {
	struct mpib_client *client;
	struct mpib_region *region;
	struct mpib_conn *conn;
	char *mem;
};

static void give_buffer(struct end *e, const char *name)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts),
					 .run_dir = node.dir };
	struct mpib_node_info info;
	int fd = make_buffer(name);

	assert_int_equal(mpib_attach(&opts, &e->client), 0);
	mpib_query(e->client, &info);
	assert_int_equal(info.dmabuf, 1);
	e->mem = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(e->mem != MAP_FAILED);
	assert_int_equal(mpib_reg_fd(e->client, e->mem, SIZE, 0, fd,
				     MPIB_REG_DMABUF, &e->region),
			 0);
	close(fd);
}

static void until_ready(struct end *e)
{
	int rc;

	while ((rc = mpib_ready(e->conn)) == 0)
		usleep(1000);
	assert_int_equal(rc, 1);
}

static void until_done(struct mpib_request *req)
{
	size_t size = 0;
	int done = 0;

	while (!done)
		assert_int_equal(mpib_test(req, &done, &size), 0);
	assert_int_equal(size, SIZE);
}

static void connect_ends(struct end *from, struct end *to)
{
	struct mpib_listener *l;
	struct mpib_handle handle;

	assert_int_equal(mpib_listen(to->client, &handle, &l), 0);
	assert_int_equal(mpib_accept(l, &to->conn), 0);
	assert_int_equal(mpib_connect(from->client, &handle, -1, &from->conn),
			 0);
	until_ready(from);
	until_ready(to);
	mpib_close_listen(l);
}

static void move(struct end *from, struct end *to)
{
	struct mpib_request *tx, *rx;
	void *into = to->mem;
	size_t size = SIZE;
	int tag = 3;

	assert_int_equal(
		mpib_irecv(to->conn, 1, &into, &size, &tag, &to->region, &rx),
		0);
	assert_int_equal(
		mpib_isend(from->conn, from->mem, SIZE, tag, from->region, &tx),
		0);
	until_done(rx);
	until_done(tx);
}

static void the_rails_carry_what_lies_behind_it(void **state)
{
	struct end a = { 0 }, b = { 0 };

	(void)state;
	give_buffer(&a, "d-from");
	give_buffer(&b, "d-to");
	connect_ends(&a, &b);
	for (unsigned i = 0; i < SIZE; i++)
		a.mem[i] = (char)(i * 7 + (i >> 8));
	move(&a, &b);
	assert_memory_equal(a.mem, b.mem, SIZE);
	mpib_detach(a.client);
	mpib_detach(b.client);
	munmap(a.mem, SIZE);
	munmap(b.mem, SIZE);
}

#define t(f) cmocka_unit_test_setup_teardown(f, attach, detach)

int main(void)
{
	const struct CMUnitTest tests[] = {
		t(each_message_brings_its_own_descriptor),
		t(the_clients_own_may_be_closed_before_the_answer),
		t(by_the_answer_to_deregister_it_is_closed),
		t(a_refused_one_is_closed_too),
		t(a_client_that_dies_leaves_none),
		t(they_count_as_descriptors_of_their_user),
		t(the_rails_carry_what_lies_behind_it),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
