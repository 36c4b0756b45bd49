/* SPDX-License-Identifier: Apache-2.0 */
#include "handover/base.h"

void mpib_base_parcel(struct mpib_parcel *p, struct mpib_base *b)
{
	mpib_parcel_mark(p, "base");
	mpib_parcel_u32(p, &b->abi);
	mpib_parcel_u32(p, &b->rails);
	mpib_parcel_text(p, b->run_dir, sizeof(b->run_dir));
	mpib_parcel_text(p, b->peer_link, sizeof(b->peer_link));
	mpib_parcel_fd(p, &b->heirloom.status);
	mpib_parcel_count(p, &b->heirloom.shards, MPIB_SHARDS_MAX);
	for (unsigned i = 0; i < b->heirloom.shards; i++)
		mpib_parcel_fd(p, &b->heirloom.doorbell[i]);
	mpib_parcel_fd(p, &b->control);
	mpib_parcel_fd(p, &b->stats);
	mpib_parcel_fd(p, &b->metrics);
	mpib_parcel_fd(p, &b->lock);
	mpib_parcel_fd(p, &b->guard);
	mpib_parcel_bool(p, &b->activated);
	mpib_parcel_bool(p, &b->made);
	mpib_parcel_u32(p, &b->upgrades);
	mpib_parcel_u32(p, &b->readopted);
	mpib_parcel_count(p, &b->lost, (1u << MPIB_RAILS) - 1);
}
