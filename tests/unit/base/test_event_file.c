/* SPDX-License-Identifier: Apache-2.0 */
/* base/event.h: the journal in a file. Each run of a proxy is a forked process,
 * which starts with an empty journal in memory. */
#include "base/event.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#define CHECK(x)                                                               \
	do {                                                                   \
		if (!(x)) {                                                    \
			fprintf(stderr, "line %d: %s\n", __LINE__, #x);        \
			_exit(1);                                              \
		}                                                              \
	} while (0)

static char dir[] = "/tmp/mpib-events.XXXXXX", path[64];
static struct mpib_event got[2 * MPIB_EVENTS];

static void quiet(enum mpib_log_level level, const char *line)
{
}

static uint64_t newest(void)
{
	uint64_t last;

	mpib_events_after(UINT64_MAX, got, 1, &last);
	return last;
}

static void tell(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		mpib_event(MPIB_LOG_INFO, "set",
			   &(struct mpib_event_about){ .peer = "a:1",
						       .client = i },
			   "event %u", i);
}

/* Call `life` in a child process, which must end with status 0 or by
 * SIGKILL. */
static void live(void (*life)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		mpib_log_set_sink(quiet);
		life();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true((WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
		    (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
}

static void first_life(void)
{
	tell(1); /* an event before the file is open */
	CHECK(mpib_events_file(path) == 0);
	tell(2);
	CHECK(newest() == 3);
	kill(getpid(), SIGKILL);
}

static void second_life(void)
{
	uint64_t last;

	tell(1);
	CHECK(mpib_events_file(path) == 0);
	CHECK(mpib_events_after(0, got, 8, &last) == 4);
	CHECK(last == 4 && got[0].seq == 1 && got[3].seq == 4);
	CHECK(!strcmp(got[2].text, "event 1") && got[2].client == 1);
	CHECK(!strcmp(got[2].peer, "a:1") && !strcmp(got[2].kind, "set"));
	CHECK(got[2].level == MPIB_LOG_INFO && got[2].time_ns > 0);
	tell(2 * MPIB_EVENTS);
	CHECK(newest() == 4 + 2 * MPIB_EVENTS);
}

static void third_life(void)
{
	uint64_t last;

	CHECK(mpib_events_file(path) == 0);
	CHECK(mpib_events_after(1, got, 2 * MPIB_EVENTS, &last) == MPIB_EVENTS);
	CHECK(got[0].seq == 5 + MPIB_EVENTS && last == 4 + 2 * MPIB_EVENTS);
}

TEST(numbers_continue_after_a_process_was_killed)
{
	struct stat st;

	live(first_life);
	live(second_life);
	live(third_life);
	assert_int_equal(stat(path, &st), 0);
	/* The file stays small. */
	assert_true(st.st_size < 512 * 1024);
	assert_int_equal(st.st_mode & 0137, 0);
}

/* The damaged event is skipped, and the events after it are kept. */
static void damaged_life(void)
{
	uint64_t last;
	unsigned n;

	CHECK(mpib_events_file(path) == 0);
	n = mpib_events_after(0, got, 2 * MPIB_EVENTS, &last);
	CHECK(last == 4 + 2 * MPIB_EVENTS && n > 0 && n < MPIB_EVENTS);
	for (unsigned i = 0; i < n; i++)
		CHECK(got[i].seq == last - n + 1 + i && got[i].text[0]);
	tell(1);
	CHECK(mpib_events_after(last, got, 8, &last) == 1);
}

TEST(damaged_events_are_skipped)
{
	struct stat st;
	char c;
	int fd;

	assert_int_equal(stat(path, &st), 0);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &c, 1, st.st_size / 2 + 17), 1);
	/* Flip a bit instead of writing a fixed value: the byte may already
	 * have any value, because it may be a part of a checksum. */
	c ^= 1;
	assert_int_equal(pwrite(fd, &c, 1, st.st_size / 2 + 17), 1);
	close(fd);
	live(damaged_life);
}

static void no_journal_life(void)
{
	CHECK(mpib_events_file(path) == 0);
	CHECK(newest() == 0);
	tell(1);
	CHECK(newest() == 1);
}

TEST(a_file_with_other_contents_is_not_used_as_a_journal)
{
	static char junk[400000];
	int fd;

	memset(junk, 0x5a, sizeof(junk));
	fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, junk, sizeof(junk)), sizeof(junk));
	close(fd);
	live(no_journal_life);
}

static void pipe_life(void)
{
	struct stat st;

	/* No process writes to the pipe, so a blocking open would never
	 * return. */
	alarm(60);
	CHECK(mkfifo(path, 0600) == 0);
	CHECK(mpib_events_file(path) == -EINVAL);
	CHECK(lstat(path, &st) == 0 && S_ISFIFO(st.st_mode));
	tell(1);
	CHECK(newest() == 1);
	CHECK(unlink(path) == 0);
}

TEST(a_pipe_is_refused_and_not_removed)
{
	unlink(path);
	live(pipe_life);
}

static void nowhere_life(void)
{
	CHECK(mpib_events_file("/nowhere/events") == -ENOENT);
	tell(1);
	CHECK(newest() == 1);
}

TEST(the_journal_works_without_a_file)
{
	live(nowhere_life);
}

static int make_dir(void **state)
{
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/events", dir);
	return 0;
}

static int remove_dir(void **state)
{
	unlink(path);
	return rmdir(dir); /* fails if another file is left */
}

struct test_group test_group = { make_dir, remove_dir };
