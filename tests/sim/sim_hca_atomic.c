/* SPDX-License-Identifier: Apache-2.0 */
/* Compare-and-swap and fetch-and-add. */
#include <string.h>

#include "sim_hca.h"

/* The answer takes 8 bytes of the pieces. */
void sim_atomic_fill(struct sim_wqe *w, const struct ibv_send_wr *wr)
{
	if (w->len < sizeof(uint64_t))
		w->status = IBV_WC_LOC_LEN_ERR;
	w->len = sizeof(uint64_t);
	w->raddr = wr->wr.atomic.remote_addr;
	w->rkey = wr->wr.atomic.rkey;
	w->compare_add = wr->wr.atomic.compare_add;
	w->swap = wr->wr.atomic.swap;
}

void sim_atomic_do(const struct sim_wqe *w, uint8_t *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	if (w->op == IBV_WR_ATOMIC_FETCH_AND_ADD)
		word += w->compare_add;
	else if (word == w->compare_add)
		word = w->swap;
	memcpy(at, &word, sizeof(word));
}
