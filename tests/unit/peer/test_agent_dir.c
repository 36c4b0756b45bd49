/* SPDX-License-Identifier: Apache-2.0 */
/* Which agents the proxy trusts, depending on the owners and modes of the
 * directory, the hint file and the socket. */
#include <errno.h>
#include <fcntl.h>
#include <mpib/agent.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/agent.h"
#include "scratch.h"
#include "test.h"

#define AGENT 61001
#define OTHER 61002

static char hints[96];
static int at;

static int setup(void **state)
{
	struct mpib_hint_header h = { .magic = MPIB_HINT_MAGIC,
				      .max_entries = MPIB_HINT_MAX_ENTRIES,
				      .version = MPIB_HINT_VERSION };
	int fd;

	assert_int_equal(scratch_make(state), 0);
	snprintf(hints, sizeof(hints), "%s", scratch_path(MPIB_AGENT_HINTS));
	fd = open(hints, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, &h, sizeof(h)), sizeof(h));
	assert_int_equal(ftruncate(fd, sizeof(struct mpib_hint_shm)), 0);
	close(fd);
	at = open(scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return 0;
}

static int teardown(void **state)
{
	close(at);
	return scratch_remove(state);
}

static int closed(int fd)
{
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static void needs_root(void)
{
	if (geteuid() == 0)
		return;
	skip_as("needs root, to act as two users");
}

fixture_test(an_agents_files_of_another_user_are_refused)
{
	uint32_t slots;

	needs_root();
	for (uid_t uid = AGENT; uid <= OTHER; uid++) {
		int want = uid == AGENT ? 0 : -EPERM;

		assert_int_equal(chown(scratch, uid, (gid_t)-1), 0);
		assert_int_equal(closed(mpib_agent_dir_open(scratch, AGENT)),
				 want);
		assert_int_equal(closed(mpib_agent_dir_open(
					 scratch, MPIB_AGENT_NO_USER)),
				 -EPERM);
		assert_int_equal(chown(hints, uid, (gid_t)-1), 0);
		assert_int_equal(
			closed(mpib_agent_hints_open(at, AGENT, &slots)), want);
		assert_int_equal(closed(mpib_agent_hints_open(
					 at, MPIB_AGENT_NO_USER, &slots)),
				 -EPERM);
	}
}

/* The directory has the right owner, but its mode lets other users listen in
 * it, too. */
fixture_test(the_agent_must_run_as_root_or_the_proxys_or_the_directorys_user)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd;

	needs_root();
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/" MPIB_AGENT_SOCK,
		 scratch);
	for (uid_t uid = AGENT; uid <= OTHER; uid++) {
		int want = uid == AGENT ? 0 : -EPERM;

		fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		assert_int_equal(chmod(scratch, 0777), 0);
		assert_int_equal(seteuid(uid), 0);
		unlink(sun.sun_path);
		assert_int_equal(bind(fd, (struct sockaddr *)&sun, sizeof(sun)),
				 0);
		assert_int_equal(listen(fd, 4), 0);
		assert_int_equal(seteuid(0), 0);
		assert_int_equal(closed(mpib_agent_dial(at, AGENT)), want);
		assert_int_equal(
			closed(mpib_agent_dial(at, MPIB_AGENT_NO_USER)),
			-EPERM);
		close(fd);
	}
}
