/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether to spread a part over QPs: see choice.h. Shard thread.
 */
#include "engine/split/choice.h"

#define MIB (1u << 20)

static unsigned class_of(uint32_t bytes)
{
	return 31u - (unsigned)__builtin_clz(bytes | 1);
}

void mpib_choice_init(struct mpib_choice *c, uint32_t margin)
{
	*c = (struct mpib_choice){ .above = UINT32_MAX, .margin = margin };
}

void mpib_choice_posted(struct mpib_choice *c, uint32_t bytes)
{
	c->class[class_of(bytes)].parts++;
}

bool mpib_choice_spread(const struct mpib_choice *c, uint32_t bytes)
{
	const struct mpib_choice_class *k = &c->class[class_of(bytes)];
	bool spread = bytes > c->above;

	if (k->parts < MPIB_CHOICE_FIRST)
		return k->parts % 2;
	return k->parts % MPIB_CHOICE_TRY == MPIB_CHOICE_TRY - 1 ? !spread
								 : spread;
}

static void choice_reckon(struct mpib_choice *c)
{
	c->above = UINT32_MAX;
	for (unsigned i = MPIB_CHOICE_CLASSES; i-- > 0;) {
		const struct mpib_choice_class *k = &c->class[i];

		if (!k->cost[0] || !k->cost[1])
			continue;
		if (!k->spread)
			return;
		c->above = (1u << i) - 1;
	}
}

void mpib_choice_note(struct mpib_choice *c, uint32_t bytes, bool spread,
		      uint64_t ns, uint64_t ahead)
{
	struct mpib_choice_class *k = &c->class[class_of(bytes)];
	uint64_t cost = 1 + ns * MIB / (ahead + bytes + 1);
	uint64_t *mine = &k->cost[spread];

	*mine = *mine ? (7 * *mine + cost + 7) / 8 : cost;
	if (!k->cost[0] || !k->cost[1])
		return;
	cost = k->cost[k->spread];
	if (k->cost[!k->spread] < cost - cost / c->margin)
		k->spread = !k->spread;
	choice_reckon(c);
}
