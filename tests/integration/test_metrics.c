/* SPDX-License-Identifier: Apache-2.0 */
/* A real proxy's metrics, by each way they can be had. */
#include <mpib/control.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "node.h"
#include "test.h"

static struct node node;

static int start(void **state)
{
	node_start(&node, 7, "--limit-readers", "8", NULL);
	return 0;
}

static int stop(void **state)
{
	node_stop(&node);
	return 0;
}

/* All up to the hang-up. */
static char *drain(int fd)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	char buf[4096];
	ssize_t n;

	assert_non_null(out);
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		fwrite(buf, 1, (size_t)n, out);
	fclose(out);
	close(fd);
	return text;
}

static void assert_whole(const char *text)
{
	size_t len = strlen(text);

	assert_true(len > 1000);
	assert_string_equal(text + len - 6, "# EOF\n");
	assert_non_null(strstr(text, "\nmpib_rail_up{rail=\"SOUT\"} 1\n"));
	assert_non_null(strstr(text, "\nmpib_rail_up{rail=\"SUP\"} 1\n"));
}

TEST(whoever_connects_gets_one_scrape_and_the_end)
{
	for (unsigned i = 0; i < 3; i++) {
		char *text =
			drain(node_dial(&node, MPIB_METRICS_SOCK, SOCK_STREAM));

		assert_whole(text);
		free(text);
	}
}

TEST(many_scrapes_at_once_are_all_whole)
{
	int fd[8];

	for (unsigned i = 0; i < 8; i++)
		fd[i] = node_dial(&node, MPIB_METRICS_SOCK, SOCK_STREAM);
	for (unsigned i = 0; i < 8; i++) {
		char *text = drain(fd[i]);

		assert_whole(text);
		free(text);
	}
}

TEST(who_leaves_before_his_scrape_harms_nobody)
{
	char *text;

	for (unsigned i = 0; i < 100; i++)
		close(node_dial(&node, MPIB_METRICS_SOCK, SOCK_STREAM));
	/* Beyond the limit one is hung up on; those before have left by now,
	 * or do while we ask again. */
	for (;;) {
		text = drain(node_dial(&node, MPIB_METRICS_SOCK, SOCK_STREAM));
		if (*text)
			break;
		free(text);
	}
	assert_whole(text);
	free(text);
}

TEST(the_stats_socket_tells_them_too)
{
	int fd = node_dial(&node, MPIB_STATS_SOCK, SOCK_STREAM);
	char *text;

	dprintf(fd, "metrics\nhelp\n");
	shutdown(fd, SHUT_WR);
	text = drain(fd);
	assert_non_null(strstr(text, "\n# TYPE mpib_build_info gauge\n"));
	/* What was asked next comes behind the end. */
	assert_non_null(strstr(strstr(text, "\n# EOF\n"), "{\"ok\":"));
	free(text);
}

struct test_group test_group = { start, stop };
