/* SPDX-License-Identifier: Apache-2.0 */
/* Replay: fragments of failed QPs are posted again on the QPs left. */
#include <errno.h>

#include "vqp/internal.h"

/* Change only the keys of w, to those of the device that now carries it. */
static void replay_rekey(struct mpib_wr *w, const struct mpib_vwr *vw,
			 unsigned device)
{
	const struct mpib_vqp_head *head = &vw->wr.head;
	bool headed =
		head->length && w->wr.wr.rdma.remote_addr == vw->wr.remote;

	w->sge[headed].lkey = vw->wr.key[device].lkey;
	if (headed)
		w->sge[0].lkey = head->lkey[device];
	w->wr.wr.rdma.rkey = vw->wr.key[device].rkey;
}

int mpib_vqp_replay(struct mpib_vqp *vqp)
{
	struct mpib_vcq *vcq = vqp->vcq;
	struct mpib_wr *w;

	while ((w = STAILQ_FIRST(&vqp->lost))) {
		const struct mpib_vwr *vw = mpib_vqp_tx(vqp, w->owner);
		struct mpib_phys *p = mpib_vqp_pick(vqp);

		if (!p)
			return mpib_vqp_healthy(vqp) ? -EAGAIN : -ENETDOWN;
		STAILQ_REMOVE_HEAD(&vqp->lost, link);
		replay_rekey(w, vw, p->device);
		mpib_vqp_enqueue(p, w);
		vcq->counts.replayed++;
	}
	mpib_vqp_flush(vcq);
	return 0;
}
