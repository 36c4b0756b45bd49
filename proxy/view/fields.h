/* SPDX-License-Identifier: Apache-2.0 */
/* JSON fields that several views share. Private to view/. */
#ifndef MPIB_PROXY_VIEW_FIELDS_H
#define MPIB_PROXY_VIEW_FIELDS_H

#include "engine/measure/snapshot.h"
#include "view/view.h"

/* The key of a rail: "sout", "sup". */
extern const char *const mpib_rail_key[MPIB_RAILS];

/* Make a string from an untrusted text, with a "?" for each byte that is not
 * UTF-8. */
json_t *mpib_field_text(const char *text);
json_t *mpib_field_u64(uint64_t n);
/* Return the name of a shard's device. */
json_t *mpib_field_net(const struct mpib_view *v, unsigned shard);
/* Return {"sout": n, "sup": n}, with the rails that the proxy has. */
json_t *mpib_field_by_rail(const struct mpib_view *v, const uint64_t *n);
json_t *mpib_field_by_rail_u32(const struct mpib_view *v, const uint32_t *n);
/* Return a rank; JSON null if it is unknown (negative). */
json_t *mpib_field_rank(int32_t rank);
/* Return a job id as a hex string, since JSON integers here have 63 bits. */
json_t *mpib_field_job(uint64_t job);
/* Add the counters n to o: tx_bytes, rx_bytes, ... Each is an object with a
 * number per rail. */
void mpib_field_counts(json_t *o, const struct mpib_view *v,
		       const struct mpib_rail_counts *n);

/* Return item i of a list, or NULL if `arg` excludes it. */
typedef json_t *mpib_view_item_fn(const struct mpib_view *v, uint64_t arg,
				  uint32_t i);
/* Write the next items of a list of n items to the part. */
void mpib_view_list(const struct mpib_view *v, uint64_t arg, uint32_t n,
		    mpib_view_item_fn *item, struct mpib_view_part *part);

/*
 * Sums over a snapshot, for JSON and metrics. The bytes of open and closed
 * connections add up to the bytes of the rails. Any thread that owns the
 * snapshot may call these functions.
 */

/* Sums of one client; all zero if the snapshot does not have the client. */
struct mpib_client_sums {
	uint32_t connections; /* open connections */
	uint64_t messages; /* of open and closed connections */
	uint64_t limited; /* rounds in which a limit delayed the client */
	struct mpib_rail_counts n[MPIB_RAILS]; /* of open and closed ones */
};

/* Add n to `sum`, on both rails. */
void mpib_sums_add(struct mpib_rail_counts *sum,
		   const struct mpib_rail_counts *n);
/* Return the sums of all clients of the snapshot; NULL: no memory. The snapshot
 * must outlive the sums. */
struct mpib_sums;
struct mpib_sums *mpib_sums_all(const struct mpib_snapshot *snap);
const struct mpib_client_sums *mpib_sums_get(const struct mpib_sums *all,
					     uint32_t client);
void mpib_sums_free(struct mpib_sums *all);
/* Return the counts of all closed connections, also of clients that left. */
void mpib_sums_closed(const struct mpib_snapshot *snap,
		      struct mpib_rail_counts *closed);

#endif
