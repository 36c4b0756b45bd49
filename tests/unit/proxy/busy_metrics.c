/* SPDX-License-Identifier: Apache-2.0 */
/* busy_metrics CLIENTS SHARDS: print the metrics of a busy node. */
#include <stdio.h>
#include <stdlib.h>

#include "busy_node.h"
#include "metrics/exposition.h"

int main(int argc, char **argv)
{
	char *text;

	if (argc != 3)
		return 2;
	text = mpib_metrics_text(
		busy_node((unsigned)atoi(argv[1]), (unsigned)atoi(argv[2])));
	if (!text)
		return 1;
	fputs(text, stdout);
	free(text);
	return 0;
}
