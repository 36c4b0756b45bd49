/* SPDX-License-Identifier: Apache-2.0 */
/* The process of a node, and the state of its rails from its proxy. */
#include "perf/hosts/hosts.h"

#include <errno.h>
#include <mpib/client.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <jansson.h>

#include "perf/pattern.h"
#include "perf/rank.h"

#define ANSWER_S 5

static FILE *dial(const char *run_dir)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct timeval most = { .tv_sec = ANSWER_S };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int n = snprintf(at.sun_path, sizeof(at.sun_path), "%s/stats.sock",
			 run_dir);
	FILE *f = NULL;

	if (fd < 0)
		return NULL;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
	if (n > 0 && (size_t)n < sizeof(at.sun_path) &&
	    connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0)
		f = fdopen(fd, "r+");
	if (!f)
		close(fd);
	return f;
}

/* Return the proxy's answer to a command as a new reference, or NULL if there
 * is no answer. */
static json_t *ask(const char *run_dir, const char *command)
{
	FILE *f = dial(run_dir);
	char *line = NULL;
	size_t room = 0;
	json_t *all = NULL, *data;

	/* The first line is a greeting. */
	if (f && getline(&line, &room, f) > 0 && fputs(command, f) >= 0 &&
	    fflush(f) == 0 && getline(&line, &room, f) > 0)
		all = json_loads(line, 0, NULL);
	free(line);
	if (f)
		fclose(f);
	data = json_incref(json_object_get(all, "data"));
	json_decref(all);
	return data;
}

static uint64_t number(const json_t *o, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(o, key));

	return n > 0 ? (uint64_t)n : 0;
}

static bool is(const json_t *o, const char *key, const char *word)
{
	const char *text = json_string_value(json_object_get(o, key));

	return text && strcmp(text, word) == 0;
}

static void take(struct perf_rails *rails, const json_t *o)
{
	const char *name = json_string_value(json_object_get(o, "label"));
	const char *device = json_string_value(json_object_get(o, "device"));
	const char *provider =
		json_string_value(json_object_get(o, "provider"));
	int i = rails->n;

	if (i == PERF_RAILS || !name)
		return;
	snprintf(rails->rail[i].name, sizeof(rails->rail[i].name), "%s", name);
	snprintf(rails->rail[i].device, sizeof(rails->rail[i].device), "%s",
		 device ? device : "?");
	/* Such as "soft (io_uring)". */
	rails->rail[i].soft = provider && strncmp(provider, "soft", 4) == 0;
	rails->rail[i].up = is(o, "state", "active");
	rails->rail[i].standby = json_is_true(json_object_get(o, "standby"));
	rails->rail[i].speed_mbps = number(o, "speed_mbps");
	rails->rail[i].tx_bytes = number(o, "tx_bytes");
	rails->rail[i].rx_bytes = number(o, "rx_bytes");
	rails->rail[i].errors = number(o, "cqe_errors") + number(o, "downs") +
				number(o, "failovers") + number(o, "retries");
	rails->n++;
}

/* Ask the proxy of a run dir for the rails of the device with this index. The
 * proxy lists the rails device by device, each rail with the name of its
 * device. If there is no proxy, as with another plugin, the list is empty. */
static void rails_read(struct perf_rails *rails, const char *run_dir,
		       unsigned device)
{
	json_t *all = ask(run_dir, "rails\n"), *o;
	const char *last = NULL;
	unsigned at = 0;
	size_t i;

	memset(rails, 0, sizeof(*rails));
	json_array_foreach(all, i, o)
	{
		const char *net = json_string_value(json_object_get(o, "net"));

		if (last && net && strcmp(net, last))
			at++;
		last = net;
		if (at == device)
			take(rails, o);
	}
	json_decref(all);
}

bool perf_rails_peer_link(const char *run_dir, char *buf, size_t len)
{
	json_t *info = ask(run_dir, "info\n");
	const char *at = json_string_value(json_object_get(info, "peer_link"));
	bool found = at && snprintf(buf, len, "%s", at) < (int)len;

	json_decref(info);
	return found;
}

/* Subtract the counts of *before from those of *now. A rail that is not in
 * *before counts from 0. */
static void rails_since(struct perf_rails *now, const struct perf_rails *before)
{
	for (int i = 0; i < now->n; i++) {
		for (int k = 0; k < before->n; k++) {
			if (strcmp(now->rail[i].name, before->rail[k].name))
				continue;
			now->rail[i].tx_bytes -= before->rail[k].tx_bytes;
			now->rail[i].rx_bytes -= before->rail[k].rx_bytes;
			now->rail[i].errors -= before->rail[k].errors;
		}
	}
}

/* The interval of the check for dead ranks. */
#define LOOK_MS 100
#define SETUP_S 10 /* time limit from the connect to the complete setup */
/* The maximum memory for buffers that a server gives a test. */
#define SERVER_BYTES (8ull << 30)

struct bridge {
	int fd, index;
	struct perf_world *w;
	bool introduced; /* handles were sent */
	int shipped; /* number of rows whose results were sent */
	char run_dir[256];
	/* Index of the tested device, or PERF_SETUP_OWN if the test does not
	 * belong to mpib-perf check. */
	unsigned device;
	struct perf_rails before;
};

static int say_hello(int fd, const struct perf_options *own)
{
	struct perf_hello hello = { .magic = PERF_LINK_MAGIC,
				    .proto = PERF_LINK_PROTO,
				    .rank = own->role == PERF_LAUNCHED
						    ? own->rank
						    : -1,
				    .job = own->job };

	gethostname(hello.host, sizeof(hello.host) - 1);
	return perf_link_send(fd, PERF_HELLO, &hello, sizeof(hello));
}

/* Return whether a server accepts a load of this size. */
static bool affordable(const struct perf_options *opt)
{
	int peer[PERF_RANKS_MAX];
	uint64_t bytes = 0;

	for (int sends = 0; sends < 2; sends++) {
		int n = perf_pattern_peers(opt, 0, sends, peer) * opt->channels;

		bytes += (uint64_t)n * perf_pattern_memory(opt, sends, 2 * n);
	}
	return bytes <= SERVER_BYTES / (unsigned)opt->ranks_per_node;
}

static int take_setup(struct bridge *n, const struct perf_options *own,
		      struct perf_options *opt)
{
	struct perf_setup setup;
	struct perf_msg m;
	int rc = perf_link_expect(n->fd, &m, PERF_SETUP, sizeof(setup), "hub");

	if (rc < 0)
		return rc;
	memcpy(&setup, m.data, sizeof(setup));
	free(m.data);
	*opt = *own;
	rc = perf_setup_take(&setup, opt);
	if (rc == 0 && own->role == PERF_SERVER && !affordable(opt))
		rc = perf_bad(
			"setup: its buffers are too large for a server (give a smaller --max or --chunk)");
	if (rc < 0) {
		const char *why = perf_bad_said();

		perf_link_send(n->fd, PERF_FAIL, why, strlen(why));
		return rc;
	}
	n->index = (int)setup.node;
	n->device = setup.device;
	return 0;
}

void perf_node_run_dir(const struct perf_options *own, char *buf, size_t len)
{
	const char *dir = NULL;

	for (int i = 0; i < own->nenv; i++) {
		if (strcmp(own->env[i].name, "MPIB_RUN_DIR") == 0)
			dir = own->env[i].value;
	}
	if (dir)
		snprintf(buf, len, "%s", dir);
	else if (!mpib_run_dir(buf, len))
		buf[0] = '\0';
}

/* Send the handles of all listeners of this node. */
static int send_handles(struct bridge *n)
{
	const struct perf_options *opt = &n->w->opt;
	size_t count = 0, most = (size_t)opt->ranks_per_node *
				 (size_t)opt->nranks * (size_t)opt->channels;
	struct perf_handle_msg *all = calloc(most, sizeof(*all));
	int rc;

	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < (size_t)opt->nranks * (size_t)opt->nranks *
				       (size_t)opt->channels;
	     i++) {
		struct perf_handle *h = &n->w->handle[i];
		size_t pair = i / (size_t)opt->channels;

		if (!atomic_load(&h->ready))
			continue;
		all[count].channel = (int)(i % (size_t)opt->channels);
		all[count].to = (int)(pair / (size_t)opt->nranks);
		all[count].from = (int)(pair % (size_t)opt->nranks);
		memcpy(all[count++].bytes, h->bytes, sizeof(h->bytes));
	}
	rc = perf_link_send(n->fd, PERF_HANDLES, all, count * sizeof(*all));
	free(all);
	return rc;
}

/* Send the plugin's name and the handles, before the first barrier. */
static int introduce(struct bridge *n)
{
	struct perf_info info = { .abi = n->w->abi,
				  .speed = n->w->speed,
				  .max_recvs = n->w->max_recvs,
				  .devices = n->w->devices };
	int rc;

	memcpy(info.plugin, n->w->plugin_name, sizeof(info.plugin));
	memcpy(info.device, n->w->dev_name, sizeof(info.device));
	rc = perf_link_send(n->fd, PERF_INFO, &info, sizeof(info));
	n->introduced = true;
	return rc < 0 ? rc : send_handles(n);
}

static int send_results(struct bridge *n, int row)
{
	struct {
		struct perf_result_head head;
		struct perf_result res;
	} all;
	int rc = 0;

	memset(&all, 0, sizeof(all));
	for (int r = 0; rc == 0 && r < n->w->opt.nranks; r++) {
		if (perf_rank_node(&n->w->opt, r) != n->index)
			continue;
		all.head.row = row;
		all.head.rank = r;
		all.res = *perf_world_result(n->w, row, r);
		rc = perf_link_send(n->fd, PERF_RESULT, &all, sizeof(all));
	}
	return rc;
}

/* Tell the hub that all ranks of this node wait at a barrier. */
static int arrived(struct bridge *n)
{
	int ended = atomic_load(&n->w->ended), row = atomic_load(&n->w->row);
	struct perf_arrive arrive = { .row = row, .ended = ended };
	struct perf_sums sums;
	int rc = n->introduced ? 0 : introduce(n);

	for (; rc == 0 && n->shipped < ended; n->shipped++)
		rc = send_results(n, n->shipped);
	perf_world_sums(n->w, row, &sums);
	arrive.more = atomic_load(&n->w->more);
	arrive.sent = sums.sent;
	arrive.wrong = sums.wrong;
	arrive.seconds = sums.seconds;
	arrive.senders = sums.senders;
	return rc < 0 ? rc
		      : perf_link_send(n->fd, PERF_ARRIVE, &arrive,
				       sizeof(arrive));
}

static int take_handles(struct bridge *n, const struct perf_msg *m)
{
	const struct perf_options *opt = &n->w->opt;
	struct perf_handle_msg one;

	for (size_t at = 0; at + sizeof(one) <= m->len; at += sizeof(one)) {
		struct perf_handle *h;

		memcpy(&one, m->data + at, sizeof(one));
		if (one.to < 0 || one.to >= opt->nranks || one.from < 0 ||
		    one.from >= opt->nranks || one.channel < 0 ||
		    one.channel >= opt->channels)
			return -EPROTO;
		h = perf_world_handle(n->w, one.to, one.from, one.channel);
		memcpy(h->bytes, one.bytes, sizeof(h->bytes));
		/* Release, pairs with the acquire in connect_one(). */
		atomic_store_explicit(&h->ready, 1, memory_order_release);
	}
	return 0;
}

static int heard(struct bridge *n)
{
	struct perf_go go;
	struct perf_msg m;
	int rc = perf_link_recv(n->fd, &m);

	if (rc < 0) {
		perf_bad(
			"the test ends: lost the connection to its hub: %s (see the last line of the hub)",
			strerror(-rc));
		return rc;
	}
	if (m.type == PERF_HANDLES) {
		rc = take_handles(n, &m);
	} else if (m.type == PERF_GO && m.len == sizeof(go)) {
		memcpy(&go, m.data, sizeof(go));
		atomic_store(&n->w->more, go.more != 0);
		perf_world_go(n->w);
	} else if (m.type == PERF_FAIL) {
		perf_bad("the test ends: %s", m.data);
		rc = -EREMOTEIO;
	} else {
		rc = -EPROTO;
	}
	free(m.data);
	return rc;
}

/* Tell the hub that a rank of this node failed. The hub reports the failure for
 * all nodes. */
static int tell_failure(struct bridge *n)
{
	perf_link_send(n->fd, PERF_FAIL, n->w->why, strlen(n->w->why));
	perf_bad("%s", n->w->why);
	return -EIO;
}

static int carry(struct bridge *n)
{
	struct pollfd p[2] = { { .fd = n->fd, .events = POLLIN },
			       { .fd = n->w->bell, .events = POLLIN } };
	struct perf_rails rails;
	uint64_t rings;
	int rc = 0;

	while (rc == 0) {
		int left;

		if (poll(p, 2, LOOK_MS) < 0 && errno != EINTR)
			return -errno;
		left = perf_ranks_reap(n->w, false);
		if (perf_world_failed(n->w))
			return tell_failure(n);
		if (p[0].revents)
			rc = heard(n);
		if (rc == 0 && p[1].revents &&
		    read(n->w->bell, &rings, sizeof(rings)) > 0)
			rc = arrived(n);
		p[0].revents = p[1].revents = 0;
		if (left == 0)
			break;
	}
	if (rc < 0)
		return rc;
	rails_read(&rails, n->run_dir, n->device);
	rails_since(&rails, &n->before);
	return perf_link_send(n->fd, PERF_BYE, &rails, sizeof(rails));
}

int perf_node_run(int fd, const struct perf_options *own)
{
	struct bridge n = { .fd = fd };
	struct perf_options opt;
	int rc = say_hello(fd, own);

	perf_node_run_dir(own, n.run_dir, sizeof(n.run_dir));
	/* Limit the time: a silent hub must not occupy one of the server's
	 * tests. */
	alarm(SETUP_S);
	if (rc == 0)
		rc = take_setup(&n, own, &opt);
	alarm(0);
	if (rc == 0) {
		/* If several nodes run on this host, count the CPU time of its
		 * proxy only once. */
		if (own->role != PERF_LAUNCHED || own->leads)
			opt.nodes[n.index] = n.run_dir;
		rails_read(&n.before, n.run_dir, n.device);
		n.w = perf_world_new(&opt, n.index);
		rc = n.w ? 0 : -ENOMEM;
	}
	if (rc == 0) {
		n.w->bell = eventfd(0, EFD_CLOEXEC);
		rc = n.w->bell < 0 ? -errno : perf_ranks_start(n.w);
		if (rc == 0)
			rc = carry(&n);
		perf_ranks_kill();
		perf_ranks_reap(n.w, true);
		close(n.w->bell);
	}
	perf_world_free(n.w);
	close(fd);
	return rc;
}
