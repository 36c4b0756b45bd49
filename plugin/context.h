/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the plugin: contexts, and how failures are told.
 */
#ifndef MPIB_PLUGIN_CONTEXT_H
#define MPIB_PLUGIN_CONTEXT_H

#include <mpib/client.h>

#include "net.h"

/*
 * One attachment serves all contexts of the process, so that they share its
 * registrations and staging memory; a context made after the proxy was
 * restarted gets a new one, while older contexts keep the dead one and its
 * errors.
 */
struct mpib_session_ref {
	struct mpib_client *client;
	unsigned refs;
};

/* NCCL's context. */
struct mpib_net_ctx {
	struct mpib_session_ref *session;
	int traffic_class; /* of its communicator, -1 undefined */
};

/* Hold a session that somebody holds, and give it back. Any thread. */
void mpib_session_hold(struct mpib_session_ref *s);
void mpib_session_drop(struct mpib_session_ref *s);

/* The slow end of every call: WARN with the library's words for its last
 * failure, and NCCL's code for rc. */
enum nccl_result mpib_net_fail(const char *call, int rc);
/* The logger NCCL gave to init. */
extern nccl_log_fn mpib_nccl_log;

#define mpib_net_warn(...)                                                     \
	mpib_nccl_log(NCCL_LOG_WARN, NCCL_SUBSYS_NET, __FILE__, __LINE__,      \
		      "NET/MPIB : " __VA_ARGS__)

#endif
