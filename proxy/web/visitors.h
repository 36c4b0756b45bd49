/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections of HTTP: whose they are, how many a user may have, and how
 * long one may take. Control thread only. Private to web/.
 */
#ifndef MPIB_WEB_VISITORS_H
#define MPIB_WEB_VISITORS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/loop.h"

/* Connections of all users but root, a quarter of them for each, as for each
 * address elsewhere, whose users are not known; and root's. */
#define MPIB_VISITORS_MAX 32u
#define MPIB_VISITORS_ROOT 8u
/* Callers that asked for handshakes of TLS last. */
#define MPIB_VISITORS_SHAKERS 16u

struct mpib_visitor;

struct mpib_visitors {
	struct mpib_loop *loop;
	int diag; /* see caller.h */
	struct sockaddr_in own; /* the listener's */
	struct sockaddr_in next; /* where the last one connects from */
	uint64_t paid; /* up to when handshakes have been let in for, ns */
	struct mpib_shaker {
		uid_t uid;
		in_addr_t from; /* of whom the uid is not known */
		uint64_t paid; /* as above, for him */
	} shaker[MPIB_VISITORS_SHAKERS];
	TAILQ_HEAD(, mpib_visitor) list;
};

void mpib_visitors_open(struct mpib_visitors *all, struct mpib_loop *loop,
			const struct sockaddr_in *own);
void mpib_visitors_close(struct mpib_visitors *all);
/* Whether the one who connects from there is let in, which only who wants more
 * handshakes of TLS than his share is not, and a crowd of such, but root; if so, the
 * next mpib_visitor_new() is his. */
bool mpib_visitors_admit(struct mpib_visitors *all,
			 const struct sockaddr_in *from, bool tls);
/* A visitor on the connected socket fd, which stays the caller's and is shut down
 * when mpib_visitor_answered() was not called for too long. NULL: there is no
 * place for him, or no memory; fd is shut down now. */
struct mpib_visitor *mpib_visitor_new(struct mpib_visitors *all, int fd);
void mpib_visitor_answered(struct mpib_visitor *v);
void mpib_visitor_free(struct mpib_visitor *v);

#endif
