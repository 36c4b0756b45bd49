/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is answered over HTTP: by which name the proxy has to be asked for, and
 * with which token. Private to web/, control thread.
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
	char token[MPIB_TOKEN_MAX + 1]; /* "": nobody needs one */
	char hosts[MPIB_VALUE_MAX]; /* names with commas */
};

/* Read the files of metrics.cert, .key and .token_file. 0, or -errno with why as
 * in config.h. */
int mpib_access_open(struct mpib_access *a, const struct mpib_config *cfg,
		     char *why);
void mpib_access_close(struct mpib_access *a);

/*
 * NULL: a request with these headers, either of which may be NULL, is answered.
 * Else why not, and the status to say so with. fd is the connection's socket.
 */
const char *mpib_access_refusal(const struct mpib_access *a, int fd,
				const char *host, const char *authorization,
				unsigned *status);

/*
 * Whether a Host header names a loopback address, localhost, the address that
 * was connected to (own, where it is not 0) or one of the hosts. Other names are
 * refused: a web page could resolve a name of its own to this machine and so
 * read the answers in a user's browser (DNS rebinding).
 */
bool mpib_access_host(const struct mpib_access *a, const char *host,
		      struct in_addr own);

/* Whether an Authorization header has the token: as a bearer's, or as the
 * password of any user, which browsers ask for. header may be NULL. */
bool mpib_access_token(const struct mpib_access *a, const char *header);

/* Which user of this machine is at the other end of a connection by loopback.
 * Private to web/. */

/*
 * A socket to ask the kernel by, or -errno. Asked for the listening socket at
 * that address it must find it: a kernel that cannot be asked finds none.
 */
int mpib_caller_open(const struct sockaddr_in *listener);
/*
 * The user whose socket is connected from the one address to the other: 0, or
 * -ENOENT when there is none (any more, or after a translation of addresses), or
 * another error. Does not wait: the kernel answers within the call, by a look
 * into its table of connections.
 */
int mpib_caller_uid(int diag, const struct sockaddr_in *from,
		    const struct sockaddr_in *to, uid_t *uid);

/*
 * The connections of HTTP: whose they are, how many a user may have, and how
 * long one may take. Control thread only. Private to web/.
 */

/* Connections of all users but root, a quarter of them for each, as for each
 * address elsewhere, whose users are not known; and root's. */
#define MPIB_VISITORS_MAX 32u
#define MPIB_VISITORS_ROOT 8u
/* Callers that asked for handshakes of TLS last. */
#define MPIB_VISITORS_SHAKERS 16u

struct mpib_visitor;

struct mpib_caller {
	uid_t uid;
	in_addr_t from; /* of whom the uid is not known; else 0 */
};

struct mpib_visitors {
	struct mpib_loop *loop;
	int diag; /* see mpib_caller_open() */
	struct sockaddr_in own; /* the listener's */
	struct mpib_caller next; /* that mpib_visitors_admit() let in last */
	uint64_t paid; /* up to when handshakes have been let in for, ns */
	struct mpib_shaker {
		struct mpib_caller who;
		uint64_t paid; /* as above, of these */
	} shaker[MPIB_VISITORS_SHAKERS];
	TAILQ_HEAD(, mpib_visitor) list;
};

void mpib_visitors_open(struct mpib_visitors *all, struct mpib_loop *loop,
			const struct sockaddr_in *own);
void mpib_visitors_close(struct mpib_visitors *all);
/* Whether a caller at that address is let in: there is a place for it, and with TLS
 * neither its share of handshakes nor, unless it is root's, that of all is used up. If
 * so, the next mpib_visitor_new() is its. */
bool mpib_visitors_admit(struct mpib_visitors *all,
			 const struct sockaddr_in *from, bool tls);
/* A visitor on the connected socket fd, which stays the caller's and is shut down
 * when mpib_visitor_answered() was not called for too long. NULL: no memory; fd is
 * shut down now. */
struct mpib_visitor *mpib_visitor_new(struct mpib_visitors *all, int fd);
void mpib_visitor_answered(struct mpib_visitor *v);
void mpib_visitor_free(struct mpib_visitor *v);

#endif
