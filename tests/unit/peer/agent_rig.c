/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_rig.h"

#include <fcntl.h>
#include <mpib/agent.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "scratch.h"
#include "test.h"

static int listener, agent;

static void make_file(size_t bytes, uint32_t magic, uint32_t more, mode_t mode)
{
	struct mpib_hint_header h = { .magic = magic,
				      .max_entries = MPIB_HINT_MAX_ENTRIES,
				      .version = MPIB_HINT_VERSION,
				      .more = more };
	const char *path = scratch_path(MPIB_AGENT_HINTS);
	int fd;

	unlink(path);
	fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, mode), 0);
	assert_int_equal(write(fd, &h, sizeof(h)), sizeof(h));
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	close(fd);
}

void agent_rig_make_hints(size_t bytes, uint32_t magic, mode_t mode)
{
	make_file(bytes, magic, 0, mode);
}

void agent_rig_make_longer_hints(uint32_t more, int bytes)
{
	make_file(mpib_hint_bytes(MPIB_HINT_MAX_ENTRIES + more) + (size_t)bytes,
		  MPIB_HINT_MAGIC, more, 0600);
}

void agent_rig_up(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/" MPIB_AGENT_SOCK,
		 scratch);
	unlink(sun.sun_path);
	listener = socket(AF_UNIX,
			  SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&sun, sizeof(sun)),
			 0);
	assert_int_equal(listen(listener, 4), 0);
	agent = -1;
}

void agent_rig_down(void)
{
	if (agent >= 0)
		close(agent);
	if (listener >= 0)
		close(listener);
	agent = listener = -1;
}

int agent_rig_setup(void **state)
{
	struct rig *rig;

	rig_setup(state);
	rig = *state;
	assert_int_equal(scratch_make(state), 0);
	rig->agent_dir = scratch;
	listener = agent = -1;
	for (unsigned n = 0; n < NODES; n++)
		rig->sout[n] = 0x0a000001u + n;
	return 0;
}

int agent_rig_teardown(void **state)
{
	agent_rig_down();
	scratch_remove(state);
	return rig_teardown(state);
}

bool agent_rig_take_call(void)
{
	if (agent >= 0)
		close(agent);
	agent = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	return agent >= 0;
}

bool agent_rig_is_heard(void)
{
	char byte;
	int fd;

	while ((fd = accept4(listener, NULL, NULL,
			     SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		if (agent >= 0)
			close(agent);
		agent = fd;
	}
	return agent >= 0 &&
	       recv(agent, &byte, 1, MSG_DONTWAIT | MSG_PEEK) != 0;
}

bool agent_rig_next(struct mpib_agent_request *r)
{
	ssize_t n = recv(agent, r, sizeof(*r), MSG_DONTWAIT);

	if (n > 0)
		assert_int_equal(n, sizeof(*r));
	return n > 0;
}

void agent_rig_answer(int32_t status, uint32_t slot)
{
	struct mpib_agent_response r = { .status = status, .hint_slot = slot };

	assert_int_equal(send(agent, &r, sizeof(r), MSG_NOSIGNAL), sizeof(r));
}

void agent_rig_send(const void *message, size_t bytes)
{
	assert_int_equal(send(agent, message, bytes, MSG_NOSIGNAL), bytes);
}

void agent_rig_say(const struct mpib_agent_summary *s)
{
	agent_rig_send(s, sizeof(*s));
}

uint32_t agent_rig_hint_of(const struct client *c, uint32_t index)
{
	return fake_conn(&c->engine_client, index)->hint;
}

struct agent_rig_ends agent_rig_nodes_up(struct rig *rig)
{
	struct agent_rig_ends e;

	rig_up(rig, 0);
	rig->agent_dir = NULL;
	rig_up(rig, 1);
	e.a = rig_client(rig, 0, 1000, 0);
	e.b = rig_client(rig, 1, 1000, 0);
	return e;
}

struct agent_rig_ends agent_rig_nodes_up_with_agent(struct rig *rig)
{
	agent_rig_make_hints(sizeof(struct mpib_hint_shm), MPIB_HINT_MAGIC,
			     0600);
	agent_rig_up();
	return agent_rig_nodes_up(rig);
}
