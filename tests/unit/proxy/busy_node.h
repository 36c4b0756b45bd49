/* SPDX-License-Identifier: Apache-2.0 */
/* A view of a node with clients, connections and lanes, for tests of the
 * metrics. No number is 0. The names contain the characters that are hardest to
 * escape. */
#ifndef MPIB_TESTS_BUSY_NODE_H
#define MPIB_TESTS_BUSY_NODE_H

#include "view/view.h"

#define BUSY_CLIENTS_MAX 1024

/* Return the view. The view is valid until the next call. */
const struct mpib_view *busy_node(unsigned clients, unsigned shards);

#endif
