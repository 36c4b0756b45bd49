/* SPDX-License-Identifier: Apache-2.0 */
/* Sequence numbers of fragments: the receiver's window, the sender's span. */
#include "vqp/seq.h"

#include <errno.h>

int mpib_seq_arrived(struct mpib_seq *s, uint32_t seq, uint8_t part,
		     uint8_t all, bool last, uint32_t bytes)
{
	uint32_t ahead = (seq + MPIB_SEQ_MOD - s->next) % MPIB_SEQ_MOD;
	struct mpib_seq_entry *e;

	if (seq >= MPIB_SEQ_MOD || !part || part & ~all)
		return -EPROTO;
	if (ahead >= MPIB_SEQ_MOD - MPIB_SEQ_WINDOW) {
		s->late++;
		return 0;
	}
	e = &s->window[(s->at + ahead) % MPIB_SEQ_WINDOW];
	if (ahead >= MPIB_SEQ_WINDOW || (e->all && e->all != all))
		return -EPROTO;
	if (e->parts & part) {
		s->late++;
		return 0;
	}
	e->parts |= part;
	e->all = all;
	e->last = last;
	e->bytes += bytes;
	return 1;
}

bool mpib_seq_take(struct mpib_seq *s, bool *last, uint32_t *bytes)
{
	struct mpib_seq_entry *e = &s->window[s->at];

	if (!e->all || e->parts != e->all)
		return false;
	*last = e->last;
	*bytes = e->bytes;
	*e = (struct mpib_seq_entry){ 0 };
	s->next = mpib_seq_next(s->next);
	s->at = (s->at + 1) % MPIB_SEQ_WINDOW;
	return true;
}

/* Return the answered bit at index at, and clear it for the bit's next use. */
static bool take_answer(struct mpib_seq_sent *s, uint32_t at)
{
	uint64_t *word = &s->answered[at / 64], bit = 1ull << at % 64;
	bool answered = *word & bit;

	*word &= ~bit;
	return answered;
}

void mpib_seq_answered(struct mpib_seq_sent *s, uint32_t seq)
{
	uint32_t i = s->at + (seq + MPIB_SEQ_MOD - s->oldest) % MPIB_SEQ_MOD;

	i %= MPIB_SEQ_SPAN;
	s->answered[i / 64] |= 1ull << i % 64;
	while (s->oldest != s->next && take_answer(s, s->at)) {
		s->oldest = mpib_seq_next(s->oldest);
		s->at = (s->at + 1) % MPIB_SEQ_SPAN;
	}
}
