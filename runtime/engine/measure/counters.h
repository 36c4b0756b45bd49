/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of all counters. The structs of a snapshot, their sums, the JSON of the
 * stats socket and the metrics are generated from these lists.
 *
 * M(field, key, metric, help): a counter that is also a metric.
 * X(field, key, what): any other counter. `key` is the counter's name in
 * JSON.
 */
#ifndef MPIB_ENGINE_COUNTERS_H
#define MPIB_ENGINE_COUNTERS_H

/* Payload and WRs on one rail, counted for a connection, a lane, a client or
 * the whole rail. The JSON of a rail uses the field's name instead of `key`. If
 * a stripe is spread over several QPs, its WRs are counted when the virtual QP
 * gets them. */
#define MPIB_MOVED_COUNTERS(M, X)                                              \
	M(tx_bytes, "tx_bytes", "rail_tx_bytes", "Payload sent.")              \
	M(rx_bytes, "rx_bytes", "rail_rx_bytes", "Payload received.")          \
	M(tx_wrs, "wrs", "rail_work_requests",                                 \
	  "Send work requests posted, including control writes.")              \
	M(rx_imms, "imms", "rail_messages",                                    \
	  "Messages, or parts of messages, that arrived.")                     \
	M(cts, "cts", "rail_clear_to_sends", "Clear-to-send writes posted.")   \
	X(posts, "posts", "chains posted")                                     \
	X(tx_imms, "tx_imms", "WRITE_WITH_IMM posted; each ends a slot")       \
	X(tx_cqes, "tx_cqes", "send completions")                              \
	X(replays, "replays", "stripes posted again by replay")                \
	M(replayed_bytes, "replayed_bytes", "replayed_bytes",                  \
	  "Payload sent again after a failure.")

/* Counters of a rail only. */
#define MPIB_RAIL_COUNTERS(M, X)                                               \
	M(cqes, "cqes", "rail_completions",                                    \
	  "Completions taken from the rail's queues.")                         \
	M(cqe_errors, "cqe_errors", "rail_completion_errors",                  \
	  "Completions with an error.")                                        \
	M(posts, "posts", "rail_posts",                                        \
	  "Calls of ibv_post_send(), each with a list of work requests.")      \
	M(srq_refills, "srq_refills", "rail_srq_refills",                      \
	  "Refills of the shared receive queue.")                              \
	M(srq_limits, "srq_limits", "rail_srq_limits",                         \
	  "Times the device found a shared receive queue nearly empty.")       \
	M(stale_imms, "stale_imms", "stale_chunks",                            \
	  "Arrivals dropped because they were sent before a fence.")           \
	X(bad_imms, "bad_imms",                                                \
	  "IMMs that match no QP, connection or receive")                      \
	M(downs, "downs", "rail_downs", "Times the rail's port went down.")    \
	X(failovers, "failovers", "fences of the rail, summed over its lanes")

/* Stripes lost when a rail was fenced at both ends, summed over its lanes. For
 * each rail, tx_bytes - lost_bytes of the sender equals rx_bytes of the
 * receiver. */
#define MPIB_FAILOVER_COUNTERS(X)                                              \
	X(failbacks, "failbacks", "times that traffic returned to the rail")   \
	X(lost_bytes, "lost_bytes", "payload of the lost stripes")             \
	X(lost_stripes, "lost_stripes", "stripes lost by this rail")           \
	X(acked_stripes, "acked_stripes",                                      \
	  "lost stripes that the rail had acknowledged")

/* Counters of a shard. The metrics call a shard a thread. */
#define MPIB_SHARD_COUNTERS(M)                                                 \
	M(turns, "turns", "poll_turns", "Turns of a progress thread.")         \
	M(busy_turns, "busy_turns", "poll_busy_turns",                         \
	  "Turns in which there was something to do.")                         \
	M(sleeps, "sleeps", "poll_sleeps",                                     \
	  "Times a progress thread went to sleep.")

/* Times of a shard. */
#define MPIB_SHARD_TIMES(X)                                                    \
	X(busy_ns, "time in turns that found work")                            \
	X(idle_ns, "time in turns that found no work, and asleep")             \
	X(slept_ns, "part of idle_ns: time asleep")

/* Arguments of the lists: declare the fields of a struct, add them, subtract
 * them. */
#define MPIB_COUNTER_FIELD(field, ...) uint64_t field;
#define MPIB_COUNTER_ADD(field, ...) sum->field += n->field;
#define MPIB_COUNTER_SUB(field, ...) sum->field -= n->field;

#endif
