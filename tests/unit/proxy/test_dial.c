/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/ctl/dial.h: what is asked of a proxy that hands over meanwhile. */
#include "ctl/dial.h"

#include <mpib/control.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "scratch.h"
#include "test.h"

#define GREETING "{\"mpib\":\"x\",\"proto\":1,\"pid\":1,\"uptime_s\":1}\n"

/* A process that is asked: it hangs up at once without says, after it has read a
 * command with an empty one, before it reads one with deaf, else it answers that. */
static const char deaf[] = "";
static const char *const *says;
static unsigned processes, called, asked;
static int listener;
static pthread_t thread;

static void *serve(void *arg)
{
	for (unsigned i = 0; i < processes; i++) {
		int fd = accept(listener, NULL, NULL);
		char line[256];

		if (fd < 0)
			break;
		called++;
		if (says[i] == deaf)
			shutdown(fd, SHUT_RD);
		if (says[i] && write(fd, GREETING, strlen(GREETING)) > 0 &&
		    read(fd, line, sizeof(line)) > 0) {
			asked++;
			if (write(fd, says[i], strlen(says[i])) < 0)
				asked = 0;
		}
		close(fd);
	}
	return arg;
}

static void begin(const char *const *list, unsigned n)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	says = list;
	processes = n;
	called = asked = 0;
	assert_int_equal(mkdir(scratch_path("run"), 0700), 0);
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s",
		 scratch_path("run/" MPIB_STATS_SOCK));
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&sun, sizeof(sun)),
			 0);
	assert_int_equal(listen(listener, 8), 0);
	assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
}

static void end(struct mpib_dial *d)
{
	mpib_dial_close(d);
	shutdown(listener, SHUT_RDWR); /* it may be for nobody any more */
	assert_int_equal(pthread_join(thread, NULL), 0);
	close(listener);
}

static void a_question_goes_to_who_has_taken_over(void **state)
{
	static const char *const list[] = { NULL, "", "{\"ok\":true,\"da",
					    "{\"ok\":true,\"data\":7}\n" };
	struct mpib_dial d;
	json_t *data;

	begin(list, 4);
	assert_int_equal(mpib_dial_open(&d, scratch_path("run")), 0);
	assert_int_equal(mpib_dial_read(&d, "rails", &data), 0);
	assert_int_equal(json_integer_value(data), 7);
	json_decref(data);
	end(&d);
	assert_int_equal(asked, 3);
}

static void a_change_is_said_once(void **state)
{
	static const char *const list[] = { NULL, "" };
	struct mpib_dial d;
	json_t *data;

	begin(list, 2);
	assert_int_equal(mpib_dial_open(&d, scratch_path("run")), 0);
	assert_int_equal(mpib_dial_ask(&d, "kick 1", &data),
			 MPIB_EXIT_NO_PROXY);
	assert_in(d.why, "hung up");
	end(&d);
	assert_int_equal(asked, 1);
}

/* What comes of a question for text: rc, with so much of it out. */
static void text_is(const char *const *list, unsigned n, int rc,
		    const char *want)
{
	char *text = NULL;
	struct mpib_dial d;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	begin(list, n);
	assert_int_equal(mpib_dial_open(&d, scratch_path("run")), 0);
	assert_int_equal(mpib_dial_text(&d, "metrics", out), rc);
	fclose(out);
	assert_string_equal(text, want);
	free(text);
	end(&d);
}

static void text_that_has_not_begun_is_asked_anew(void **state)
{
	static const char *const list[] = { "", "a ", "a 1\n# EOF\n" };

	text_is(list, 3, 0, "a 1\n# EOF\n");
}

static void text_without_its_end_is_none(void **state)
{
	static const char *const list[] = { "a 1\n", "a 2\nb", "a 3\n# EOF\n" };

	text_is(list, 3, 0, "a 3\n# EOF\n");
}

static void text_that_never_ends_is_given_up(void **state)
{
	static const char *const list[] = { "a 1\n", "a 2\n", "a 3\n",
					    "a 4\n", "a 5\n", "a 6\n" };

	text_is(list, 6, MPIB_EXIT_NO_PROXY, "");
}

static void who_goes_on_hanging_up_is_given_up(void **state)
{
	static const char *const list[] = { "", "", "", "", "", "" };
	struct mpib_dial d;
	json_t *data;

	begin(list, 6);
	assert_int_equal(mpib_dial_open(&d, scratch_path("run")), 0);
	assert_int_equal(mpib_dial_read(&d, "rails", &data),
			 MPIB_EXIT_NO_PROXY);
	assert_in(d.why, "hung up");
	end(&d);
	assert_int_equal(asked, 6);
}

/* Six are called, whatever it is that does not reach them. */
static void who_takes_no_command_is_called_no_more_often(void **state)
{
	const char *list[40];
	struct mpib_dial d;
	json_t *data;

	for (unsigned i = 0; i < 40; i++)
		list[i] = deaf;
	begin(list, 40);
	assert_int_equal(mpib_dial_open(&d, scratch_path("run")), 0);
	assert_int_equal(mpib_dial_read(&d, "rails", &data),
			 MPIB_EXIT_NO_PROXY);
	end(&d);
	assert_int_equal(called, 6);
}

#define SCRATCH_TEST(f)                                                        \
	cmocka_unit_test_setup_teardown(f, scratch_make, scratch_remove)

const struct CMUnitTest test_list[] = {
	SCRATCH_TEST(a_question_goes_to_who_has_taken_over),
	SCRATCH_TEST(a_change_is_said_once),
	SCRATCH_TEST(text_that_has_not_begun_is_asked_anew),
	SCRATCH_TEST(text_without_its_end_is_none),
	SCRATCH_TEST(text_that_never_ends_is_given_up),
	SCRATCH_TEST(who_takes_no_command_is_called_no_more_often),
	SCRATCH_TEST(who_goes_on_hanging_up_is_given_up),
	{ 0 },
};
