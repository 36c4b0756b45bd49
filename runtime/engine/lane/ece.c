/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Enhanced connection establishment (ECE): vendor options of a QP, such as
 * congestion control, that both ends must share. The lane's opener offers the
 * options of its QPs; the acceptor sets them before RTR and answers with those
 * that its QPs have after RTR, which the opener sets in turn. If one end has no
 * ECE, neither end sets any. Those of the software HCA are what its QPs know each
 * other by, and are set whatever qp.ece says. Control thread.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "engine/lane/lane.h"

static bool ece_wanted(const struct mpib_shard *s, unsigned rail)
{
	return s->engine->cfg.ece || s->rail[rail].verbs->ece_proves;
}

void mpib_ece_offer(const struct mpib_lane *lane, unsigned rail,
		    struct mpib_lane_rail_info *info)
{
	const struct mpib_verbs *v = lane->shard->rail[rail].verbs;

	info->ece = ece_wanted(lane->shard, rail);
	for (unsigned i = 0; info->ece && i < lane->qps[rail]; i++) {
		const struct mpib_lane_qp *q = &lane->qp[rail][i];
		struct ibv_ece ece = { 0 };

		if (!q->qp || q->no_ece || v->query_ece(q->qp, &ece) < 0) {
			info->ece = false;
			return;
		}
		info->ece_vendor[i] = ece.vendor_id;
		info->ece_options[i] = ece.options;
	}
}

void mpib_ece_take(struct mpib_lane_qp *q,
		   const struct mpib_lane_rail_info *remote, unsigned i)
{
	const struct mpib_shard *s = q->lane->shard;
	struct ibv_ece ece = { .vendor_id = remote->ece_vendor[i],
			       .options = remote->ece_options[i] };
	int rc;

	q->no_ece = true;
	if (!ece_wanted(s, q->rail) || !remote->ece)
		return;
	rc = s->rail[q->rail].verbs->set_ece(q->qp, &ece);
	q->no_ece = rc < 0;
	/* The options may be another vendor's: the QP goes without. */
	if (rc < 0)
		mpib_debug("rail %u: QP 0x%x goes without ECE: %s", q->rail,
			   q->qpn, strerror(-rc));
}
