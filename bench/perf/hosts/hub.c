/* SPDX-License-Identifier: Apache-2.0 */
/* The hub of a test over several hosts, see hosts.h. */
#include "perf/hosts/hosts.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "perf/report.h"

/* Barrier 1 distributes the handles. At barrier 2 all ranks are prepared. */
#define PREPARED 2

struct perf_hub *perf_hub_new(const struct perf_options *opt)
{
	struct perf_hub *h = calloc(1, sizeof(*h));

	if (h) {
		h->n = opt->nnodes;
		h->device = PERF_SETUP_OWN;
		h->node = calloc((size_t)h->n, sizeof(*h->node));
		h->w = perf_world_new(opt, -1);
	}
	if (!h || !h->node || !h->w) {
		perf_hub_free(h);
		return NULL;
	}
	for (int i = 0; i < h->n; i++)
		h->node[i].fd = -1;
	return h;
}

void perf_hub_free(struct perf_hub *h)
{
	if (!h)
		return;
	for (int i = 0; h->node && i < h->n; i++) {
		if (h->node[i].fd >= 0)
			close(h->node[i].fd);
	}
	perf_world_free(h->w);
	free(h->handle);
	free(h->node);
	free(h);
}

/* Return the number of the node that sent `hello`, or an error if the node is
 * not of this job or has already connected. */
static int known(const struct perf_hub *h, const struct perf_hello *hello,
		 int i)
{
	if (hello->magic != PERF_LINK_MAGIC || hello->proto != PERF_LINK_PROTO)
		return perf_bad(
			"a node has another version of mpib-perf (install the same one)");
	if (i >= 0)
		return i;
	if (hello->job != h->w->opt.job || hello->rank < 0 ||
	    hello->rank >= h->n)
		return perf_bad(
			"rank %d of another job connected (give each job its own --port)",
			hello->rank);
	if (h->node[hello->rank].fd >= 0)
		return perf_bad(
			"rank %d connected twice (give each job its own --port)",
			hello->rank);
	return hello->rank;
}

int perf_hub_greet(struct perf_hub *h, int fd, int i, const char *given)
{
	struct perf_hello hello;
	struct perf_msg m;
	int rc = perf_link_expect(fd, &m, PERF_HELLO, sizeof(hello),
				  given ? given : "a rank");

	if (rc == 0) {
		memcpy(&hello, m.data, sizeof(hello));
		perf_link_clean(hello.host, sizeof(hello.host));
		free(m.data);
		rc = known(h, &hello, i);
	}
	if (rc < 0) {
		close(fd);
		return rc;
	}
	h->node[rc].fd = fd;
	h->node[rc].hello = hello;
	h->node[rc].given = given;
	return rc;
}

/* Tell all nodes except node `but` that the test ends. If `but` is -1, tell
 * all. */
static void end_all(struct perf_hub *h, int but, const char *why)
{
	for (int i = 0; i < h->n; i++) {
		if (i != but && !h->node[i].bye)
			perf_link_send(h->node[i].fd, PERF_FAIL, why,
				       strlen(why));
	}
}

static int failed(struct perf_hub *h, int i, const char *why, int rc)
{
	char text[500];

	snprintf(text, sizeof(text), "%.80s: %.400s",
		 h->node[i].given ? h->node[i].given : h->node[i].hello.host,
		 why);
	perf_bad("%s", text);
	end_all(h, i, text);
	return rc;
}

static int keep_handles(struct perf_hub *h, const struct perf_msg *m)
{
	const struct perf_options *opt = &h->w->opt;
	size_t add = m->len / sizeof(*h->handle);
	size_t most = (size_t)opt->nranks * (size_t)opt->nranks *
		      (size_t)opt->channels;

	if (add == 0)
		return 0;
	if (add > most - h->nhandle)
		return -EPROTO;
	if (h->nhandle + add > h->room) {
		size_t room = 2 * (h->nhandle + add);
		void *more = realloc(h->handle, room * sizeof(*h->handle));

		if (!more)
			return -ENOMEM;
		h->handle = more;
		h->room = room;
	}
	memcpy(h->handle + h->nhandle, m->data, add * sizeof(*h->handle));
	h->nhandle += add;
	return 0;
}

/* Send each node the handles to which its ranks connect. */
static int hand_around(struct perf_hub *h)
{
	const struct perf_options *opt = &h->w->opt;
	struct perf_handle_msg *part =
		calloc(h->nhandle + 1, sizeof(*h->handle));
	int rc = part ? 0 : -ENOMEM;

	for (int i = 0; rc == 0 && i < h->n; i++) {
		size_t count = 0;

		for (size_t k = 0; k < h->nhandle; k++) {
			int from = h->handle[k].from;

			if (from >= 0 && from < opt->nranks &&
			    perf_rank_node(opt, from) == i)
				part[count++] = h->handle[k];
		}
		rc = perf_link_send(h->node[i].fd, PERF_HANDLES, part,
				    count * sizeof(*part));
	}
	free(part);
	return rc;
}

static void keep_info(struct perf_info *info, const struct perf_msg *m)
{
	memcpy(info, m->data, sizeof(*info));
	perf_link_clean(info->plugin, sizeof(info->plugin));
	perf_link_clean(info->device, sizeof(info->device));
	if (info->devices < 1 || info->devices > PERF_DEVICES_MAX)
		info->devices = 1;
}

static void keep_rails(struct perf_rails *rails, const struct perf_msg *m)
{
	memcpy(rails, m->data, sizeof(*rails));
	if (rails->n < 0 || rails->n > PERF_RAILS)
		rails->n = 0;
	for (int i = 0; i < rails->n; i++) {
		perf_link_clean(rails->rail[i].name,
				sizeof(rails->rail[i].name));
		perf_link_clean(rails->rail[i].device,
				sizeof(rails->rail[i].device));
	}
}

static int keep_result(struct perf_hub *h, int i, const struct perf_msg *m)
{
	struct perf_result_head head;
	struct perf_result *res;

	if (m->len != sizeof(head) + sizeof(*res))
		return -EPROTO;
	memcpy(&head, m->data, sizeof(head));
	if (head.row < 0 || head.row >= h->w->rows || head.rank < 0 ||
	    head.rank >= h->w->opt.nranks ||
	    perf_rank_node(&h->w->opt, head.rank) != i)
		return -EPROTO;
	res = perf_world_result(h->w, head.row, head.rank);
	memcpy(res, m->data + sizeof(head), sizeof(*res));
	return 0;
}

/* Count the different hosts of the nodes. */
static int count_hosts(const struct perf_hub *h)
{
	int hosts = 0;

	for (int i = 0; i < h->n; i++) {
		int k = 0;

		while (strcmp(h->node[k].hello.host, h->node[i].hello.host))
			k++;
		hosts += k == i;
	}
	return hosts;
}

static void take_info(struct perf_hub *h)
{
	struct perf_world *w = h->w;
	const struct perf_info *info = &h->node[0].info;

	snprintf(w->plugin_name, sizeof(w->plugin_name), "%.31s", info->plugin);
	snprintf(w->dev_name, sizeof(w->dev_name), "%.127s", info->device);
	w->abi = info->abi;
	w->speed = info->speed;
	w->max_recvs = info->max_recvs;
	w->hosts = count_hosts(h);
}

/* When all ranks have reached a barrier, print the part of the report that is
 * due: the header, a row or the progress. */
static void report(struct perf_hub *h)
{
	struct perf_sums sums = { 0 };
	int row = h->node[0].arrive.row;

	if (h->barriers == PREPARED && !h->quiet)
		perf_report_header(h->w);
	for (int i = 0; i < h->n; i++) {
		const struct perf_arrive *a = &h->node[i].arrive;

		sums.sent += a->sent;
		sums.wrong += a->wrong;
		sums.senders += a->senders;
		sums.seconds =
			a->seconds > sums.seconds ? a->seconds : sums.seconds;
	}
	if (h->reported < h->node[0].arrive.ended) {
		if (!h->quiet && h->reported < h->w->rows)
			perf_report_row(h->w, h->reported);
		h->reported++;
	} else if (!h->quiet && row >= 0 && row < h->w->rows) {
		perf_report_progress(h->w, row, &sums);
	}
}

/* When all nodes have arrived at a barrier, let their ranks continue. */
static int pass(struct perf_hub *h)
{
	struct perf_go go = { .more = h->node[0].arrive.more &&
				      !atomic_load(&h->w->enough) };
	int rc = 0;

	for (int i = 0; i < h->n; i++) {
		if (!h->node[i].arrived)
			return 0;
	}
	if (++h->barriers == 1) {
		take_info(h);
		rc = hand_around(h);
	}
	for (int i = 0; rc == 0 && i < h->n; i++) {
		h->node[i].arrived = false;
		rc = perf_link_send(h->node[i].fd, PERF_GO, &go, sizeof(go));
	}
	report(h);
	return rc;
}

/* Store a node's arrival at a barrier. The message is invalid if it names more
 * senders than there are ranks. */
static int keep_arrive(struct perf_hub *h, int i, const struct perf_msg *m)
{
	struct perf_arrive arrive;

	memcpy(&arrive, m->data, sizeof(arrive));
	if (arrive.senders < 0 || arrive.senders > h->w->opt.nranks)
		return -EPROTO;
	h->node[i].arrive = arrive;
	h->node[i].arrived = true;
	return pass(h);
}

static int heard(struct perf_hub *h, int i)
{
	struct perf_hub_node *node = &h->node[i];
	struct perf_msg m;
	int rc = perf_link_recv(node->fd, &m);

	if (rc < 0)
		return failed(h, i, strerror(-rc), rc);
	if (m.type == PERF_INFO && m.len == sizeof(node->info)) {
		keep_info(&node->info, &m);
	} else if (m.type == PERF_HANDLES) {
		rc = keep_handles(h, &m);
	} else if (m.type == PERF_RESULT) {
		rc = keep_result(h, i, &m);
	} else if (m.type == PERF_ARRIVE && m.len == sizeof(node->arrive)) {
		rc = keep_arrive(h, i, &m);
	} else if (m.type == PERF_BYE && m.len == sizeof(node->rails)) {
		keep_rails(&node->rails, &m);
		node->bye = true;
	} else if (m.type == PERF_FAIL) {
		rc = failed(h, i, m.data, -EREMOTEIO);
		free(m.data);
		return rc;
	} else {
		rc = -EPROTO;
	}
	free(m.data);
	return rc < 0 ? failed(h, i, strerror(-rc), rc) : 0;
}

static int start(struct perf_hub *h)
{
	struct perf_setup setup;
	int rc;

	for (int i = 0; i < h->n; i++) {
		perf_setup_make(&setup, &h->w->opt, i, h->device);
		rc = perf_link_send(h->node[i].fd, PERF_SETUP, &setup,
				    sizeof(setup));
		if (rc < 0)
			return failed(h, i, strerror(-rc), rc);
	}
	return 0;
}

int perf_hub_run(struct perf_hub *h)
{
	struct pollfd *p = calloc((size_t)h->n, sizeof(*p));
	int rc = p ? start(h) : -ENOMEM, left = h->n;

	while (rc == 0 && left > 0) {
		for (int i = 0; i < h->n; i++) {
			p[i].fd = h->node[i].bye ? -1 : h->node[i].fd;
			p[i].events = POLLIN;
			p[i].revents = 0;
		}
		if (poll(p, (nfds_t)h->n, -1) < 0 && errno != EINTR) {
			rc = perf_bad("poll: %s", strerror(errno));
			break;
		}
		for (int i = 0; rc == 0 && i < h->n; i++) {
			if (p[i].revents)
				rc = heard(h, i);
			left -= h->node[i].bye && p[i].fd >= 0;
		}
	}
	free(p);
	return rc;
}
