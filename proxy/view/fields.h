/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of the views: what several of them show the same way. */
#ifndef MPIB_PROXY_VIEW_FIELDS_H
#define MPIB_PROXY_VIEW_FIELDS_H

#include "view/view.h"

json_t *mpib_field_u64(uint64_t n);
/* {"sout": n, "sup": n} of the rails there are. */
json_t *mpib_field_by_rail(const struct mpib_view *v, const uint64_t *n);
json_t *mpib_field_by_rail_u32(const struct mpib_view *v, const uint32_t *n);
/* A rank, null when it is not known. */
json_t *mpib_field_rank(int32_t rank);
/* A job as people write it, since JSON has no 64 bits without a sign. */
json_t *mpib_field_job(uint64_t job);
/* Payload and work by rail: tx_bytes, rx_bytes, ... */
void mpib_field_counts(json_t *o, const struct mpib_view *v,
		       const struct mpib_rail_counts *n);

#endif
