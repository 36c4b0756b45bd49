/* SPDX-License-Identifier: Apache-2.0 */
/* client/survivors.h: whether all clients of the previous proxy have attached
 * again. */
#include "client/survivors.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/loop.h"
#include "scratch.h"
#include "test.h"

static int dir;

static int open_dir(void **state)
{
	int rc = scratch_make(state);

	dir = open(scratch, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return rc;
}

static int close_dir(void **state)
{
	close(dir);
	return scratch_remove(state);
}

#define CASE(name) TEST_OF(name, open_dir, close_dir)

static struct mpib_process process_of(pid_t pid)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct mpib_process p =
		mpib_process_of(getuid(), (uint32_t)pid, pidfd, 0);

	close(pidfd);
	return p;
}

/* Start the record of a proxy in the directory, as a new proxy does. */
static struct mpib_survivors begin(void)
{
	struct mpib_survivors v;

	assert_int_equal(mpib_survivors_open(&v, dir, 30 * MPIB_SEC), 0);
	return v;
}

CASE(a_living_client_counts_as_back_after_all_its_requests)
{
	const struct mpib_process self = process_of(getpid());
	struct mpib_survivors v = begin();
	struct mpib_survivor *record;

	/* The first proxy found no file of an earlier proxy. */
	assert_false(mpib_survivors_are_back(&v));
	assert_non_null(mpib_survivors_take(&v, &self, 1));
	v = begin();
	assert_false(mpib_survivors_are_back(&v));
	record = mpib_survivors_take(&v, &self, 2);
	assert_false(mpib_survivors_are_back(&v));
	/* The client disconnects before it has requested its connections. */
	mpib_survivors_leave(record);
	assert_false(mpib_survivors_are_back(&v));
	record = mpib_survivors_take(&v, &self, 3);
	mpib_survivors_resumed(record, 0, true);
	assert_true(mpib_survivors_are_back(&v));
	mpib_survivors_leave(record);
	assert_true(mpib_survivors_are_back(&v));
}

CASE(a_client_that_ended_is_not_waited_for)
{
	struct mpib_survivors v = begin();
	pid_t child = fork();
	struct mpib_process p;

	if (child == 0) {
		pause();
		_exit(0);
	}
	p = process_of(child);
	assert_non_null(mpib_survivors_take(&v, &p, 1));
	v = begin();
	assert_false(mpib_survivors_are_back(&v));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_true(mpib_survivors_are_back(&v));
}

static uint32_t of_this_thread(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

static void *detach(void *arg)
{
	struct mpib_survivor *record = arg;

	mpib_survivors_resumed(record, of_this_thread(), false);
	assert_int_equal(record->process.thread, of_this_thread());
	return NULL;
}

/* The process has two clients. One client detaches while no proxy runs. */
CASE(a_detached_client_of_a_living_process_is_not_waited_for)
{
	struct mpib_process self = process_of(getpid());
	struct mpib_survivors v = begin();
	struct mpib_survivor *stays = mpib_survivors_take(&v, &self, 1);
	pthread_t thread;

	mpib_survivors_resumed(stays, of_this_thread(), false);
	pthread_create(&thread, NULL, detach,
		       mpib_survivors_take(&v, &self, 2));
	pthread_join(thread, NULL);
	v = begin();
	assert_false(mpib_survivors_are_back(&v));
	mpib_process_thread(&self, of_this_thread());
	mpib_survivors_resumed(mpib_survivors_take(&v, &self, 3), self.thread,
			       true);
	assert_true(mpib_survivors_are_back(&v));
}

CASE(a_new_client_of_the_process_does_not_resume_an_older_one)
{
	const struct mpib_process self = process_of(getpid());
	struct mpib_survivors v = begin();

	/* The client's thread is unknown (0), as it is for a client in another
	 * pid namespace. */
	assert_non_null(mpib_survivors_take(&v, &self, 1));
	v = begin();
	mpib_survivors_resumed(mpib_survivors_take(&v, &self, 2), 0, false);
	assert_false(mpib_survivors_are_back(&v));
}

/* A client in another pid namespace may report a thread number that belongs to
 * a different process in this namespace. */
CASE(a_thread_of_another_process_is_not_recorded)
{
	struct mpib_process self = process_of(getpid());

	mpib_process_thread(&self, 1);
	assert_int_equal(self.thread, 0);
}

CASE(a_client_without_a_record_may_come_back)
{
	const struct mpib_process unknown = { .uid = 1 };
	struct mpib_survivors v = begin();

	assert_null(mpib_survivors_take(&v, &unknown, 1));
	v = begin();
	assert_false(mpib_survivors_are_back(&v));
	v = begin();
	assert_true(mpib_survivors_are_back(&v));
}
