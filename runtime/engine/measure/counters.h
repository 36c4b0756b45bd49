/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of every counter. The structs of a snapshot, their sums, the JSON of
 * the stats socket and the metrics are generated from these lists.
 *
 * M(field, key, metric, help): a counter that is also a metric.
 * X(field, key, what): any other counter. key is its name in JSON.
 */
#ifndef MPIB_ENGINE_COUNTERS_H
#define MPIB_ENGINE_COUNTERS_H

/* Payload and work on one rail, for a connection, a lane, a client or the whole
 * rail. A rail's own JSON uses the name of the field instead of key. WRs of a
 * spread part count when they are passed to the virtual QP. */
#define MPIB_MOVED_COUNTERS(M, X)                                              \
	M(tx_bytes, "tx_bytes", "rail_tx_bytes", "Payload sent.")              \
	M(rx_bytes, "rx_bytes", "rail_rx_bytes", "Payload received.")          \
	M(tx_wrs, "wrs", "rail_work_requests",                                 \
	  "Send work requests posted, those of control writes too.")           \
	M(rx_imms, "imms", "rail_messages",                                    \
	  "Messages, or parts of them, that arrived.")                         \
	M(cts, "cts", "rail_clear_to_sends", "Clear-to-send writes posted.")   \
	X(posts, "posts", "chains posted")                                     \
	X(tx_imms, "tx_imms", "WRITE_WITH_IMM posted: ends of slots")          \
	X(tx_cqes, "tx_cqes", "send completions")                              \
	X(replays, "replays", "stripes posted again by replay")                \
	M(replayed_bytes, "replayed_bytes", "replayed_bytes",                  \
	  "Payload sent again after a failure.")

/* Counters of a rail only. */
#define MPIB_RAIL_COUNTERS(M, X)                                               \
	M(cqes, "cqes", "rail_completions",                                    \
	  "Completions taken from the rail's queues.")                         \
	M(cqe_errors, "cqe_errors", "rail_completion_errors",                  \
	  "Completions that bore an error.")                                   \
	M(posts, "posts", "rail_posts",                                        \
	  "Calls of ibv_post_send(), each with a list of work requests.")      \
	M(srq_refills, "srq_refills", "rail_srq_refills",                      \
	  "Refills of the shared receive queue.")                              \
	M(srq_limits, "srq_limits", "rail_srq_limits",                         \
	  "Times the device found a shared receive queue nearly empty.")       \
	M(stale_imms, "stale_imms", "stale_chunks",                            \
	  "Arrivals of before a fence, which were dropped.")                   \
	X(bad_imms, "bad_imms", "arrivals that name nothing that is there")    \
	M(downs, "downs", "rail_downs", "Times the rail's port went down.")    \
	X(failovers, "failovers", "fences of the rail, of all lanes")

/* Stripes lost when a rail was fenced at both ends, summed over its lanes. The
 * sender's tx_bytes - lost_bytes of a rail equals the receiver's rx_bytes. */
#define MPIB_FAILOVER_COUNTERS(X)                                              \
	X(failbacks, "failbacks", "traffic uses the rail again")               \
	X(lost_bytes, "lost_bytes", "lost by this rail")                       \
	X(lost_stripes, "lost_stripes", "lost by this rail")                   \
	X(acked_stripes, "acked_stripes",                                      \
	  "of lost_stripes: acknowledged, but not seen by the receiver")

/* Counters of a shard, which metrics call a thread. */
#define MPIB_SHARD_COUNTERS(M)                                                 \
	M(turns, "turns", "poll_turns", "Turns of a progress thread.")         \
	M(busy_turns, "busy_turns", "poll_busy_turns",                         \
	  "Turns in which there was something to do.")                         \
	M(sleeps, "sleeps", "poll_sleeps",                                     \
	  "Times a progress thread went to sleep.")

/* Times of a shard. */
#define MPIB_SHARD_TIMES(X)                                                    \
	X(busy_ns, "turns that found work")                                    \
	X(idle_ns, "turns that found none, and sleep")                         \
	X(slept_ns, "of that: sleep")

/* For the fields of a struct, and for their sums. */
#define MPIB_COUNTER_FIELD(field, ...) uint64_t field;
#define MPIB_COUNTER_ADD(field, ...) sum->field += n->field;
#define MPIB_COUNTER_SUB(field, ...) sum->field -= n->field;

#endif
