/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/ctl/upgrade.c: how long mpibctl waits for an upgrade to end. */
#include <mpib/control.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "ctl/commands.h"
#include "scratch.h"
#include "test.h"

#define GREETING "{\"mpib\":\"x\",\"proto\":1,\"pid\":1,\"uptime_s\":1}\n"
#define STATE(s) "{\"ok\":true,\"data\":{\"state\":\"" s "\",\"pid\":7}}\n"

static unsigned looks, ends_after; /* of the latter it is done; 0: never */
static time_t passed_s, stepped_s; /* on both clocks, and of the day's alone */
static time_t of_a_look_s, step_s;
static char why[MPIB_DIAL_WHY];
static int listener;

int __real_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
	int rc = __real_clock_gettime(id, now);

	now->tv_sec += passed_s + (id == CLOCK_REALTIME ? stepped_s : 0);
	return rc;
}

time_t __wrap_time(time_t *t);
time_t __wrap_time(time_t *t)
{
	struct timespec now;

	(void)t;
	__wrap_clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec;
}

int __wrap_nanosleep(const struct timespec *ns, struct timespec *left);
int __wrap_nanosleep(const struct timespec *ns, struct timespec *left)
{
	(void)ns;
	(void)left;
	passed_s += of_a_look_s;
	stepped_s = step_s;
	return 0;
}

int mpib_ctl_fail(int status, const char *reason)
{
	snprintf(why, sizeof(why), "%s", reason);
	return status;
}

int mpib_ctl_finish(int status)
{
	return status;
}

bool mpib_ctl_line(const struct mpib_ctl_call *call, char *buf, size_t len)
{
	return snprintf(buf, len, "%s", call->command->ask) < (int)len;
}

static void *serve(void *arg)
{
	for (int fd; (fd = accept(listener, NULL, NULL)) >= 0; close(fd)) {
		const char *say = ends_after && ++looks >= ends_after
					  ? STATE("done")
					  : STATE("starting");
		char line[256];

		if (write(fd, GREETING, strlen(GREETING)) < 0 ||
		    read(fd, line, sizeof(line)) <= 0 ||
		    write(fd, say, strlen(say)) < 0)
			break;
	}
	return arg;
}

/* What mpibctl ends with, where it is over after so many looks, if ever. */
static int upgrade(unsigned after)
{
	const struct mpib_ctl_command command = { .ask = "upgrade" };
	const struct mpib_ctl_call call = { .command = &command,
					    .run_dir = scratch_path("run") };
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	pthread_t thread;
	int rc;

	looks = 0;
	ends_after = after;
	assert_int_equal(mkdir(call.run_dir, 0700), 0);
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/" MPIB_STATS_SOCK,
		 call.run_dir);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&sun, sizeof(sun)),
			 0);
	assert_int_equal(listen(listener, 8), 0);
	assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
	rc = mpib_ctl_upgrade(&call);
	shutdown(listener, SHUT_RDWR);
	assert_int_equal(pthread_join(thread, NULL), 0);
	close(listener);
	return rc;
}

static int setup(void **state)
{
	passed_s = stepped_s = of_a_look_s = step_s = 0;
	why[0] = '\0';
	return scratch_make(state);
}

/* As a clock that is set just then. */
static void the_time_of_day_does_not_matter(void **state)
{
	step_s = 3600;
	if (upgrade(3) != MPIB_EXIT_OK)
		fail_msg("ended: %s", why);
}

/* A proxy has 30 s to start, 7 to settle, 30 to map, 3 to fence and 4 to hand over. */
static void a_slow_one_is_waited_for(void **state)
{
	of_a_look_s = 1;
	if (upgrade(74) != MPIB_EXIT_OK)
		fail_msg("ended: %s", why);
}

static void one_that_never_ends_is_given_up(void **state)
{
	of_a_look_s = 1;
	assert_int_equal(upgrade(0), MPIB_EXIT_FAILED);
	assert_in(why, "does not come to an end");
	assert_in_range(passed_s, 80, 120);
}

#define SCRATCH_TEST(f)                                                        \
	cmocka_unit_test_setup_teardown(f, setup, scratch_remove)

const struct CMUnitTest test_list[] = {
	SCRATCH_TEST(the_time_of_day_does_not_matter),
	SCRATCH_TEST(a_slow_one_is_waited_for),
	SCRATCH_TEST(one_that_never_ends_is_given_up),
	{ 0 },
};
