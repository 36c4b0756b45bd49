/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of how the descriptor of a dma-buf gets from a client to the rails. A
 * sealed memfd stands for the dma-buf. The dma-buf of a GPU takes the same path
 * to an HCA, but is not tested here.
 */
#include <errno.h>
#include <mpib/client.h>
#include <mpib/control.h>
#include <mpib/segment.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "buffer.h"
#include "ipc/message.h"
#include "node.h"
#include "test.h"

static struct node node;
static int sock;

static int start(void **state)
{
	node_start(&node, 7, "--dmabuf", "yes", "--quota-fds", "41", NULL);
	return 0;
}

static int stop(void **state)
{
	node_stop(&node);
	return 0;
}

static void send_reg(uint32_t id, int fd)
{
	struct mpib_ctl_reg_fd r = {
		.h = { .type = MPIB_CTL_REG_FD, .id = id, .len = sizeof(r) },
		.size = BUFFER_SIZE,
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

	sock = node_dial(&node, MPIB_CONTROL_SOCK, SOCK_SEQPACKET);
	assert_int_equal(mpib_message_send(sock, &h.h, NULL, 0), 0);
	assert_int_equal(hear(1, &m), 0);
	return 0;
}

static int detach(void **state)
{
	close(sock);
	node_until_usage(&node, "clients", 0);
	assert_int_equal(buffer_held(&node, "memfd:d-"), 0);
	assert_false(buffer_mapped(&node, "memfd:d-"));
	return 0;
}

#define CASE(name) TEST_OF(name, attach, detach)

/* The client sends all requests before it reads the first answer. So the proxy
 * must not mix up the descriptors of the messages. */
CASE(each_registration_takes_its_own_descriptor)
{
	static const char *const name[] = { "d-first", "d-second", "d-third" };
	uint32_t mr[3];
	int fd[3];

	for (unsigned i = 0; i < 3; i++) {
		fd[i] = buffer_make(name[i]);
		send_reg(10 + i, fd[i]);
	}
	for (unsigned i = 0; i < 3; i++) {
		mr[i] = hear_region(10 + i);
		close(fd[i]);
	}
	/* Check that each region handle belongs to the memory whose descriptor
	 * came with the same message. */
	dereg(mr[1]);
	assert_int_equal(buffer_held(&node, "d-first"), 1);
	assert_int_equal(buffer_held(&node, "d-second"), 0);
	assert_int_equal(buffer_held(&node, "d-third"), 1);
	dereg(mr[0]);
	assert_int_equal(buffer_held(&node, "d-first"), 0);
	assert_int_equal(buffer_held(&node, "d-third"), 1);
	dereg(mr[2]);
}

/* NCCL closes the descriptor as soon as regMrDmaBuf returns. */
CASE(a_client_may_close_its_descriptor_before_the_answer)
{
	int fd = buffer_make("d-gone");
	uint32_t mr;

	send_reg(20, fd);
	close(fd);
	mr = hear_region(20);
	assert_int_equal(buffer_held(&node, "d-gone"), 1);
	assert_true(buffer_mapped(&node, "d-gone"));
	dereg(mr);
}

CASE(deregistering_closes_the_descriptor_before_the_answer)
{
	int fd = buffer_make("d-freed");
	uint32_t mr;

	send_reg(30, fd);
	close(fd);
	mr = hear_region(30);
	dereg(mr);
	assert_int_equal(buffer_held(&node, "d-freed"), 0);
	assert_false(buffer_mapped(&node, "d-freed"));
}

CASE(a_refused_descriptor_is_closed)
{
	int fd = memfd_create("d-unsealed", MFD_CLOEXEC);
	struct mpib_message m;

	assert_int_equal(ftruncate(fd, BUFFER_SIZE), 0);
	send_reg(40, fd);
	assert_int_equal(hear(40, &m), -EPERM);
	buffer_until_held(&node, "d-unsealed", 0);
	close(fd);
}

CASE(a_dead_client_leaves_no_descriptor)
{
	int fd = buffer_make("d-orphan");

	send_reg(50, fd);
	hear_region(50);
	close(fd);
	assert_int_equal(buffer_held(&node, "d-orphan"), 1);
	/* detach() checks that the proxy has closed the descriptor */
}

CASE(descriptors_count_towards_the_quota_of_their_user)
{
	int fd = buffer_make("d-many");
	struct mpib_message m;

	for (uint32_t i = 0; i < 36; i++) {
		send_reg(60, fd);
		hear_region(60);
	}
	send_reg(60, fd);
	assert_int_equal(hear(60, &m), -EDQUOT);
	buffer_until_held(&node, "d-many", 36);
	close(fd);
}

struct test_group test_group = { start, stop };
