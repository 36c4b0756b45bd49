/* SPDX-License-Identifier: Apache-2.0 */
#include "vqp/seq.h"

bool mpib_seq_arrived(struct mpib_seq *s, uint32_t seq, uint8_t part,
		      uint8_t all, bool last, uint32_t bytes)
{
	uint32_t ahead = (seq + MPIB_SEQ_MOD - s->next) % MPIB_SEQ_MOD;
	struct mpib_seq_entry *e;

	e = &s->window[(s->at + ahead) % MPIB_SEQ_WINDOW];
	if (seq >= MPIB_SEQ_MOD || ahead >= MPIB_SEQ_WINDOW || !part ||
	    part & ~all || (e->all && e->all != all) || e->parts & part) {
		s->late++;
		return false;
	}
	e->parts |= part;
	e->all = all;
	e->last = last;
	e->bytes += bytes;
	return true;
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
