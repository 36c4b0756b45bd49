/* SPDX-License-Identifier: Apache-2.0 */
#include "web/access.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "metrics/gather.h"

#define FILE_MAX 65536
#define SECRET (MPIB_FILE_SECRET | MPIB_FILE_OWNED)

static int access_fail(const char *key, const char *path, const char *bad,
		       char *why)
{
	return mpib_why_fail(why, -EINVAL, "metrics.%s = %.256s: %s", key, path,
			     bad);
}

/* Return a file's text. On failure, return NULL and set *rc and `why`. */
static char *read_text(const char *key, const char *path, unsigned flags,
		       int *rc, char *why)
{
	char *text = calloc(1, FILE_MAX + 1);
	const char *bad = "out of memory";

	if (text && mpib_file_read(path, flags, text, FILE_MAX, &bad) > 0)
		return text;
	*rc = access_fail(key, path, bad, why);
	free(text);
	return NULL;
}

static int read_token(struct mpib_access *a, const char *path, char *why)
{
	size_t len;
	int rc;
	char *text = read_text("token_file", path, SECRET, &rc, why);

	if (!text)
		return rc;
	len = strcspn(text, " \t\r\n");
	rc = 0;
	if (len < MPIB_TOKEN_MIN || len > MPIB_TOKEN_MAX)
		rc = access_fail("token_file", path,
				 "a token has 16 to 1024 bytes and no blanks "
				 "(head -c 32 /dev/urandom | base64)",
				 why);
	else
		memcpy(a->token, text, len);
	sodium_memzero(text, FILE_MAX);
	free(text);
	return rc;
}

int mpib_access_open(struct mpib_access *a, const struct mpib_config *cfg,
		     char *why)
{
	int rc = 0;

	*a = (struct mpib_access){ 0 };
	snprintf(a->hosts, sizeof(a->hosts), "%s", cfg->metrics_hosts);
	if (cfg->metrics_token_file[0])
		rc = read_token(a, cfg->metrics_token_file, why);
	if (rc < 0 || !cfg->metrics_cert[0])
		return rc;
	a->cert = read_text("cert", cfg->metrics_cert, 0, &rc, why);
	if (a->cert)
		a->key = read_text("key", cfg->metrics_key, SECRET, &rc, why);
	if (a->key)
		return 0;
	mpib_access_close(a);
	return rc;
}

void mpib_access_close(struct mpib_access *a)
{
	if (a->key)
		sodium_memzero(a->key, FILE_MAX);
	free(a->cert);
	free(a->key);
	sodium_memzero(a->token, sizeof(a->token));
	a->cert = a->key = NULL;
}

/* Return whether `list` contains `name`. The names in `list` are separated by
 * commas, blanks, or both. */
static bool is_listed(const char *list, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = list; *at; at += strspn(at, ", \t")) {
		size_t n = strcspn(at, ", \t");

		if (n == len && !strncasecmp(at, name, n))
			return true;
		at += n;
	}
	return false;
}

bool mpib_access_host(const struct mpib_access *a, const char *host,
		      struct in_addr own)
{
	char name[256];
	struct in_addr in;
	size_t len;

	if (!host)
		return false;
	len = strcspn(host, ":");
	if (len == 0 || len >= sizeof(name))
		return false;
	memcpy(name, host, len);
	name[len] = '\0';
	if (inet_pton(AF_INET, name, &in) == 1 &&
	    (ntohl(in.s_addr) >> 24 == IN_LOOPBACKNET ||
	     (own.s_addr && in.s_addr == own.s_addr)))
		return true;
	return !strcasecmp(name, "localhost") || is_listed(a->hosts, name);
}

static bool is_token(const struct mpib_access *a, const char *text, size_t len)
{
	char padded[sizeof(a->token)] = "";

	if (len > MPIB_TOKEN_MAX)
		return false;
	memcpy(padded, text, len);
	return sodium_memcmp(padded, a->token, sizeof(padded)) == 0;
}

bool mpib_access_token(const struct mpib_access *a, const char *header)
{
	char text[MPIB_TOKEN_MAX + 256];
	const char *colon;
	size_t len;

	if (!a->token[0])
		return true;
	if (!header)
		return false;
	if (!strncasecmp(header, "Bearer ", 7))
		return is_token(a, header + 7, strlen(header + 7));
	if (strncasecmp(header, "Basic ", 6) != 0 ||
	    sodium_base642bin((unsigned char *)text, sizeof(text), header + 6,
			      strlen(header + 6), NULL, &len, NULL,
			      sodium_base64_VARIANT_ORIGINAL) != 0)
		return false;
	colon = memchr(text, ':', len);
	return colon &&
	       is_token(a, colon + 1, len - (size_t)(colon + 1 - text));
}

/* Return the local address of the connection; 0 if unknown. */
static struct in_addr own_address(int fd)
{
	struct sockaddr_in own = { 0 };
	socklen_t len = sizeof(own);

	if (getsockname(fd, (struct sockaddr *)&own, &len) < 0)
		own.sin_addr.s_addr = 0;
	return own.sin_addr;
}

const char *mpib_access_refusal(const struct mpib_access *a, int fd,
				const char *host, const char *authorization,
				unsigned *status)
{
	*status = 403;
	if (!mpib_access_host(a, host, own_address(fd)))
		return "ask for this node by its address or as localhost, or "
		       "add its name to metrics.hosts\n";
	*status = 401;
	if (!mpib_access_token(a, authorization))
		return "give the token of metrics.token_file, as a bearer token "
		       "or as a password\n";
	return NULL;
}

/* Ask sock_diag(7) for the user of a connection, like ss(8), because TCP does
 * not identify the user. */

struct question {
	struct nlmsghdr head;
	struct inet_diag_req_v2 req;
};

static int caller_read(struct nlmsghdr *h, size_t len, uid_t *uid)
{
	/* NLMSG_DATA() would cast away the const. */
	const void *data = (const char *)h + NLMSG_HDRLEN;
	const struct inet_diag_msg *m = data;
	const struct nlmsgerr *e = data;

	if (!NLMSG_OK(h, len))
		return -EPROTO;
	if (h->nlmsg_type == NLMSG_ERROR)
		return h->nlmsg_len < NLMSG_LENGTH(sizeof(*e)) || !e->error
			       ? -EPROTO
			       : e->error;
	if (h->nlmsg_len < NLMSG_LENGTH(sizeof(*m)))
		return -EPROTO;
	if (m->idiag_state == TCP_LISTEN)
		return -ENOTCONN;
	/* A socket that its process has closed has no user, but the kernel
	 * reports uid 0. */
	if (m->idiag_inode == 0)
		return -ENOENT;
	*uid = m->idiag_uid;
	return 0;
}

int mpib_caller_uid(int diag, const struct sockaddr_in *from,
		    const struct sockaddr_in *to, uid_t *uid)
{
	struct question q = {
		.head = { .nlmsg_len = sizeof(q),
			  .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			  .nlmsg_flags = NLM_F_REQUEST },
		.req = { .sdiag_family = AF_INET,
			 .sdiag_protocol = IPPROTO_TCP,
			 .idiag_states = UINT32_MAX,
			 .id = { .idiag_sport = from->sin_port,
				 .idiag_dport = to->sin_port,
				 .idiag_src = { from->sin_addr.s_addr },
				 .idiag_dst = { to->sin_addr.s_addr },
				 .idiag_cookie = { INET_DIAG_NOCOOKIE,
						   INET_DIAG_NOCOOKIE } } },
	};
	_Alignas(struct nlmsghdr) char answer[1024];
	ssize_t n;

	if (diag < 0)
		return -EBADF;
	if (send(diag, &q, sizeof(q), 0) < 0)
		return -errno;
	n = recv(diag, answer, sizeof(answer), 0);
	if (n < 0)
		return -errno;
	return caller_read((struct nlmsghdr *)answer, (size_t)n, uid);
}

int mpib_caller_open(const struct sockaddr_in *listener)
{
	const struct sockaddr_in nobody = { .sin_family = AF_INET };
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
			NETLINK_SOCK_DIAG);
	uid_t uid;
	int rc;

	if (fd < 0)
		return -errno;
	rc = connect(fd, (struct sockaddr *)&kernel, sizeof(kernel)) < 0
		     ? -errno
		     : mpib_caller_uid(fd, listener, &nobody, &uid);
	if (rc == -ENOTCONN)
		return fd;
	close(fd);
	return rc < 0 ? rc : -EPROTO;
}

/* Time limit for an answer: from the connection, or from the end of the
 * previous answer, to the end of this one. */
#define PATIENCE (10 * MPIB_SEC)
/* The uid of callers that the kernel does not know, such as those on other
 * machines. For these, each address counts as one user. */
#define NOBODY ((uid_t)-1)
/* Limits of TLS handshakes, each of which costs the control thread the time of
 * a signature. SHAKES handshakes are allowed in a burst, then one every
 * SHAKE_NS. For a user, or an address, the limits are a quarter of these. */
#define SHAKES 32
#define SHAKE_NS (MPIB_SEC / 20)

struct mpib_visitor {
	struct mpib_visitors *all;
	TAILQ_ENTRY(mpib_visitor) link;
	struct mpib_caller who;
	int fd;
	struct mpib_timer timer;
};

void mpib_visitors_open(struct mpib_visitors *all, struct mpib_loop *loop,
			const struct sockaddr_in *own)
{
	all->loop = loop;
	all->own = *own;
	TAILQ_INIT(&all->list);
	all->diag = mpib_caller_open(own);
	if (all->diag < 0)
		mpib_warn("metrics.listen: the kernel does not say which "
			  "user connects (%s), so one user can take all "
			  "connections",
			  strerror(-all->diag));
}

void mpib_visitors_close(struct mpib_visitors *all)
{
	if (all->diag >= 0)
		close(all->diag);
}

static bool same_caller(const struct mpib_caller *a,
			const struct mpib_caller *b)
{
	return a->uid == b->uid && a->from == b->from;
}

/* Return whether the limits allow another connection of the caller
 * all->next. */
static bool visitor_fits(const struct mpib_visitors *all)
{
	const struct mpib_visitor *v;
	unsigned others = 0, same = 0;

	TAILQ_FOREACH(v, &all->list, link)
	{
		others += v->who.uid != 0;
		same += same_caller(&v->who, &all->next);
	}
	if (all->diag < 0 && all->next.from == htonl(INADDR_LOOPBACK))
		return others < MPIB_VISITORS_MAX;
	return mpib_reader_fits(all->next.uid, same, others, MPIB_VISITORS_MAX,
				MPIB_VISITORS_ROOT);
}

static struct mpib_caller caller_of(const struct mpib_visitors *all,
				    const struct sockaddr_in *from)
{
	struct mpib_caller who = { 0 };
	struct sockaddr_in to = all->own;

	/* If the listener is bound to INADDR_ANY, assume that the caller used
	 * the same address for both ends, as is usual within a machine. */
	if (to.sin_addr.s_addr == htonl(INADDR_ANY))
		to.sin_addr = from->sin_addr;
	if (mpib_caller_uid(all->diag, from, &to, &who.uid) == 0)
		return who;
	who.uid = NOBODY;
	who.from = from->sin_addr.s_addr;
	/* Count all loopback addresses as one, because a user of this machine
	 * can use any number of them. */
	if (ntohl(who.from) >> 24 == IN_LOOPBACKNET)
		who.from = htonl(INADDR_LOOPBACK);
	return who;
}

/* Return the table entry of the caller all->next. A new entry replaces the
 * entry whose caller asked for a handshake least recently. */
static struct mpib_shaker *shaker_of(struct mpib_visitors *all)
{
	struct mpib_shaker *s = all->shaker;

	for (unsigned i = 0; i < MPIB_VISITORS_SHAKERS; i++) {
		struct mpib_shaker *one = &all->shaker[i];

		if (one->paid && same_caller(&one->who, &all->next))
			return one;
		if (one->paid < s->paid)
			s = one;
	}
	*s = (struct mpib_shaker){ .who = all->next };
	return s;
}

bool mpib_visitors_admit(struct mpib_visitors *all,
			 const struct sockaddr_in *from, bool tls)
{
	uint64_t now = mpib_loop_now(all->loop);
	struct mpib_shaker *s;

	all->next = caller_of(all, from);
	if (!visitor_fits(all))
		return false;
	if (!tls)
		return true;
	s = shaker_of(all);
	return mpib_rate_take(&s->paid, now, SHAKES / 4, 4 * SHAKE_NS) &&
	       (s->who.uid == 0 ||
		mpib_rate_take(&all->paid, now, SHAKES, SHAKE_NS));
}

static void on_late(void *arg)
{
	struct mpib_visitor *v = arg;

	mpib_debug("a reader of HTTP was dropped: it takes too long");
	shutdown(v->fd, SHUT_RDWR);
}

struct mpib_visitor *mpib_visitor_new(struct mpib_visitors *all, int fd)
{
	struct mpib_visitor *v = calloc(1, sizeof(*v));

	if (!v) {
		shutdown(fd, SHUT_RDWR);
		return NULL;
	}
	v->all = all;
	v->who = all->next;
	v->fd = fd;
	TAILQ_INSERT_TAIL(&all->list, v, link);
	mpib_visitor_answered(v);
	return v;
}

void mpib_visitor_answered(struct mpib_visitor *v)
{
	mpib_timer_arm(v->all->loop, &v->timer, PATIENCE, on_late, v);
}

void mpib_visitor_free(struct mpib_visitor *v)
{
	mpib_timer_disarm(v->all->loop, &v->timer);
	TAILQ_REMOVE(&v->all->list, v, link);
	free(v);
}
