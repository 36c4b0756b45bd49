/* SPDX-License-Identifier: Apache-2.0 */
/* What /cluster.json answers: the stats socket's cluster, one answer for all
 * visitors that wait for it. Control thread. */
#ifndef MPIB_WEB_CLUSTER_JSON_H
#define MPIB_WEB_CLUSTER_JSON_H

#include "cluster/cluster.h"

/* text is good until the function returns; NULL: no memory. */
typedef void mpib_cluster_json_fn(void *arg, const char *text);

struct mpib_cluster_json {
	struct mpib_cluster *cluster; /* NULL: nobody is asked */
	struct mpib_loop *loop;
	struct mpib_cluster_wait wait;
	struct mpib_timer part; /* the next part of the text is to be made */
	bool asked;
	mpib_cluster_json_fn *fn;
	void *arg;
};

/* Call fn(arg, text) once, at a later turn, for all who have asked by then. */
void mpib_cluster_json_ask(struct mpib_cluster_json *j);
/* fn will not be called. */
void mpib_cluster_json_stop(struct mpib_cluster_json *j);

#endif
