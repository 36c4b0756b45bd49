/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access control of HTTP: the host names under which the proxy answers, and the
 * token. Private to web/, control thread.
 */
#ifndef MPIB_WEB_ACCESS_H
#define MPIB_WEB_ACCESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/loop.h"
#include "config/config.h"

#define MPIB_TOKEN_MIN 16
#define MPIB_TOKEN_MAX 1024

struct mpib_access {
	char *cert, *key; /* PEM; NULL: no TLS */
	char token[MPIB_TOKEN_MAX + 1]; /* "": no token is required */
	char hosts[MPIB_VALUE_MAX]; /* names, separated by commas */
};

/* Read the files of metrics.cert, .key and .token_file. Returns 0, or -errno
 * with `why` as in config.h. */
int mpib_access_open(struct mpib_access *a, const struct mpib_config *cfg,
		     char *why);
void mpib_access_close(struct mpib_access *a);

/*
 * Return NULL if a request with these headers is allowed; either header may be
 * NULL. Otherwise return the reason, and set *status to the status of the
 * answer. fd is the connection's socket.
 */
const char *mpib_access_refusal(const struct mpib_access *a, int fd,
				const char *host, const char *authorization,
				unsigned *status);

/*
 * Return whether a Host header names a loopback address, localhost, one of the
 * hosts, or `own`, the local address of the connection (0: unknown). Other
 * names are refused: a web page could resolve its own name to this machine and
 * read the answers in a user's browser (DNS rebinding).
 */
bool mpib_access_host(const struct mpib_access *a, const char *host,
		      struct in_addr own);

/* Return whether an Authorization header has the token, either as a bearer
 * token or as the password of any user. Browsers ask for a password. `header`
 * may be NULL. */
bool mpib_access_token(const struct mpib_access *a, const char *header);

/* Find the user at the other end of a loopback connection. Private to web/. */

/*
 * Open a socket for queries to the kernel, and test it with a query for the
 * listener. Returns the socket, or -errno if such queries do not work here.
 */
int mpib_caller_open(const struct sockaddr_in *listener);
/*
 * Get the user of the socket that is bound to `from` and connected to `to`.
 * Returns 0; -ENOENT if there is no such socket (it was closed, or addresses
 * were translated); or another error. Does not wait: the kernel answers within
 * the call, by a lookup in its table of connections.
 */
int mpib_caller_uid(int diag, const struct sockaddr_in *from,
		    const struct sockaddr_in *to, uid_t *uid);

/*
 * The connections of HTTP: their users, the number that a user may have, and
 * their time limits. Control thread only. Private to web/.
 */

/* MPIB_VISITORS_MAX: the maximum number of connections of all users except
 * root. A user may have a quarter. A remote address counts as a user, because
 * the users of other machines are not known. MPIB_VISITORS_ROOT: the maximum
 * number of connections of root. */
#define MPIB_VISITORS_MAX 32u
#define MPIB_VISITORS_ROOT 8u
/* Number of latest callers whose TLS handshakes are counted. */
#define MPIB_VISITORS_SHAKERS 16u

struct mpib_visitor;

struct mpib_caller {
	uid_t uid;
	in_addr_t from; /* the address if the uid is not known; else 0 */
};

struct mpib_visitors {
	struct mpib_loop *loop;
	int diag; /* see mpib_caller_open() */
	struct sockaddr_in own; /* address of the listener */
	struct mpib_caller next; /* last caller that was admitted */
	uint64_t paid; /* for handshakes, see mpib_rate_pay() */
	struct mpib_shaker {
		struct mpib_caller who;
		uint64_t paid; /* for handshakes of this caller */
	} shaker[MPIB_VISITORS_SHAKERS];
	TAILQ_HEAD(, mpib_visitor) list;
};

void mpib_visitors_open(struct mpib_visitors *all, struct mpib_loop *loop,
			const struct sockaddr_in *own);
void mpib_visitors_close(struct mpib_visitors *all);
/* Return whether to accept a caller at that address. Return false if the
 * caller, or all callers together, have the maximum number of connections. With
 * TLS, also return false if the caller's limit of handshakes is used up. Except
 * for root, the limit of handshakes for all callers together applies, too. If
 * true, the next mpib_visitor_new() is for this caller. */
bool mpib_visitors_admit(struct mpib_visitors *all,
			 const struct sockaddr_in *from, bool tls);
/* Make a visitor for the connected socket fd, which the caller still owns. If
 * mpib_visitor_answered() is not called in time, fd is shut down. NULL: there
 * is no memory, and fd was shut down immediately. */
struct mpib_visitor *mpib_visitor_new(struct mpib_visitors *all, int fd);
void mpib_visitor_answered(struct mpib_visitor *v);
void mpib_visitor_free(struct mpib_visitor *v);

#endif
