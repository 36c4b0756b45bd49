/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's clients of mpib-proxy, which NCCL's contexts share: attaching,
 * reference counts, NCCL's init, and log lines. Any of NCCL's threads may call
 * these functions.
 */
#include "net.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environ.h"

/* Protects `current` and all `refs`. No thread holds it while a request to the
 * proxy runs. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Taken before `lock`. While one thread attaches, other threads wait for this
 * mutex, and then share the client of the first thread. */
static pthread_mutex_t attaching = PTHREAD_MUTEX_INITIALIZER;
static struct net_proxy *current;
static _Atomic(struct net_ctx *) default_ctx;

/* Another thread of the parent may have held a lock when fork() copied it. */
static void proxy_in_child(void)
{
	pthread_mutex_init(&lock, NULL);
	pthread_mutex_init(&attaching, NULL);
	net_in_child();
}

/* Runs when NCCL loads the plugin. */
__attribute__((constructor)) static void proxy_watch_forks(void)
{
	pthread_atfork(NULL, NULL, proxy_in_child);
}

static int ask_devices(struct net_proxy *s)
{
	int rc = 0;

	mpib_query(s->client[0], &s->node);
	for (unsigned d = 0; rc == 0 && d < s->node.devices; d++)
		rc = mpib_query_device(s->client[0], d, &s->device[d]);
	return rc;
}

static int proxy_attach(uint64_t job, struct net_proxy **out)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts), .job = job };
	struct net_proxy *s = calloc(1, sizeof(*s));
	struct mpib_client *client = NULL;
	int rc;

	if (!s)
		return -ENOMEM;
	s->job = job;
	rc = mpib_attach(&opts, &client);
	s->client[0] = client;
	if (rc == 0)
		rc = ask_devices(s);
	if (rc < 0) {
		mpib_detach(client);
		free(s);
		return rc;
	}
	s->refs = 1;
	pthread_mutex_lock(&lock);
	current = *out = s;
	pthread_mutex_unlock(&lock);
	return 0;
}

/* Take a reference to the newest clients and return them. Return NULL if the
 * process has no clients, or if their proxy is gone. */
static struct net_proxy *use_current(void)
{
	struct net_proxy *s;

	pthread_mutex_lock(&lock);
	s = current;
	if (s && mpib_alive(s->client[0]) < 0)
		s = NULL;
	if (s)
		s->refs++;
	pthread_mutex_unlock(&lock);
	return s;
}

static int net_proxy_get(uint64_t job, struct net_proxy **out)
{
	int rc = 0;

	pthread_mutex_lock(&attaching);
	*out = use_current();
	if (!*out)
		rc = proxy_attach(job, out);
	pthread_mutex_unlock(&attaching);
	return rc;
}

/* Attach to one more device of the proxy of `s`. Fail if that proxy is gone,
 * because the next proxy does not have the comms of `s`. */
static int attach_to(struct net_proxy *s, unsigned dev)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts),
					 .job = s->job,
					 .device = dev };
	struct mpib_device_info info;
	struct mpib_client *client;
	int rc, tries = 0;

	/* The proxy may end before the attach. Then the query waits until the
	 * first client has continued at the next proxy. */
	do {
		rc = mpib_query_device(s->client[0], dev, &info);
		if (rc == 0)
			rc = mpib_attach(&opts, &client);
	} while ((rc == -ENOENT || rc == -ECONNREFUSED) && ++tries < 2);
	if (rc == 0)
		s->client[dev] = client;
	return rc;
}

int net_proxy_client(struct net_proxy *s, int dev, struct mpib_client **client)
{
	unsigned d = (unsigned)dev;
	int rc = 0;

	if (d >= s->node.devices)
		return -ENODEV;
	*client = s->client[d];
	if (*client)
		return 0;
	pthread_mutex_lock(&attaching);
	if (!s->client[d])
		rc = attach_to(s, d);
	*client = s->client[d];
	pthread_mutex_unlock(&attaching);
	return rc;
}

void net_proxy_ref(struct net_proxy *s)
{
	pthread_mutex_lock(&lock);
	s->refs++;
	pthread_mutex_unlock(&lock);
}

void net_proxy_put(struct net_proxy *s)
{
	bool last;

	pthread_mutex_lock(&lock);
	last = --s->refs == 0;
	if (last && current == s)
		current = NULL;
	pthread_mutex_unlock(&lock);
	if (!last)
		return;
	for (unsigned d = 0; d < MPIB_DEVICES; d++)
		mpib_detach(s->client[d]);
	free(s);
}

int net_proxy_query(struct mpib_node_info *node, int dev,
		    struct mpib_device_info *info)
{
	int devices = 0;

	pthread_mutex_lock(&lock);
	if (current) {
		*node = current->node;
		devices = (int)node->devices;
		if (dev >= 0 && dev < devices)
			*info = current->device[dev];
	}
	pthread_mutex_unlock(&lock);
	return devices;
}

static void say_unknown(void *arg, const char *name, const char *nearest)
{
	(void)arg;
	net_say(false, "environment: nothing reads %s (%s%s%s)", name,
		nearest ? "did you mean " : "mpib.conf(5) has the names",
		nearest ? nearest : "", nearest ? "?" : "");
}

#define NCCL_CLASS "NCCL_IB_TC"

static bool is_nccls(const char *name)
{
	return !strncmp(name, "NCCL_IB_", 8) && strcmp(name, NCCL_CLASS) != 0;
}

/* Called once per process, for the first context. */
static void check_environment(void)
{
	char names[300];

	mpib_environ_check(environ, say_unknown, NULL);
	/* Log at level INFO, because a rank may share its environment with
	 * mpib-proxy. */
	if (mpib_environ_list(environ, mpib_environ_is_proxys, names,
			      sizeof(names)))
		net_say(true,
			"environment: %s: no effect in a rank (mpib-proxy "
			"reads these variables when it starts, see mpibctl "
			"config)",
			names);
	if (mpib_environ_list(environ, is_nccls, names, sizeof(names)))
		net_say(true,
			"environment: %s: no effect on MPIB in a rank (NCCL's "
			"own transport reads these variables; mpib-proxy reads "
			"those that mpib.conf(5) lists)",
			names);
}

/* Return the value of NCCL_IB_TC, or -1 if the variable is not set or is not a
 * valid traffic class. */
static int class_of_environment(void)
{
	const char *text = getenv(NCCL_CLASS);
	char *end;
	long n;

	if (!text || !*text)
		return NCCL_NET_TRAFFIC_CLASS_UNDEF;
	n = strtol(text, &end, 0);
	if (!*end && n >= -1 && n <= UINT8_MAX)
		return (int)n;
	net_say(false,
		"environment: %s = \"%s\" is not a traffic class (give 0 "
		"to 255)",
		NCCL_CLASS, text);
	return NCCL_NET_TRAFFIC_CLASS_UNDEF;
}

enum nccl_result mpib_net_init(void **ctx, uint64_t comm_id, int traffic_class,
			       nccl_log_fn log)
{
	static atomic_bool checked;
	struct net_ctx *c = calloc(1, sizeof(*c));
	int rc;

	net_log_set(log);
	if (!atomic_exchange(&checked, true))
		check_environment();
	if (!c)
		return NCCL_SYSTEM_ERROR;
	c->traffic_class = traffic_class == NCCL_NET_TRAFFIC_CLASS_UNDEF
				   ? class_of_environment()
				   : traffic_class;
	rc = net_proxy_get(comm_id, &c->proxy);
	if (rc < 0) {
		free(c);
		return net_fail_local("init", rc);
	}
	*ctx = c;
	return NCCL_SUCCESS;
}

/* NCCL before v11 has no contexts. NCCL calls this function either once per
 * process or once per communicator, and never finalizes. If the proxy of the
 * default context is gone, a new context replaces that context. The old context
 * is not freed, because another thread may be using it. */
enum nccl_result mpib_net_init_default(nccl_log_fn log)
{
	struct net_ctx *old = mpib_net_default(), *c;
	enum nccl_result res;
	void *ctx;

	if (old && mpib_alive(old->proxy->client[0]) == 0)
		return NCCL_SUCCESS;
	res = mpib_net_init(&ctx, 0, NCCL_NET_TRAFFIC_CLASS_UNDEF, log);
	if (res != NCCL_SUCCESS)
		return res;
	c = ctx;
	c->older = old;
	/* Release pairs with the acquire in mpib_net_default(). */
	atomic_store_explicit(&default_ctx, c, memory_order_release);
	return NCCL_SUCCESS;
}

void *mpib_net_default(void)
{
	return atomic_load_explicit(&default_ctx, memory_order_acquire);
}

/*
 * Writing failures to NCCL's log. NCCL keeps the last WARN, and PyTorch prints
 * it. So this line must tell the user what failed and what to do.
 */

#define TOLD 64

static _Atomic(nccl_log_fn) nccl_log;
/* Hashes of the latest texts. All accesses are relaxed: at worst, two threads
 * log the same text at once, and the text appears twice. */
static _Atomic uint64_t told[TOLD];
static _Atomic unsigned told_next;

void net_log_set(nccl_log_fn log)
{
	/* Relaxed: NCCL gives the same function every time. */
	atomic_store_explicit(&nccl_log, log, memory_order_relaxed);
	for (unsigned i = 0; i < TOLD; i++)
		atomic_store_explicit(&told[i], 0, memory_order_relaxed);
}

void net_say(bool ok, const char *fmt, ...)
{
	nccl_log_fn log = atomic_load_explicit(&nccl_log, memory_order_relaxed);
	char line[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (log)
		log(ok ? NCCL_LOG_INFO : NCCL_LOG_WARN, NCCL_SUBSYS_NET, "mpib",
		    0, "NET/MPIB : %s", line);
}

static bool is_news(const char *call, const char *text)
{
	uint64_t h = net_hash(net_hash(NET_HASH, call), text);
	unsigned next;

	for (unsigned i = 0; i < TOLD; i++) {
		if (atomic_load_explicit(&told[i], memory_order_relaxed) == h)
			return false;
	}
	next = atomic_fetch_add_explicit(&told_next, 1, memory_order_relaxed);
	atomic_store_explicit(&told[next % TOLD], h, memory_order_relaxed);
	return true;
}

static enum nccl_result result_of(int rc)
{
	switch (rc) {
	case -EINVAL:
	case -EFAULT:
	case -E2BIG:
		return NCCL_INVALID_ARGUMENT;
	case -EMSGSIZE:
	case -ENOTCONN:
	case -EOWNERDEAD:
		return NCCL_INVALID_USAGE;
	default:
		return NCCL_SYSTEM_ERROR;
	}
}

enum nccl_result net_fail_local(const char *call, int rc)
{
	if (is_news(call, mpib_strerror()))
		net_say(false, "%s: %s", call, mpib_strerror());
	return result_of(rc);
}

enum nccl_result net_fail(const char *call, int rc)
{
	enum nccl_result res = net_fail_local(call, rc);

	switch (rc) {
	case -ECONNRESET:
	case -ECONNREFUSED:
	case -ECONNABORTED:
	case -EHOSTUNREACH:
	case -ENETUNREACH:
	case -ETIMEDOUT:
	case -EIO:
		return NCCL_REMOTE_ERROR;
	default:
		return res;
	}
}
