/* SPDX-License-Identifier: Apache-2.0 */
/* The proxy, its rails, clients and settings as JSON. */
#include "view/view.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "engine/lane/drr.h"
#include "peer/ask.h"
#include "view/fields.h"

static json_t *view_usage(const struct mpib_usage *l)
{
	return json_pack(
		"{sI sI sI sI sI sI}", "clients", (json_int_t)l->clients,
		"attached", (json_int_t)l->attached, "leaving",
		(json_int_t)l->leaving, "regions", (json_int_t)l->regions,
		"registered_bytes", (json_int_t)l->registered, "mapped_bytes",
		(json_int_t)l->mapped);
}

/* Set a counter of n in the JSON object o. */
#define COUNTER(field, key, ...)                                               \
	json_object_set_new(o, key, mpib_field_u64(n->field));
/* A counter whose JSON key is the name of its field. */
#define COUNTER_AS_IS(field, ...) COUNTER(field, #field)
#define SECONDS(field, key, ...)                                               \
	json_object_set_new(o, key, json_real((double)n->field / 1e9));

static double view_ratio(double used, double of)
{
	return of > 0 ? used / of : 0;
}

json_t *mpib_view_shards(const struct mpib_view *v)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < v->snap->shards; i++) {
		const struct mpib_snap_shard *n = &v->snap->shard[i];
		uint64_t all_ns = n->busy_ns + n->idle_ns;
		/* idle_ns includes slept_ns; the three states shown here are
		 * disjoint and add up to the thread's time. */
		json_t *o = json_pack(
			"{sI so sI sf s{sf sf sf}}", "shard", (json_int_t)i,
			"net", mpib_field_net(v, i), "clients",
			(json_int_t)v->clients->on_shard[i], "busy",
			view_ratio((double)n->busy_ns, (double)all_ns),
			"time_s", "busy", (double)n->busy_ns / 1e9, "idle",
			(double)(n->idle_ns - n->slept_ns) / 1e9, "asleep",
			(double)n->slept_ns / 1e9);

		MPIB_SHARD_COUNTERS(COUNTER)
		json_array_append_new(list, o);
	}
	return list;
}

/* Count the failed connections and lanes, and the requests that wait. */
static json_t *view_sums(const struct mpib_snapshot *snap)
{
	json_int_t lanes = 0, conns = 0, requests = 0;
	uint64_t oldest = 0;

	for (uint32_t i = 0; i < snap->lanes; i++)
		lanes += snap->lane[i].broken;
	for (uint32_t i = 0; i < snap->conns; i++) {
		conns += snap->conn[i].broken;
		requests += snap->conn[i].outstanding;
		if (snap->conn[i].oldest_ns > oldest)
			oldest = snap->conn[i].oldest_ns;
	}
	return json_pack("{sI sI sI sf}", "broken_lanes", lanes,
			 "broken_connections", conns, "outstanding", requests,
			 "oldest_s", (double)oldest / 1e9);
}

static json_t *view_rejected(const struct mpib_view *v)
{
	json_int_t bad = 0;

	for (unsigned r = 0; r < mpib_snap_rails(v->snap); r++)
		bad += (json_int_t)v->snap->rail[r].bad_imms;
	return json_pack(
		"{sI sI sI sI}", "client", (json_int_t)v->clients->refused,
		"request", (json_int_t)v->clients->rejected, "immediate", bad,
		"link",
		v->clients->broker
			? (json_int_t)mpib_broker_refused(v->clients->broker)
			: 0);
}

/* Return the used part of each limit. */
static json_t *view_limits(const struct mpib_view *v)
{
	return json_pack(
		"{sf}", "clients",
		view_ratio(v->clients->usage.attached, v->cfg->max_clients));
}

json_t *mpib_view_info(const struct mpib_view *v)
{
	char host[HOST_NAME_MAX + 1] = "";
	const struct proxy_clients *all = v->clients;
	json_t *names = json_array(), *o;

	for (unsigned r = 0; r < mpib_snap_rails(v->snap); r++)
		json_array_append_new(names, json_string(v->rail[r].name));
	gethostname(host, sizeof(host) - 1);
	o = json_pack(
		"{ss so sI sI so sf so ss ss ss so sI sI sI so so so so}",
		"version", MPIB_VERSION, "host", mpib_field_text(host), "abi",
		(json_int_t)MPIB_ABI_VERSION, "pid", (json_int_t)v->pid,
		"run_dir", mpib_field_text(v->run_dir), "uptime_s", v->uptime_s,
		"rails", names, "peer_link", v->peer_link, "lanes_mode",
		v->cfg->lanes == MPIB_LANES_SHARED ? "shared" : "private",
		"mode", mpib_mode_name((enum mpib_mode)v->cfg->engine.mode),
		"sup_bw",
		v->cfg->engine.mode == MPIB_MODE_STATIC
			? mpib_field_u64(v->cfg->engine.sup_bw)
			: json_null(),
		"clients", (json_int_t)all->usage.attached, "connections",
		(json_int_t)v->snap->conns, "lanes", (json_int_t)v->snap->lanes,
		"rejected", view_rejected(v), "limits_used", view_limits(v),
		"shards", mpib_view_shards(v), "usage",
		view_usage(&all->usage));
	json_object_update_new(o, view_sums(v->snap));
	return o;
}

/* Return a cause as one word; mpib_rail_cause_name() is for sentences. */
static const char *cause_name(enum mpib_rail_cause cause)
{
	static const char *const name[MPIB_CAUSES] = {
		[MPIB_CAUSE_NONE] = "none",   [MPIB_CAUSE_PORT] = "port",
		[MPIB_CAUSE_ERROR] = "error", [MPIB_CAUSE_STUCK] = "stuck",
		[MPIB_CAUSE_PEER] = "peer",   [MPIB_CAUSE_PROBE] = "probe",
	};

	return name[cause];
}

static json_t *view_failover(const struct mpib_snap_failover *n)
{
	json_t *causes = json_object(), *o = json_object();

	for (unsigned i = MPIB_CAUSE_NONE + 1; i < MPIB_CAUSES; i++)
		json_object_set_new(causes, cause_name(i),
				    mpib_field_u64(n->count[i]));
	json_object_set_new(o, "causes", causes);
	MPIB_FAILOVER_COUNTERS(COUNTER)
	SECONDS(last_ns, "last_s")
	SECONDS(max_ns, "max_s")
	return o;
}

static void add_moved(json_t *o, const struct mpib_rail_counts *n)
{
	MPIB_MOVED_COUNTERS(COUNTER_AS_IS, COUNTER_AS_IS)
}

/* Add the counters of the rail. "posts" is the number of post calls, not of
 * chains: a call posts the chains of several connections. */
static void add_counters(json_t *o, const struct mpib_snap_rail *n)
{
	add_moved(o, &n->n);
	MPIB_RAIL_COUNTERS(COUNTER, COUNTER)
	SECONDS(failover.sum_ns, "failover_s")
	json_object_set_new(o, "failover", view_failover(&n->failover));
}

/* Add the driver's counters; the software HCA has none. */
static void add_hw(json_t *o, const struct mpib_view *v, unsigned r)
{
	const struct mpib_rail_spec *spec = &v->cfg->engine.rail[r];
	json_t *hw = json_null();

	if (spec->provider == MPIB_PROVIDER_RDMA)
		hw = mpib_hw_counters("/sys", spec->name, spec->port);
	json_object_set_new(o, "retries", mpib_hw_retries(hw));
	json_object_set_new(o, "hw", hw);
}

static const char *rail_state(const struct mpib_view *v, unsigned r)
{
	if (v->snap->rail[r].up)
		return "active";
	return v->engine && mpib_engine_lost(v->engine) >> r & 1 ? "lost"
								 : "down";
}

void mpib_view_drain_why(const struct mpib_view *v, unsigned r,
			 char why[MPIB_DRAIN_WHY])
{
	pid_t pid;
	const struct mpib_agent_summary *s = mpib_agent_heard(v->agent, &pid);

	if (v->engine && s && mpib_engine_drained_sick(v->engine) >> r & 1)
		snprintf(why, MPIB_DRAIN_WHY, "agent: %.40s",
			 s->rail[r % v->snap->rails].why);
	else
		snprintf(why, MPIB_DRAIN_WHY, "%s", v->cfg->drain_why[r]);
}

static json_t *view_rail(const struct mpib_view *v, unsigned r)
{
	const struct mpib_snap_rail *n = &v->snap->rail[r];
	const struct mpib_view_rail *d = &v->rail[r];
	char gid[INET6_ADDRSTRLEN] = "", why[MPIB_DRAIN_WHY];
	json_t *o;

	inet_ntop(AF_INET6, n->gid.raw, gid, sizeof(gid));
	o = json_pack(
		"{ss ss ss ss ss ss sb sb sb sI sI ss sI sI sI sI}", "name",
		mpib_rail_name(r % v->snap->rails), "net", d->net ? d->net : "",
		"label", d->label, "device", d->name, "provider", d->provider,
		"state", rail_state(v, r), "up", n->up, "drained", n->drained,
		"standby", d->standby, "speed_mbps", (json_int_t)n->speed_mbps,
		"mtu", (json_int_t)(n->mtu ? 128 << n->mtu : 0), "gid", gid,
		"qps", (json_int_t)n->qps, "srq_posted",
		(json_int_t)n->srq_posted, "srq_high",
		(json_int_t)v->cfg->engine.srq_high, "expected_mbps",
		(json_int_t)v->cfg->expected_gbps * 1000);
	mpib_view_drain_why(v, r, why);
	json_object_set_new(o, "drain_why", json_string(why));
	add_counters(o, n);
	return o;
}

json_t *mpib_view_rails_quick(const struct mpib_view *v)
{
	json_t *list = json_array();

	for (unsigned r = 0; r < mpib_snap_rails(v->snap); r++)
		json_array_append_new(list, view_rail(v, r));
	return list;
}

json_t *mpib_view_rails(const struct mpib_view *v)
{
	json_t *list = mpib_view_rails_quick(v);

	for (unsigned r = 0; r < mpib_snap_rails(v->snap); r++)
		add_hw(json_array_get(list, r), v, r);
	return list;
}

static json_int_t view_said(const _Atomic uint64_t *n)
{
	/* Relaxed: the client writes these counters in its submit segment. They
	 * need not be consistent with each other. */
	return (json_int_t)atomic_load_explicit(n, memory_order_relaxed);
}

/* Add the counters that the client writes. They are 0 until the client has a
 * submit segment. */
static void add_own_counts(json_t *o, const struct proxy_client *s)
{
	static const struct mpib_client_counts none;
	const struct mpib_submit *submit = s->submit.addr;
	const struct mpib_client_counts *n = submit ? &submit->counts : &none;

	json_object_update_new(o,
			       json_pack("{sI sI s{sI sI}}", "copies",
					 view_said(&n->copies), "copied_bytes",
					 view_said(&n->copied_bytes), "stalls",
					 "pool", view_said(&n->stalls_pool),
					 "ring", view_said(&n->stalls_ring)));
}

static json_t *view_part(const struct mpib_share *p)
{
	return json_pack("{sI sI}", "weight",
			 (json_int_t)(p->weight ? p->weight : MPIB_DRR_WEIGHT),
			 "limit_mbps", (json_int_t)p->limit);
}

static void view_add_share(json_t *o, const struct proxy_client *s,
			   json_int_t held)
{
	json_t *share = view_part(&s->share);

	json_object_set_new(share, "user", view_part(&s->of_user));
	json_object_set_new(share, "limited", json_integer(held));
	json_object_set_new(o, "share", share);
}

static json_t *view_client(const struct mpib_view *v,
			   const struct proxy_client *s,
			   const struct mpib_client_sums *sums)
{
	json_t *o = json_pack(
		"{sI ss sI sI sI sI so ss ss sI sI sI sI}", "id",
		(json_int_t)s->id, "name", s->name, "pid", (json_int_t)s->pid,
		"uid", (json_int_t)s->uid, "shard",
		(json_int_t)s->peer_client.shard, "job", (json_int_t)s->job,
		"job_id", mpib_field_job(s->job), "label", s->label, "state",
		s->state == PROXY_CLIENT_LIVE ? "attached" : "leaving",
		"connections", (json_int_t)sums->connections, "regions",
		(json_int_t)s->region_count, "registered_bytes",
		(json_int_t)s->registered, "messages",
		(json_int_t)sums->messages);
	view_add_share(o, s, (json_int_t)sums->limited);
	add_own_counts(o, s);
	mpib_field_counts(o, v, sums->n);
	json_object_set_new(o, "net", mpib_field_net(v, s->peer_client.shard));
	return o;
}

json_t *mpib_view_clients_first(const struct mpib_view *v, unsigned most)
{
	struct mpib_sums *all = mpib_sums_all(v->snap);
	const struct proxy_client *s;
	json_t *list;

	if (!all)
		return NULL;
	list = json_array();
	TAILQ_FOREACH(s, &v->clients->list, link)
	{
		if (s->peer_client.engine_client &&
		    json_array_size(list) < most)
			json_array_append_new(
				list,
				view_client(v, s, mpib_sums_get(all, s->id)));
	}
	mpib_sums_free(all);
	return list;
}

json_t *mpib_view_clients(const struct mpib_view *v)
{
	return mpib_view_clients_first(v, UINT_MAX);
}

json_t *mpib_view_config(const struct mpib_view *v)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < mpib_settings_count; i++) {
		const struct mpib_setting *s = &mpib_settings[i];
		char value[MPIB_VALUE_MAX];

		mpib_config_value(v->cfg, s, value, sizeof(value));
		json_array_append_new(
			list, json_pack("{ss ss so so sb}", "section",
					s->section, "key", s->key, "value",
					mpib_field_text(value), "origin",
					mpib_field_text(v->cfg->origin[i]),
					"runtime", s->runtime));
	}
	return list;
}

/* The devices as JSON. */

static json_t *devices_rails(const struct mpib_view *v, unsigned first)
{
	json_t *list = json_array();

	for (unsigned r = first; r < first + v->snap->rails; r++)
		json_array_append_new(
			list, json_pack("{ss ss ss ss sb sb}", "name",
					mpib_rail_name(r - first), "device",
					v->rail[r].name, "pci", v->rail[r].pci,
					"state", rail_state(v, r), "down",
					!v->snap->rail[r].up, "standby",
					v->rail[r].standby));
	return list;
}

static json_t *view_device(const struct mpib_view *v, unsigned d)
{
	unsigned shards = v->snap->shards / v->snap->devices;
	unsigned first = d * v->snap->rails;
	uint64_t tx = 0, rx = 0, speed = 0;
	json_int_t clients = 0, conns = 0;

	for (unsigned r = first; r < first + v->snap->rails; r++) {
		if (!v->rail[r].standby)
			speed += v->snap->rail[r].speed_mbps;
		tx += v->snap->rail[r].n.tx_bytes;
		rx += v->snap->rail[r].n.rx_bytes;
	}
	for (unsigned i = d * shards; i < (d + 1) * shards; i++)
		clients += v->clients->on_shard[i];
	for (uint32_t i = 0; i < v->snap->conns; i++)
		conns += v->snap->conn[i].shard / shards == d;
	return json_pack("{sI so so ss sI sI sI sI sI sI}", "index",
			 (json_int_t)d, "net", mpib_field_net(v, d * shards),
			 "rails", devices_rails(v, first), "why",
			 v->cfg->why_devices[0] ? v->cfg->why_devices
						: v->cfg->device[d].origin,
			 "shards", (json_int_t)shards, "speed_mbps",
			 (json_int_t)speed, "clients", clients, "connections",
			 conns, "tx_bytes", (json_int_t)tx, "rx_bytes",
			 (json_int_t)rx);
}

json_t *mpib_view_devices(const struct mpib_view *v)
{
	json_t *list = json_array();

	for (unsigned d = 0; d < v->snap->devices; d++)
		json_array_append_new(list, view_device(v, d));
	return list;
}

/* The jobs as JSON: the running jobs, and the last jobs that ended. */

/* Add the traffic of the job's attached clients, up to this snapshot, to
 * *sum. */
static void jobs_attached(const struct mpib_view *v,
			  const struct mpib_sums *all, uint32_t at,
			  struct mpib_job *sum)
{
	const struct proxy_client *s;

	TAILQ_FOREACH(s, &v->clients->list, link)
	{
		const struct mpib_client_sums *sums;

		if (s->job_at != at + 1)
			continue;
		sums = mpib_sums_get(all, s->id);
		for (unsigned r = 0; r < MPIB_RAILS; r++) {
			sum->tx_bytes += sums->n[r].tx_bytes;
			sum->rx_bytes += sums->n[r].rx_bytes;
			sum->replayed_bytes += sums->n[r].replayed_bytes;
		}
		sum->messages += sums->messages;
	}
}

static json_t *jobs_job(const struct mpib_view *v, const struct mpib_sums *all,
			uint32_t at)
{
	struct mpib_job j = v->clients->jobs.job[at];

	jobs_attached(v, all, at, &j);
	return json_pack(
		"{ss so sI sI sI sf so sI sI sI sI sf}", "label", j.label,
		"job_id", mpib_field_job(j.number), "uid", (json_int_t)j.uid,
		"clients", (json_int_t)j.clients, "attached",
		(json_int_t)j.attached, "began", (double)j.began_ns / 1e9,
		"ended",
		j.ended_ns ? json_real((double)j.ended_ns / 1e9) : json_null(),
		"tx_bytes", (json_int_t)j.tx_bytes, "rx_bytes",
		(json_int_t)j.rx_bytes, "messages", (json_int_t)j.messages,
		"replayed_bytes", (json_int_t)j.replayed_bytes, "stall_s",
		(double)j.stall_ns / 1e9);
}

json_t *mpib_view_jobs(const struct mpib_view *v)
{
	struct mpib_sums *all = mpib_sums_all(v->snap);
	json_t *list;

	if (!all)
		return NULL;
	list = json_array();
	for (uint32_t i = 0; i < MPIB_JOBS; i++) {
		if (v->clients->jobs.job[i].clients)
			json_array_append_new(list, jobs_job(v, all, i));
	}
	mpib_sums_free(all);
	return list;
}

/* Read the driver's counters of an RDMA port from sysfs. */

/* Counters of retransmissions, by the names that mlx5 and rxe give them. */
static const char *const retries[] = { "local_ack_timeout_err",
				       "packet_seq_err", "rnr_nak_retry_err",
				       "completer_retry_err", "rcvd_rnr_err" };

/* Return the number in the file, or NULL if the file has none. */
static json_t *read_one(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	char text[32], *end;
	long long n;
	ssize_t len;

	if (fd < 0)
		return NULL;
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (len <= 0)
		return NULL;
	text[len] = '\0';
	n = strtoll(text, &end, 10);
	return end > text ? json_integer(n) : NULL;
}

/* Standard counters of the port that indicate a failing cable or switch. Each
 * read costs a query of the firmware. */
static const char *const of_port[] = {
	"symbol_error",	   "link_downed",	 "link_error_recovery",
	"port_rcv_errors", "port_xmit_discards", "port_xmit_wait"
};

/* Add a file of the directory if it contains a number. */
static void add_one(json_t *all, int dir, const char *name)
{
	json_t *n = read_one(dir, name);

	if (n)
		json_object_set_new(all, name, n);
}

json_t *mpib_hw_counters(const char *root, const char *device, unsigned port)
{
	char path[PATH_MAX];
	struct dirent *entry;
	json_t *all;
	DIR *dir;
	int fd;

	snprintf(path, sizeof(path),
		 "%s/class/infiniband/%s/ports/%u/hw_counters", root, device,
		 port);
	dir = opendir(path);
	if (!dir)
		return json_null();
	all = json_object();
	while ((entry = readdir(dir)))
		add_one(all, dirfd(dir), entry->d_name);
	fd = openat(dirfd(dir), "../counters",
		    O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (unsigned i = 0;
	     fd >= 0 && i < sizeof(of_port) / sizeof(of_port[0]); i++)
		add_one(all, fd, of_port[i]);
	if (fd >= 0)
		close(fd);
	closedir(dir);
	json_object_del(all, "lifespan"); /* not a counter, but a time in ms */
	return all;
}

json_t *mpib_hw_retries(const json_t *counters)
{
	json_int_t sum = 0;

	if (!json_is_object(counters))
		return json_null();
	for (unsigned i = 0; i < sizeof(retries) / sizeof(retries[0]); i++) {
		json_int_t n = json_integer_value(
			json_object_get(counters, retries[i]));

		/* read_one() returns INT64_MAX for a larger counter. */
		if (__builtin_add_overflow(sum, n, &sum))
			sum = INT64_MAX;
	}
	return json_integer(sum);
}
