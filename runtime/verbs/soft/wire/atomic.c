/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The responder of compare-and-swap and fetch-and-add. An atomic is done once,
 * however often its request comes: the value that was there before is kept, and
 * answers the request when it comes again after a broken connection. Threads
 * and other devices of the machine see it done at once, as it is one
 * instruction of the CPU.
 */
#include "verbs/soft/wire/rc.h"

#include "base/bus.h"
#include "verbs/soft/mr.h"
#include "verbs/soft/qp.h"
#include "verbs/soft/wire/wire.h"

static uint64_t *word_of(struct soft_qp *qp)
{
	const struct soft_hdr *h = &qp->rx;

	return (uint64_t *)(void *)soft_mr_remote(qp->ctx, qp->pd, h->rkey,
						  h->addr, SOFT_WORD,
						  IBV_ACCESS_REMOTE_ATOMIC);
}

/* The word, if the request may touch it; else it was refused. An address that
 * is aligned for the peer may lie elsewhere in this process. */
static uint64_t *permitted_word(struct soft_qp *qp)
{
	uint64_t *word = word_of(qp);

	if (!word) {
		soft_rx_refuse(qp, SOFT_NAK_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
		return NULL;
	}
	if (qp->rx.addr % SOFT_WORD || (uintptr_t)word % SOFT_WORD) {
		soft_rx_refuse(qp, SOFT_NAK_INVALID, IBV_EVENT_QP_REQ_ERR);
		return NULL;
	}
	return word;
}

void soft_atomic_begin(struct soft_qp *qp)
{
	if (soft_rx_permits(qp, IBV_ACCESS_REMOTE_ATOMIC) &&
	    soft_rx_may_answer(qp) && permitted_word(qp))
		qp->place = SOFT_PLACE_ATOMIC;
}

static uint64_t execute(const struct soft_qp *qp, uint64_t *word)
{
	uint64_t first = soft_get64(qp->operands);
	uint64_t was;

	mpib_bus_begin(word, word, sizeof(*word));
	if (qp->rx.op == SOFT_OP_ADD) {
		was = __atomic_fetch_add(word, first, __ATOMIC_SEQ_CST);
	} else {
		was = first;
		__atomic_compare_exchange_n(
			word, &was, soft_get64(qp->operands + SOFT_WORD), false,
			__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	}
	mpib_bus_end();
	return was;
}

/* The request was done before, and its answer was lost. */
static void answer_again(struct soft_qp *qp)
{
	uint32_t n = qp->natomics < SOFT_MAX_RD ? qp->natomics : SOFT_MAX_RD;

	for (uint32_t i = 0; i < n; i++) {
		if (qp->atomics[i].msn != qp->rx.msn)
			continue;
		if (!soft_rx_may_answer(qp))
			return;
		qp->rx.imm = i;
		soft_rx_answer(qp, SOFT_WORD);
		return;
	}
	/* So old that the peer has had its answer. */
	soft_rx_refuse(qp, SOFT_NAK_INVALID, IBV_EVENT_QP_REQ_ERR);
}

/* Not before all of it has come, though a repeated one's operands do not matter:
 * the peer awaits no answer to what it has sent in part. */
void soft_atomic_end(struct soft_qp *qp)
{
	struct soft_atomic *a = &qp->atomics[qp->natomics % SOFT_MAX_RD];
	uint64_t *word, was;

	if (qp->rx.msn != qp->rx_msn) {
		answer_again(qp);
		return;
	}
	/* The region may have gone while the operands came. */
	word = permitted_word(qp);
	if (!word)
		return;
	was = execute(qp, word);
	a->msn = qp->rx.msn;
	memcpy(a->was, &was, sizeof(was));
	qp->rx.imm = qp->natomics++ % SOFT_MAX_RD;
	qp->rx_msn++;
	soft_rx_answer(qp, SOFT_WORD);
}

uint8_t *soft_atomic_result(struct soft_qp *qp, const struct soft_hdr *req)
{
	return qp->atomics[req->imm % SOFT_MAX_RD].was;
}
