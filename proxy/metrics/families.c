/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all metrics, and the functions that print their samples. */
#include "metrics/families.h"

#include <inttypes.h>
#include <string.h>

#include "engine/lane/drr.h"

/* The number at the family's field of *base. */
static uint64_t families_u64(const struct mpib_exposition *m, const void *base)
{
	uint64_t n;

	memcpy(&n, (const char *)base + m->family->field, sizeof(n));
	return n;
}

static uint32_t families_u32(const struct mpib_exposition *m, const void *base)
{
	uint32_t n;

	memcpy(&n, (const char *)base + m->family->field, sizeof(n));
	return n;
}

static void families_build(const struct mpib_exposition *m)
{
	char abi[12];
	const struct mpib_label label[] = { { "version", MPIB_VERSION },
					    { "abi", abi } };

	snprintf(abi, sizeof(abi), "%u", MPIB_ABI_VERSION);
	mpib_sample(m, label, 2, 1);
}

static void families_uptime(const struct mpib_exposition *m)
{
	mpib_sample_real(m, NULL, 0, m->view->uptime_s);
}

static void families_upgrades(const struct mpib_exposition *m)
{
	mpib_sample(m, NULL, 0, m->view->upgrades);
}

static void rail_info(const struct mpib_exposition *m)
{
	for (unsigned r = 0; r < mpib_snap_rails(m->view->snap); r++) {
		const struct mpib_view_rail *d = &m->view->rail[r];
		struct mpib_label label[MPIB_RAIL_LABELS + 2];
		unsigned n = mpib_rail_labels(m, r, label);

		label[n++] = (struct mpib_label){ "device", d->name };
		label[n++] =
			(struct mpib_label){ "provider",
					     d->provider ? d->provider : "" };
		mpib_sample(m, label, n, 1);
	}
}

static void rail_sample(const struct mpib_exposition *m, unsigned rail,
			uint64_t n)
{
	struct mpib_label label[MPIB_RAIL_LABELS];

	mpib_sample(m, label, mpib_rail_labels(m, rail, label), n);
}

static void rail_flag(const struct mpib_exposition *m)
{
	for (unsigned r = 0; r < mpib_snap_rails(m->view->snap); r++)
		rail_sample(m, r,
			    *((const bool *)&m->view->snap->rail[r] +
			      m->family->field));
}

static void rail_u64(const struct mpib_exposition *m)
{
	for (unsigned r = 0; r < mpib_snap_rails(m->view->snap); r++)
		rail_sample(m, r, families_u64(m, &m->view->snap->rail[r]));
}

static void rail_u32(const struct mpib_exposition *m)
{
	for (unsigned r = 0; r < mpib_snap_rails(m->view->snap); r++)
		rail_sample(m, r, families_u32(m, &m->view->snap->rail[r]));
}

static void rail_standby(const struct mpib_exposition *m)
{
	for (unsigned r = 0; r < mpib_snap_rails(m->view->snap); r++)
		rail_sample(m, r, m->view->rail[r].standby);
}

static void rail_speed(const struct mpib_exposition *m)
{
	for (unsigned r = 0; r < mpib_snap_rails(m->view->snap); r++)
		rail_sample(m, r, m->view->snap->rail[r].speed_mbps * 125000);
}

static void rail_expected(const struct mpib_exposition *m)
{
	for (unsigned r = 0; r < mpib_snap_rails(m->view->snap); r++)
		rail_sample(m, r,
			    m->view->cfg->expected_gbps * UINT64_C(125000000));
}

static void snap_u32(const struct mpib_exposition *m)
{
	mpib_sample(m, NULL, 0, families_u32(m, m->view->snap));
}

static void broken_lanes(const struct mpib_exposition *m)
{
	const struct mpib_snapshot *s = m->view->snap;
	uint64_t n = 0;

	for (uint32_t i = 0; i < s->lanes; i++)
		n += s->lane[i].broken;
	mpib_sample(m, NULL, 0, n);
}

static void broken_connections(const struct mpib_exposition *m)
{
	const struct mpib_snapshot *s = m->view->snap;
	uint64_t n = 0;

	for (uint32_t i = 0; i < s->conns; i++)
		n += s->conn[i].broken;
	mpib_sample(m, NULL, 0, n);
}

static void families_outstanding(const struct mpib_exposition *m)
{
	const struct mpib_snapshot *s = m->view->snap;
	uint64_t n = 0;

	for (uint32_t i = 0; i < s->conns; i++)
		n += s->conn[i].outstanding;
	mpib_sample(m, NULL, 0, n);
}

static void usage_u32(const struct mpib_exposition *m)
{
	mpib_sample(m, NULL, 0, families_u32(m, &m->view->clients->usage));
}

static void usage_u64(const struct mpib_exposition *m)
{
	mpib_sample(m, NULL, 0, families_u64(m, &m->view->clients->usage));
}

static void families_rejected(const struct mpib_exposition *m)
{
	const struct mpib_snapshot *s = m->view->snap;
	struct mpib_label label = { "reason", "client" };
	uint64_t bad = 0;

	mpib_sample(m, &label, 1, m->view->clients->refused);
	label.value = "request";
	mpib_sample(m, &label, 1, m->view->clients->rejected);
	for (unsigned r = 0; r < mpib_snap_rails(s); r++)
		bad += s->rail[r].bad_imms;
	label.value = "immediate";
	mpib_sample(m, &label, 1, bad);
}

double mpib_ratio(double used, double of)
{
	return of > 0 ? used / of : 0;
}

static void thread_u64(const struct mpib_exposition *m)
{
	for (unsigned i = 0; i < m->view->snap->shards; i++) {
		char id[12];
		const struct mpib_label label = { "thread", id };

		snprintf(id, sizeof(id), "%u", i);
		mpib_sample(m, &label, 1,
			    families_u64(m, &m->view->snap->shard[i]));
	}
}

static void thread_busy(const struct mpib_exposition *m)
{
	for (unsigned i = 0; i < m->view->snap->shards; i++) {
		const struct mpib_snap_shard *s = &m->view->snap->shard[i];
		char id[12];
		const struct mpib_label label = { "thread", id };

		snprintf(id, sizeof(id), "%u", i);
		mpib_sample_real(m, &label, 1,
				 mpib_ratio((double)s->busy_ns,
					    (double)(s->busy_ns + s->idle_ns)));
	}
}

static void client_info(const struct mpib_exposition *m)
{
	for (unsigned i = 0; i < m->clients; i++) {
		const struct mpib_exposed_client *c = &m->client[i];
		char pid[12];
		const struct mpib_label label[] = {
			{ "client", c->id },
			{ "uid", c->uid },
			{ "pid", pid },
			{ "name", c->client->name },
		};

		snprintf(pid, sizeof(pid), "%u", c->client->pid);
		mpib_sample(m, label, 4, 1);
	}
}

static void client_sample(const struct mpib_exposition *m,
			  const struct mpib_exposed_client *c, uint64_t n)
{
	const struct mpib_label label[] = { { "client", c->id },
					    { "uid", c->uid } };

	mpib_sample(m, label, 2, n);
}

static void client_connections(const struct mpib_exposition *m)
{
	for (unsigned i = 0; i < m->clients; i++)
		client_sample(m, &m->client[i], m->client[i].sums.connections);
}

static void client_registered(const struct mpib_exposition *m)
{
	for (unsigned i = 0; i < m->clients; i++)
		client_sample(m, &m->client[i],
			      m->client[i].client->registered);
}

static void client_weight(const struct mpib_exposition *m)
{
	for (unsigned i = 0; i < m->clients; i++) {
		uint32_t weight = m->client[i].client->share.weight;

		client_sample(m, &m->client[i],
			      weight ? weight : MPIB_DRR_WEIGHT);
	}
}

static void client_limited(const struct mpib_exposition *m)
{
	for (unsigned i = 0; i < m->clients; i++)
		client_sample(m, &m->client[i], m->client[i].sums.limited);
}

static void client_rail(const struct mpib_exposition *m)
{
	for (unsigned i = 0; i < m->clients; i++) {
		const struct mpib_exposed_client *c = &m->client[i];

		for (unsigned r = 0; r < m->view->snap->rails; r++) {
			const struct mpib_label label[] = {
				{ "client", c->id },
				{ "uid", c->uid },
				{ "rail", mpib_rail_name(r) },
			};

			mpib_sample(m, label, 3,
				    families_u64(m, &c->sums.n[r]));
		}
	}
}

#define COUNTER(n, unit, fill, field, help)                                    \
	{                                                                      \
		"mpib_" n, MPIB_FAMILY_COUNTER, unit, fill, field, help        \
	}
#define GAUGE(n, unit, fill, field, help)                                      \
	{                                                                      \
		"mpib_" n, MPIB_FAMILY_GAUGE, unit, fill, field, help          \
	}
#define HISTOGRAM(n, fill, help)                                               \
	{                                                                      \
		"mpib_" n, MPIB_FAMILY_HISTOGRAM, "seconds", fill, 0, help     \
	}
#define INFO(n, fill, help)                                                    \
	{                                                                      \
		"mpib_" n, MPIB_FAMILY_INFO, NULL, fill, 0, help               \
	}
#define RAIL(f) offsetof(struct mpib_snap_rail, f)
#define SNAP(f) offsetof(struct mpib_snapshot, f)
#define USAGE(f) offsetof(struct mpib_usage, f)
#define MOVED(f) offsetof(struct mpib_rail_counts, f)
/* From the lists of engine/measure/counters.h. */
#define MOVED_ON_RAIL(f, key, name, unit, help)                                \
	COUNTER(name, unit, rail_u64, RAIL(n.f), help),
#define OF_RAIL(f, key, name, unit, help)                                      \
	COUNTER(name, unit, rail_u64, RAIL(f), help),
#define OF_THREAD(f, key, name, unit, help)                                    \
	COUNTER(name, unit, thread_u64, offsetof(struct mpib_snap_shard, f),   \
		help),
#define NO_METRIC(f, key, what)

const struct mpib_family mpib_families[] = {
	INFO("build", families_build,
	     "Version of the proxy and of its client ABI."),
	GAUGE("uptime_seconds", "seconds", families_uptime, 0,
	      "Time since the proxy began to serve."),
	COUNTER("upgrades", NULL, families_upgrades, 0,
		"Live upgrades since a proxy was started; 0 after a restart."),

	INFO("rail", rail_info, "Device behind each rail."),
	GAUGE("rail_up", NULL, rail_flag, RAIL(up),
	      "1 when the rail's port is active."),
	GAUGE("rail_drained", NULL, rail_flag, RAIL(drained),
	      "1 when no new payload is put on the rail."),
	GAUGE("rail_standby", NULL, rail_standby, 0,
	      "1 when the rail has payload only while SOUT is out."),
	GAUGE("rail_speed_bytes_per_second", NULL, rail_speed, 0,
	      "Rated speed of the rail's port, 0 when it is not known."),
	GAUGE("rail_expected_bytes_per_second", NULL, rail_expected, 0,
	      "What hca.speed says, 0 where it says nothing."),
	/* clang-format off */
	MPIB_MOVED_COUNTERS(MOVED_ON_RAIL, NO_METRIC)
	MPIB_RAIL_COUNTERS(OF_RAIL, NO_METRIC)
	/* clang-format on */
	GAUGE("srq_free", NULL, rail_u32, RAIL(srq_posted),
	      "Receives that wait in the rail's shared receive queues."),
	COUNTER("rail_failovers", NULL, mpib_fill_failovers, 0,
		"Lanes that were moved off the rail, by cause."),
	COUNTER("rail_failover_seconds", "seconds", mpib_fill_failover_seconds,
		0, "Time that this took."),
	GAUGE("rail_queue_pairs", NULL, rail_u32, RAIL(qps),
	      "Queue pairs that exist."),

	GAUGE("lanes", NULL, snap_u32, SNAP(lanes), "Lanes to peers."),
	GAUGE("lanes_broken", NULL, broken_lanes, 0,
	      "Lanes whose connections fail."),
	GAUGE("connections", NULL, snap_u32, SNAP(conns), "Open connections."),
	GAUGE("connections_broken", NULL, broken_connections, 0,
	      "Open connections that failed."),
	GAUGE("requests_outstanding", NULL, families_outstanding, 0,
	      "Requests that wait to be done."),
	GAUGE("oldest_request_seconds", "seconds", mpib_fill_oldest_request, 0,
	      "Age of the request that waits longest."),
	HISTOGRAM("request_seconds", mpib_fill_request_seconds,
		  "Time from a request's submission to its completion."),
	HISTOGRAM("rail_completion_seconds", mpib_fill_completion_seconds,
		  "Time from a post to its completion."),

	GAUGE("clients", NULL, usage_u32, USAGE(attached),
	      "Processes attached."),
	GAUGE("clients_leaving", NULL, usage_u32, USAGE(leaving),
	      "Processes that are gone and whose memory is being fenced."),
	GAUGE("regions", NULL, usage_u32, USAGE(regions),
	      "Memory regions registered."),
	GAUGE("registered_bytes", "bytes", usage_u64, USAGE(registered),
	      "Memory registered for clients."),
	GAUGE("mapped_bytes", "bytes", usage_u64, USAGE(mapped),
	      "Memory of clients that the proxy maps."),
	COUNTER("rejected", NULL, families_rejected, 0,
		"Clients, requests and arrivals that were refused."),
	GAUGE("limit_used_ratio", "ratio", mpib_fill_limits, 0,
	      "Share of a limit that is used; of memory and regions, by the "
	      "client that uses most."),
	GAUGE("quota_used_ratio", "ratio", mpib_fill_quotas, 0,
	      "Share of a user's quota that is used."),

	/* clang-format off */
	MPIB_SHARD_COUNTERS(OF_THREAD)
	/* clang-format on */
	GAUGE("poll_busy_ratio", "ratio", thread_busy, 0,
	      "Share of its time since the start in which it moved something."),
	COUNTER("poll_seconds", "seconds", mpib_fill_thread_seconds, 0,
		"Time of a progress thread."),

	INFO("client", client_info, "Process behind a client's number."),
	COUNTER("client_tx_bytes", "bytes", client_rail, MOVED(tx_bytes),
		"Payload sent by a client."),
	COUNTER("client_rx_bytes", "bytes", client_rail, MOVED(rx_bytes),
		"Payload received by a client."),
	GAUGE("client_weight", NULL, client_weight, 0,
	      "Weight of a client among those of its user."),
	COUNTER("client_limited", NULL, client_limited, 0,
		"Times that a limit held a client back."),
	GAUGE("client_connections", NULL, client_connections, 0,
	      "Open connections of a client."),
	GAUGE("client_registered_bytes", "bytes", client_registered, 0,
	      "Memory registered for a client."),
	HISTOGRAM("client_request_seconds", mpib_fill_client_seconds,
		  "Time from the submission of a client's request to its "
		  "completion."),
};

const unsigned mpib_family_count =
	sizeof(mpib_families) / sizeof(mpib_families[0]);
