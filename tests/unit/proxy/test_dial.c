/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/ctl/dial.h: what is asked of a proxy that ends meanwhile. */
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

/* What each caller is answered, if it is not empty, before it is hung up on. */
static const char *const *says;
static unsigned processes, asked;
static int listener;
static pthread_t thread;

static void *serve(void *arg)
{
	for (unsigned i = 0; i < processes; i++) {
		int fd = accept(listener, NULL, NULL);
		char line[256];

		if (fd < 0)
			break;
		if (write(fd, GREETING, strlen(GREETING)) > 0 &&
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
	asked = 0;
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

#define CASE(name) TEST_OF(name, scratch_make, scratch_remove)

CASE(an_answer_without_its_end_is_none)
{
	static const char *const list[] = { "{\"ok\":true,\"da" };
	struct mpib_dial d;
	json_t *data;

	begin(list, 1);
	assert_int_equal(mpib_dial_open(&d, scratch_path("run")), 0);
	assert_int_equal(mpib_dial_ask(&d, "rails", &data), MPIB_EXIT_NO_PROXY);
	assert_in(d.why, "hung up");
	end(&d);
	assert_int_equal(asked, 1);
}

CASE(who_hangs_up_is_not_asked_again)
{
	static const char *const list[] = { "", "{\"ok\":true,\"data\":7}\n" };
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

CASE(text_comes_whole)
{
	static const char *const list[] = { "a 1\n# EOF\n" };

	text_is(list, 1, 0, "a 1\n# EOF\n");
}

CASE(text_without_its_end_is_none)
{
	static const char *const list[] = { "a 1\n" };

	text_is(list, 1, MPIB_EXIT_NO_PROXY, "");
}
