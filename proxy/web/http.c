/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP by libmicrohttpd, without an extra thread: the control loop watches
 * libmicrohttpd's epoll descriptor. A request that needs a snapshot is
 * suspended until its text is made. All requests that wait for a text get the
 * same copy of it.
 */
#include "web/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "cluster/cluster.h"
#include "config/config.h"
#include "metrics/exposition.h"
#include "metrics/texts.h"
#include "web/access.h"
#include "web/page.h"

#define IDLE_S 10
/* libmicrohttpd accepts at most this many connections. access.c allows fewer
 * and closes any further ones immediately. */
#define PLACES (2 * (MPIB_VISITORS_MAX + MPIB_VISITORS_ROOT))

struct request {
	struct mpib_http *http;
	TAILQ_ENTRY(request) link;
	struct MHD_Connection *conn;
	bool suspended, failed;
	/* The requested text. MPIB_TEXTS: the text about the cluster, which
	 * needs no snapshot. */
	enum mpib_text which;
};

struct mpib_http {
	struct mpib_gather *gather;
	struct MHD_Daemon *mhd;
	char address[32];
	struct mpib_access access;
	struct mpib_io watch;
	struct mpib_timer timer;
	TAILQ_HEAD(, request) requests;
	struct mpib_visitors visitors;
	struct mpib_texts texts;
	struct mpib_cluster_wait cluster; /* shared by all visitors */
};

/* Make an answer with the common headers. `mode` says whether libmicrohttpd
 * owns the text. After a failure (NULL) the caller still owns the text. One
 * answer may be sent to several readers. */
static struct MHD_Response *reply_make(const char *type, const char *text,
				       size_t len,
				       enum MHD_ResponseMemoryMode mode)
{
	/* libmicrohttpd takes a pointer to non-const even if it does not change
	 * the text. */
	union {
		const char *text;
		void *buffer;
	} body = { text };
	struct MHD_Response *response =
		MHD_create_response_from_buffer(len, body.buffer, mode);

	if (!response)
		return NULL;
	MHD_add_response_header(response, "Content-Type", type);
	MHD_add_response_header(response, "Cache-Control", "no-store");
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(response, "Content-Security-Policy",
				"default-src 'none'; script-src "
				"'unsafe-inline'; style-src 'unsafe-inline'; "
				"connect-src 'self'; img-src data:; "
				"frame-ancestors 'none'");
	return response;
}

/* Answer with `text`, which must stay valid forever. */
static enum MHD_Result reply(struct MHD_Connection *conn, unsigned status,
			     const char *type, const char *text, size_t len)
{
	struct MHD_Response *response =
		reply_make(type, text, len, MHD_RESPMEM_PERSISTENT);
	enum MHD_Result rc;

	if (!response)
		return MHD_NO;
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, "Allow", "GET, HEAD");
	if (status == MHD_HTTP_UNAUTHORIZED) {
		MHD_add_response_header(response, "WWW-Authenticate",
					"Bearer realm=\"mpib\"");
		MHD_add_response_header(response, "WWW-Authenticate",
					"Basic realm=\"mpib\"");
	}
	rc = MHD_queue_response(conn, status, response);
	MHD_destroy_response(response);
	return rc;
}

static enum MHD_Result reply_words(struct MHD_Connection *conn, unsigned status,
				   const char *text)
{
	return reply(conn, status, "text/plain; charset=utf-8", text,
		     strlen(text));
}

/* Let libmicrohttpd do all pending work. If it asks to run again after some
 * time, arm the timer for that. */
static void http_turn(void *arg)
{
	struct mpib_http *h = arg;
	unsigned long long ms;

	MHD_run(h->mhd);
	if (MHD_get_timeout(h->mhd, &ms) == MHD_YES)
		mpib_timer_arm(h->gather->loop, &h->timer, ms * MPIB_MSEC,
			       http_turn, h);
	else
		mpib_timer_disarm(h->gather->loop, &h->timer);
}

static void http_on_ready(void *arg, uint32_t events)
{
	(void)events;
	http_turn(arg);
}

/* Resume r with its answer. If `response` is NULL, there was no memory. */
static void http_resume(struct request *r, struct MHD_Response *response)
{
	r->failed = !response || MHD_queue_response(r->conn, MHD_HTTP_OK,
						    response) != MHD_YES;
	r->suspended = false;
	MHD_resume_connection(r->conn);
	mpib_timer_arm(r->http->gather->loop, &r->http->timer, 0, http_turn,
		       r->http);
}

/* Answer all requests for this text. libmicrohttpd frees the text after the
 * last answer. */
static void http_on_text(void *arg, enum mpib_text which, char *text)
{
	static const char *const type[] = {
		[MPIB_TEXT_METRICS] = MPIB_METRICS_TYPE,
		[MPIB_TEXT_HISTORY] = "application/json",
		[MPIB_TEXT_STATS] = "application/json",
		[MPIB_TEXTS] = "application/json",
	};
	struct MHD_Response *response = NULL;
	struct mpib_http *h = arg;
	struct request *r;

	if (text)
		response = reply_make(type[which], text, strlen(text),
				      MHD_RESPMEM_MUST_FREE);
	TAILQ_FOREACH(r, &h->requests, link)
	{
		if (r->suspended && r->which == which)
			http_resume(r, response);
	}
	if (response)
		MHD_destroy_response(response);
	else
		free(text);
}

static void http_on_cluster(void *arg, const char *text)
{
	http_on_text(arg, MPIB_TEXTS, text ? strdup(text) : NULL);
}

static const char *header_of(const struct request *r, const char *name)
{
	return MHD_lookup_connection_value(r->conn, MHD_HEADER_KIND, name);
}

static enum MHD_Result wait_for(struct request *r, enum mpib_text which)
{
	r->which = which;
	r->suspended = true;
	MHD_suspend_connection(r->conn);
	if (which != MPIB_TEXTS)
		mpib_texts_ask(&r->http->texts, which);
	else if (!r->http->cluster.waiting)
		mpib_cluster_ask(r->http->gather->view.cluster,
				 &r->http->cluster, http_on_cluster, r->http);
	return MHD_YES;
}

static enum MHD_Result http_route(struct request *r, const char *url,
				  const char *method)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(
		r->conn, MHD_CONNECTION_INFO_CONNECTION_FD);
	unsigned status;
	const char *refusal = mpib_access_refusal(
		&r->http->access, info ? info->connect_fd : -1,
		header_of(r, MHD_HTTP_HEADER_HOST),
		header_of(r, MHD_HTTP_HEADER_AUTHORIZATION), &status);

	if (refusal)
		return reply_words(r->conn, status, refusal);
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return reply_words(r->conn, MHD_HTTP_METHOD_NOT_ALLOWED,
				   "this server is read-only\n");
	if (!strcmp(url, "/"))
		return reply(r->conn, MHD_HTTP_OK, "text/html; charset=utf-8",
			     mpib_page, mpib_page_len);
	if (!strcmp(url, "/metrics"))
		return wait_for(r, MPIB_TEXT_METRICS);
	if (!strcmp(url, "/stats.json"))
		return wait_for(r, MPIB_TEXT_STATS);
	if (!strcmp(url, "/history.json"))
		return wait_for(r, MPIB_TEXT_HISTORY);
	if (!strcmp(url, "/cluster.json") && r->http->gather->view.cluster)
		return wait_for(r, MPIB_TEXTS);
	return reply_words(r->conn, MHD_HTTP_NOT_FOUND,
			   "there are /, /metrics, /stats.json, "
			   "/history.json and /cluster.json\n");
}

static struct mpib_visitor *http_visitor(struct MHD_Connection *conn)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(
		conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

/* Begin a request. NULL: there is no memory now, or there was none when the
 * client connected. */
static struct request *http_begin(struct mpib_http *h,
				  struct MHD_Connection *conn)
{
	struct request *r = http_visitor(conn) ? calloc(1, sizeof(*r)) : NULL;

	if (!r)
		return NULL;
	r->http = h;
	r->conn = conn;
	TAILQ_INSERT_TAIL(&h->requests, r, link);
	return r;
}

/* libmicrohttpd calls this with the headers, then for each part of a body, at
 * the end of the body, and again after a suspension. */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *conn,
				  const char *url, const char *method,
				  const char *version, const char *body,
				  size_t *size, void **state)
{
	struct request *r = *state;

	(void)version;
	(void)body;
	(void)size;
	if (!r) {
		*state = r = http_begin(cls, conn);
		if (!r)
			return MHD_NO;
		/* Refuse requests with a body and close the connection: an HTTP
		 * proxy in between may see the body end at another byte. */
		if (header_of(r, MHD_HTTP_HEADER_CONTENT_LENGTH) ||
		    header_of(r, MHD_HTTP_HEADER_TRANSFER_ENCODING))
			return reply_words(conn, MHD_HTTP_BAD_REQUEST,
					   "a request must not have a body\n");
		return MHD_YES;
	}
	if (r->failed)
		return reply_words(r->conn, MHD_HTTP_SERVICE_UNAVAILABLE,
				   "mpib-proxy is out of memory\n");
	return http_route(r, url, method);
}

static void on_end(void *cls, struct MHD_Connection *conn, void **state,
		   enum MHD_RequestTerminationCode code)
{
	struct mpib_visitor *v = http_visitor(conn);
	struct request *r = *state;
	struct mpib_http *h = cls;

	if (!r)
		return;
	if (code == MHD_REQUEST_TERMINATED_COMPLETED_OK && v)
		mpib_visitor_answered(v);
	TAILQ_REMOVE(&h->requests, r, link);
	free(r);
	*state = NULL;
}

static enum MHD_Result on_caller(void *cls, const struct sockaddr *from,
				 socklen_t len)
{
	struct mpib_http *h = cls;
	struct sockaddr_in sin;

	if (len < sizeof(sin) || from->sa_family != AF_INET)
		return MHD_NO;
	memcpy(&sin, from, sizeof(sin));
	return mpib_visitors_admit(&h->visitors, &sin, h->access.cert != NULL)
		       ? MHD_YES
		       : MHD_NO;
}

/* libmicrohttpd calls this for a connection right after on_caller(). */
static void on_connection(void *cls, struct MHD_Connection *conn, void **state,
			  enum MHD_ConnectionNotificationCode code)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(
		conn, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct mpib_http *h = cls;

	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		*state = mpib_visitor_new(&h->visitors, info->connect_fd);
	else if (*state)
		mpib_visitor_free(*state);
}

static int http_start(struct mpib_http *h, int fd)
{
	unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME;
	struct MHD_OptionItem tls[] = {
		{ MHD_OPTION_HTTPS_MEM_CERT, 0, h->access.cert },
		{ MHD_OPTION_HTTPS_MEM_KEY, 0, h->access.key },
		{ MHD_OPTION_END, 0, NULL },
	};
	const union MHD_DaemonInfo *info;
	/* libmicrohttpd owns the copy of the descriptor. If TLS cannot be set
	 * up, libmicrohttpd closes the copy, but after other errors it does
	 * not. So never close the copy here: a second close() could close a
	 * descriptor that another thread has opened since. */
	int its = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	close(fd);
	if (its < 0)
		return -errno;
	if (h->access.cert)
		flags |= MHD_USE_TLS;
	else
		tls[0].option = MHD_OPTION_END;
	h->mhd = MHD_start_daemon(
		flags, 0, on_caller, h, on_request, h, MHD_OPTION_ARRAY, tls,
		MHD_OPTION_LISTEN_SOCKET, its, MHD_OPTION_NOTIFY_COMPLETED,
		on_end, h, MHD_OPTION_NOTIFY_CONNECTION, on_connection, h,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)PLACES,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)16384,
		MHD_OPTION_END);
	if (!h->mhd)
		return h->access.cert ? -EKEYREJECTED : -ENOMEM;
	info = MHD_get_daemon_info(h->mhd, MHD_DAEMON_INFO_EPOLL_FD);
	return mpib_loop_add(h->gather->loop, &h->watch, info->epoll_fd,
			     EPOLLIN, http_on_ready, h);
}

int mpib_http_open(struct mpib_gather *g, const struct mpib_config *cfg,
		   struct mpib_http **http, char *why)
{
	struct mpib_http *h = calloc(1, sizeof(*h));
	struct sockaddr_in own;
	int rc;

	if (!h)
		return mpib_why_fail(why, -ENOMEM,
				     "metrics.listen: out of memory");
	h->gather = g;
	h->texts = (struct mpib_texts){ .gather = g,
					.fn = http_on_text,
					.arg = h };
	TAILQ_INIT(&h->requests);
	rc = mpib_access_open(&h->access, cfg, why);
	if (rc == 0)
		rc = mpib_http_listen(cfg->metrics_listen, &own, h->address,
				      sizeof(h->address), why);
	if (rc < 0) {
		mpib_access_close(&h->access);
		free(h);
		return rc;
	}
	mpib_visitors_open(&h->visitors, g->loop, &own);
	rc = http_start(h, rc);
	if (rc < 0) {
		snprintf(why, MPIB_WHY_MAX, "metrics.%s: %s",
			 h->access.cert ? "cert" : "listen",
			 rc == -EKEYREJECTED ? "certificate and key are not a "
					       "pair in PEM form (make "
					       "another pair)"
					     : strerror(-rc));
		mpib_http_close(h);
		return rc;
	}
	*http = h;
	mpib_info("metrics and a live page are on %s://%s/",
		  mpib_http_scheme(h), h->address);
	return 0;
}

const char *mpib_http_scheme(const struct mpib_http *http)
{
	return http->access.cert ? "https" : "http";
}

const char *mpib_http_address(const struct mpib_http *http)
{
	return http->address;
}

void mpib_http_close(struct mpib_http *http)
{
	struct request *r;

	mpib_cluster_forget(http->gather->view.cluster, &http->cluster);
	mpib_texts_stop(&http->texts);
	/* No connection may be suspended when MHD_stop_daemon() is called. */
	TAILQ_FOREACH(r, &http->requests, link)
	{
		if (r->suspended)
			MHD_resume_connection(r->conn);
		r->suspended = false;
		r->failed = true;
	}
	mpib_timer_disarm(http->gather->loop, &http->timer);
	mpib_loop_del(http->gather->loop, &http->watch);
	if (http->mhd)
		MHD_stop_daemon(http->mhd);
	mpib_visitors_close(&http->visitors);
	mpib_access_close(&http->access);
	free(http);
}

/* The listening socket of HTTP. */

int mpib_http_listen(const char *listen_on, struct sockaddr_in *own,
		     char *address, size_t len, char *why)
{
	socklen_t size = sizeof(*own);
	char text[INET_ADDRSTRLEN];
	int fd, rc, on = 1;

	rc = mpib_config_listen(listen_on, own, why);
	if (rc < 0)
		return rc;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		goto err_why;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)own, size) < 0 || listen(fd, 64) < 0 ||
	    getsockname(fd, (struct sockaddr *)own, &size) < 0)
		goto err_close;
	inet_ntop(AF_INET, &own->sin_addr, text, sizeof(text));
	snprintf(address, len, "%s:%u", text, ntohs(own->sin_port));
	return fd;

err_close:
	rc = errno;
	close(fd);
	errno = rc;
err_why:
	rc = -errno;
	return mpib_why_fail(
		why, rc, "metrics.listen = \"%.64s\": %s (give another port)",
		listen_on, strerror(-rc));
}
