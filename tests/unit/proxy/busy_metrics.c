/* SPDX-License-Identifier: Apache-2.0 */
/* busy_metrics openmetrics|prometheus CLIENTS SHARDS */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "busy_node.h"
#include "metrics/openmetrics.h"

int main(int argc, char **argv)
{
	enum mpib_metrics_format format = MPIB_METRICS_OPENMETRICS;
	char *text;

	if (argc != 4)
		return 2;
	if (!strcmp(argv[1], "prometheus"))
		format = MPIB_METRICS_PROMETHEUS;
	text = mpib_metrics_text(
		busy_node((unsigned)atoi(argv[2]), (unsigned)atoi(argv[3])),
		format);
	if (!text)
		return 1;
	fputs(text, stdout);
	free(text);
	return 0;
}
