/* SPDX-License-Identifier: Apache-2.0 */
/* JSON fields that several views have in common. Private to view/. */
#ifndef MPIB_PROXY_VIEW_FIELDS_H
#define MPIB_PROXY_VIEW_FIELDS_H

#include "view/view.h"

/* Text from outside, with a "?" for each byte that is not UTF-8. */
json_t *mpib_field_text(const char *text);
json_t *mpib_field_u64(uint64_t n);
/* The name of a shard's device. */
json_t *mpib_field_net(const struct mpib_view *v, unsigned shard);
/* {"sout": n, "sup": n}, with the rails that the proxy has. */
json_t *mpib_field_by_rail(const struct mpib_view *v, const uint64_t *n);
json_t *mpib_field_by_rail_u32(const struct mpib_view *v, const uint32_t *n);
/* A rank; JSON null when it is unknown (negative). */
json_t *mpib_field_rank(int32_t rank);
/* A job id as a string in hex, since JSON integers here have 63 bits. */
json_t *mpib_field_job(uint64_t job);
/* Add the counters n to o, each by rail: tx_bytes, rx_bytes, ... */
void mpib_field_counts(json_t *o, const struct mpib_view *v,
		       const struct mpib_rail_counts *n);

#endif
