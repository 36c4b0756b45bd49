/* SPDX-License-Identifier: Apache-2.0 */
/* web/http.h: the cost of many HTTP clients (visitors) that wait at the same
 * time. The test replaces the engine. */
#include "web/http.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/config.h"
#include "test.h"

#define VISITORS 8u /* number of connections that a user may have */
#define ANSWER 65536u
/* the statistics of this many connections need more than one part of the
 * text */
#define CONNS (2 * MPIB_VIEW_PART + 5)

static struct mpib_loop loop;
static struct mpib_gather gather;
static struct mpib_config cfg;
static struct proxy_clients clients;
static struct mpib_http *http;
static struct sockaddr_in page;
static int fd[VISITORS];
static char answer[VISITORS][ANSWER];
static unsigned made; /* number of texts that were made */
static uint64_t made_at;

/* Count the texts. The server calls this function once for each text of
 * /stats.json. */
WRAPS(json_t *, mpib_view_devices, const struct mpib_view *v)
{
	made_at = mpib_loop_now(&loop);
	return json_pack("{sI}", "text", (json_int_t)++made);
}

WRAPS(int, mpib_engine_snapshot, struct mpib_engine *engine,
      mpib_snapshot_fn *fn, void *arg)
{
	struct mpib_snapshot *snap = calloc(1, sizeof(*snap));

	assert_non_null(snap);
	snap->devices = snap->rails = snap->shards = 1;
	snap->conn = calloc(CONNS, sizeof(*snap->conn));
	assert_non_null(snap->conn);
	snap->conns = CONNS;
	fn(arg, snap);
	return 0;
}

static int setup(void **state)
{
	static struct mpib_view view;
	char why[MPIB_WHY_MAX];
	unsigned port;

	mpib_config_init(&cfg);
	snprintf(cfg.metrics_listen, sizeof(cfg.metrics_listen), "127.0.0.1:0");
	TAILQ_INIT(&clients.list);
	view = (struct mpib_view){ .cfg = &cfg,
				   .clients = &clients,
				   .rail = { { .name = "soft:127.24.0.1",
					       .label = "SOUT",
					       .net = "mpib0",
					       .provider = "soft" } },
				   .run_dir = "/run/x" };
	made = 0;
	assert_int_equal(mpib_loop_init(&loop), 0);
	mpib_gather_init(&gather, &loop, NULL, &view);
	if (mpib_http_open(&gather, &cfg, &http, why) < 0)
		fail_msg("%s", why);
	assert_int_equal(sscanf(mpib_http_address(http), "127.0.0.1:%u", &port),
			 1);
	page = (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons((uint16_t)port) };
	page.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (unsigned i = 0; i < VISITORS; i++) {
		fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(
			connect(fd[i], (struct sockaddr *)&page, sizeof(page)),
			0);
	}
	return 0;
}

static int teardown(void **state)
{
	for (unsigned i = 0; i < VISITORS; i++)
		close(fd[i]);
	mpib_http_close(http);
	mpib_timer_disarm(&loop, &gather.again);
	mpib_loop_fini(&loop);
	return 0;
}

/* Send the same request from each visitor. `headers` are further headers, each
 * with its end of line. */
static void ask_all_with(const char *path, const char *headers)
{
	char text[256];
	int n = snprintf(text, sizeof(text),
			 "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", path,
			 headers);

	for (unsigned i = 0; i < VISITORS; i++)
		assert_int_equal(send(fd[i], text, (size_t)n, MSG_NOSIGNAL), n);
}

static void ask_all(const char *path)
{
	ask_all_with(path, "");
}

/* Read more of the answer to visitor `i`. Return the answer's body if the
 * answer is complete, otherwise NULL. */
static const char *take(unsigned i)
{
	size_t have = strlen(answer[i]), len;
	ssize_t n =
		recv(fd[i], answer[i] + have, ANSWER - 1 - have, MSG_DONTWAIT);
	const char *head, *body;

	if (n == 0)
		fail_msg("the connection of visitor %u was closed", i);
	head = strstr(answer[i], "Content-Length: ");
	body = strstr(answer[i], "\r\n\r\n");
	if (!head || !body)
		return NULL;
	len = strtoul(head + strlen("Content-Length: "), NULL, 10);
	return strlen(body + 4) == len ? body + 4 : NULL;
}

/* Make turns until each visitor has the whole answer. */
static void answered(void)
{
	unsigned have = 0;

	memset(answer, 0, sizeof(answer));
	while (have < VISITORS) {
		mpib_loop_turn(&loop, MPIB_MSEC);
		have = 0;
		for (unsigned i = 0; i < VISITORS; i++)
			have += take(i) != NULL;
	}
}

fixture_test(visitors_that_wait_for_a_snapshot_share_its_text)
{
	json_t *all;

	ask_all("/stats.json");
	answered();
	/* Requests that arrive during the first snapshot are answered with the
	 * text of the next snapshot. */
	assert_in_range(made, 1, 2);
	all = json_loads(take(0), 0, NULL);
	assert_non_null(all);
	assert_int_equal(json_array_size(json_object_get(
				 json_object_get(all, "conns"), "open")),
			 CONNS);
	assert_true(json_is_real(json_object_get(all, "time")));
	assert_non_null(json_object_get(all, "events"));
	json_decref(all);
}

/* Visitors that send requests endlessly must not take all of the thread's
 * time. */
fixture_test(the_next_text_is_made_after_a_pause)
{
	uint64_t first;

	ask_all("/stats.json");
	answered();
	first = made_at;
	ask_all("/stats.json");
	answered();
	assert_in_range(made, 2, 4);
	assert_true(made_at - first >= 20 * MPIB_MSEC);
}

/* A request with a body is dangerous, because two parsers may disagree about
 * where the body ends. */
fixture_test(a_request_with_a_body_is_refused)
{
	static const char *const headers[] = {
		"Content-Length: 4\r\nContent-Length: 0\r\n",
		"Content-Length: 0\r\n",
		"Transfer-Encoding: chunked\r\n",
	};

	for (unsigned i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		ask_all_with("/metrics", headers[i]);
		answered();
		assert_in(answer[0], "HTTP/1.1 400 ");
		teardown(NULL);
		setup(NULL);
	}
}

/* The server may be closed while it makes a text, or waits for a snapshot. */
fixture_test(the_server_can_be_closed_while_visitors_wait)
{
	for (unsigned turns = 0; turns < 6; turns++) {
		ask_all("/stats.json");
		for (unsigned i = 0; i < turns; i++)
			mpib_loop_turn(&loop, MPIB_MSEC);
		teardown(NULL);
		setup(NULL);
	}
}
