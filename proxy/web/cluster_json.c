/* SPDX-License-Identifier: Apache-2.0 */
#include "web/cluster_json.h"

/* A part a turn: a thousand nodes hold up nobody. */
static void cluster_json_part(void *arg)
{
	struct mpib_cluster_json *j = arg;
	bool more = false;
	const char *text = mpib_cluster_text(j->cluster, &more);

	if (text && more) {
		mpib_timer_arm(j->loop, &j->part, 0, cluster_json_part, j);
		return;
	}
	j->asked = false;
	j->fn(j->arg, text);
}

void mpib_cluster_json_ask(struct mpib_cluster_json *j)
{
	if (j->asked)
		return;
	j->asked = true;
	mpib_cluster_ask(j->cluster, &j->wait, cluster_json_part, j);
}

void mpib_cluster_json_stop(struct mpib_cluster_json *j)
{
	if (!j->cluster)
		return;
	mpib_cluster_forget(j->cluster, &j->wait);
	mpib_timer_disarm(j->loop, &j->part);
	j->asked = false;
}
