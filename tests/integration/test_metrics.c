/* SPDX-License-Identifier: Apache-2.0 */
/* Test the metrics of a real proxy on the stats socket. */
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

/* Read everything until the hang-up. */
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

TEST(the_stats_socket_returns_metrics)
{
	int fd = node_dial(&node, MPIB_STATS_SOCK, SOCK_STREAM);
	char *text;

	dprintf(fd, "metrics\nconfig\n");
	shutdown(fd, SHUT_WR);
	text = drain(fd);
	assert_non_null(strstr(text, "\"# TYPE mpib_build_info gauge\\n"));
	assert_non_null(
		strstr(text, "\\nmpib_rail_up{rail=\\\"SOUT\\\"} 1\\n"));
	assert_non_null(strstr(text, "\\nmpib_rail_up{rail=\\\"SUP\\\"} 1\\n"));
	/* The answer must end with the line that ends every answer. */
	assert_non_null(strstr(strstr(text, "# EOF"), "\n{\"ok\":"));
	free(text);
}
struct test_group test_group = { start, stop };
