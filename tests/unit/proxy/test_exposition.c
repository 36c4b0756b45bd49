/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/metrics/exposition.h: the text is what the format asks for, numbers are
 * exact, and what clients are called does not break it. */
#include "metrics/exposition.h"

#include <stdio.h>

#include "busy_node.h"
#include "test.h"

static char *text_of(unsigned clients)
{
	char *text = mpib_metrics_text(busy_node(clients, 2));

	assert_non_null(text);
	return text;
}

static void assert_line(const char *text, const char *line)
{
	size_t len = strlen(line);
	const char *at = text;

	while ((at = strstr(at, line))) {
		if ((at == text || at[-1] == '\n') && at[len] == '\n')
			return;
		at++;
	}
	fail_msg("no line \"%s\" in\n%s", line, text);
}

TEST(the_text_has_one_end)
{
	char *text = text_of(3);
	char *end = text + strlen(text) - 6;

	assert_ptr_equal(strstr(text, "# EOF\n"), end);
	free(text);
}

/* Between two heads there are only samples of the first one's family. */
TEST(every_sample_stands_under_its_family)
{
	char *text = text_of(3), *rest, *line;
	char family[80] = "", type[16] = "";
	unsigned samples = 0;

	for (line = strtok_r(text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		size_t len = strlen(family);
		const char *suffix = "";

		if (sscanf(line, "# TYPE %79s %15s", family, type) == 2)
			continue;
		if (line[0] == '#') {
			assert_true(!strcmp(line, "# EOF") ||
				    strstr(line, family));
			continue;
		}
		if (!strcmp(type, "histogram"))
			suffix = "_";
		assert_memory_equal(line, family, len);
		assert_memory_equal(line + len, suffix, strlen(suffix));
		if (strcmp(suffix, "_") != 0)
			assert_non_null(
				strchr("{ ", line[len + strlen(suffix)]));
		samples++;
	}
	assert_true(samples > 50);
	free(text);
}

TEST(large_numbers_are_exact)
{
	char *text = text_of(1);

	assert_line(text, "mpib_rail_tx_bytes_total{rail=\"SUP\"} "
			  "9007199254740993");
	assert_line(text, "mpib_registered_bytes 1152921504606846976");
	assert_line(text, "mpib_rail_speed_bytes_per_second{rail=\"SOUT\"} "
			  "50000000000");
	free(text);
}

TEST(a_clients_bytes_are_those_of_open_and_closed_ones)
{
	char *text = text_of(2);

	assert_line(text, "mpib_client_tx_bytes_total{client=\"2\","
			  "uid=\"1001\",rail=\"SOUT\"} 4007");
	assert_line(text, "mpib_client_rx_bytes_total{client=\"2\","
			  "uid=\"1001\",rail=\"SUP\"} 209");
	free(text);
}

TEST(a_clients_name_is_quoted)
{
	char *text = text_of(1);

	assert_line(text, "mpib_client_info{client=\"1\",uid=\"1000\","
			  "pid=\"1000\","
			  "name=\"rank \\\"0\\\" \\\\ {a=b}\"} 1");
	free(text);
}

TEST(the_sum_holds_clients_without_a_series)
{
	char *text = text_of(100);

	assert_line(text, "mpib_clients 100");
	assert_line(text, "mpib_connections 400");
	assert_non_null(strstr(text, "{client=\"64\","));
	assert_null(strstr(text, "{client=\"65\","));
	free(text);
}
