/* SPDX-License-Identifier: Apache-2.0 */
/* All metrics: fields of the JSON of the proxy, its rails, threads and clients. */
#include "metrics/openmetrics.h"

#define COUNTER(name, unit, help, path)                                        \
	{                                                                      \
		name, MPIB_FAMILY_COUNTER, unit, help, path, NULL, 0, NULL     \
	}
#define COUNTER_BY(name, unit, help, path, by)                                 \
	{                                                                      \
		name, MPIB_FAMILY_COUNTER, unit, help, path, by, 0, NULL       \
	}
#define GAUGE(name, unit, help, path)                                          \
	{                                                                      \
		name, MPIB_FAMILY_GAUGE, unit, help, path, NULL, 0, NULL       \
	}
#define GAUGE_BY(name, unit, help, path, by)                                   \
	{                                                                      \
		name, MPIB_FAMILY_GAUGE, unit, help, path, by, 0, NULL         \
	}
/* From Mb/s. */
#define SPEED(name, help, path)                                                \
	{                                                                      \
		name, MPIB_FAMILY_GAUGE, NULL, help, path, NULL, 125000, NULL  \
	}
#define INFO(name, help, labels)                                               \
	{                                                                      \
		name, MPIB_FAMILY_INFO, NULL, help, labels, NULL, 0, NULL      \
	}
/* From the lists of engine/measure/counters.h. */
#define MOVED(f, key, name, unit, help) COUNTER(name, unit, help, #f),
#define COUNTED(f, key, name, unit, help) COUNTER(name, unit, help, key),
#define NO_METRIC(f, key, what)

/* clang-format off */
static const struct mpib_family of_proxy[] = {
	INFO("build", "Version of the proxy and of its client ABI.",
	     "version abi"),
	GAUGE("uptime_seconds", "seconds",
	      "Time since the proxy began to serve.", "uptime_s"),
	GAUGE("lanes", NULL, "Lanes to peers.", "lanes"),
	GAUGE("lanes_broken", NULL, "Lanes whose connections fail.",
	      "broken_lanes"),
	GAUGE("connections", NULL, "Open connections.", "connections"),
	GAUGE("connections_broken", NULL, "Open connections that failed.",
	      "broken_connections"),
	GAUGE("requests_outstanding", NULL, "Requests that wait to be done.",
	      "outstanding"),
	GAUGE("oldest_request_seconds", "seconds",
	      "Age of the request that waits longest.", "oldest_s"),
	GAUGE("clients", NULL, "Processes attached.", "clients"),
	GAUGE("clients_leaving", NULL,
	      "Processes that are gone and whose memory is being fenced.",
	      "usage.leaving"),
	GAUGE("regions", NULL, "Memory regions registered.", "usage.regions"),
	GAUGE("registered_bytes", "bytes", "Memory registered for clients.",
	      "usage.registered_bytes"),
	GAUGE("mapped_bytes", "bytes",
	      "Memory of clients that the proxy maps.", "usage.mapped_bytes"),
	COUNTER_BY("rejected", NULL,
		   "Clients, requests and arrivals that were refused.",
		   "rejected", "reason"),
	GAUGE_BY("limit_used_ratio", "ratio",
		 "Share of a limit that is used; of memory and regions, by the "
		 "client that uses most.", "limits_used", "resource"),
	{ 0 },
};

static const struct mpib_family of_rails[] = {
	INFO("rail", "Device behind each rail.", "device provider"),
	GAUGE("rail_up", NULL, "1 when the rail's port is active.", "up"),
	GAUGE("rail_drained", NULL,
	      "1 when no new payload is put on the rail.", "drained"),
	GAUGE("rail_standby", NULL,
	      "1 when the rail has payload only while SOUT is out.", "standby"),
	SPEED("rail_speed_bytes_per_second",
	      "Rated speed of the rail's port, 0 when it is not known.",
	      "speed_mbps"),
	SPEED("rail_expected_bytes_per_second",
	      "What hca.speed says, 0 where it says nothing.", "expected_mbps"),
	MPIB_MOVED_COUNTERS(MOVED, NO_METRIC)
	MPIB_RAIL_COUNTERS(COUNTED, NO_METRIC)
	GAUGE("srq_free", NULL,
	      "Receives that wait in the rail's shared receive queues.",
	      "srq_posted"),
	COUNTER_BY("rail_failovers", NULL,
		   "Lanes that were moved off the rail, by cause.",
		   "failover.causes", "cause"),
	COUNTER("rail_failover_seconds", "seconds", "Time that this took.",
		"failover_s"),
	GAUGE("rail_queue_pairs", NULL, "Queue pairs that exist.", "qps"),
	{ 0 },
};

static const struct mpib_family of_shards[] = {
	MPIB_SHARD_COUNTERS(COUNTED)
	GAUGE("poll_busy_ratio", "ratio",
	      "Share of its time since the start in which it moved something.",
	      "busy"),
	COUNTER_BY("poll_seconds", "seconds", "Time of a progress thread.",
		   "time_s", "state"),
	{ 0 },
};

static const struct mpib_family of_clients[] = {
	INFO("client", "Process behind a client's number.", "pid name"),
	COUNTER_BY("client_tx_bytes", "bytes", "Payload sent by a client.",
		   "tx_bytes", "rail"),
	COUNTER_BY("client_rx_bytes", "bytes", "Payload received by a client.",
		   "rx_bytes", "rail"),
	GAUGE("client_weight", NULL,
	      "Weight of a client among those of its user.", "share.weight"),
	COUNTER("client_limited", NULL,
		"Times that a limit held a client back.", "share.limited"),
	GAUGE("client_connections", NULL, "Open connections of a client.",
	      "connections"),
	GAUGE("client_registered_bytes", "bytes",
	      "Memory registered for a client.", "registered_bytes"),
	{ 0 },
};
/* clang-format on */

static json_t *first_clients(const struct mpib_view *v)
{
	return mpib_view_clients_first(v, MPIB_METRICS_CLIENTS);
}

const struct mpib_noun mpib_nouns[] = {
	{ mpib_view_info, of_proxy, { { 0 } } },
	{ mpib_view_rails_quick,
	  of_rails,
	  { { "rail", "name" }, { "net", "net" } } },
	{ mpib_view_shards, of_shards, { { "thread", "shard" } } },
	{ first_clients, of_clients, { { "client", "id" }, { "uid", "uid" } } },
	{ NULL, mpib_filled_families, { { 0 } } },
	{ 0 },
};
