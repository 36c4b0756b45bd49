/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether to spread a part over QPs: see choice.h. Shard thread.
 */
#include "engine/split/choice.h"

#define MIB (1u << 20)
#define COST 64
#define EVERY_MAX 1024u

static unsigned class_of(uint32_t bytes)
{
	return 31u - (unsigned)__builtin_clz(bytes | 1);
}

void mpib_choice_init(struct mpib_choice *c, uint32_t margin)
{
	*c = (struct mpib_choice){ .above = UINT32_MAX, .margin = margin };
}

/* After how many parts one goes the other way than usual: so many, where that is
 * dearer, that this takes no more than a part in COST of all time. */
static uint32_t choice_every(const struct mpib_choice_class *k, bool usual)
{
	uint64_t cheap = k->cost[usual], dear = k->cost[!usual];
	uint64_t every;

	if (!cheap || dear < cheap)
		return MPIB_CHOICE_TRY;
	every = (dear - cheap) * COST / cheap;
	if (every < MPIB_CHOICE_TRY)
		return MPIB_CHOICE_TRY;
	return every < EVERY_MAX ? (uint32_t)every : EVERY_MAX;
}

static bool is_try(const struct mpib_choice_class *k, bool usual)
{
	return k->parts - k->tried >= choice_every(k, usual) - 1;
}

/* One part each is enough where spreading is cheaper by a third. */
static bool choice_is_clear(const struct mpib_choice_class *k)
{
	return k->cost[0] && k->cost[1] && k->cost[1] < k->cost[0] / 3 * 2;
}

void mpib_choice_posted(struct mpib_choice *c, uint32_t bytes)
{
	struct mpib_choice_class *k = &c->class[class_of(bytes)];

	if (is_try(k, bytes > c->above))
		k->tried = k->parts + 1;
	k->parts++;
}

bool mpib_choice_spread(const struct mpib_choice *c, uint32_t bytes)
{
	const struct mpib_choice_class *k = &c->class[class_of(bytes)];
	bool spread = bytes > c->above;

	if (k->parts < MPIB_CHOICE_FIRST && !choice_is_clear(k))
		return k->parts % 2;
	return is_try(k, spread) ? !spread : spread;
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
		      uint64_t ns, uint64_t others)
{
	struct mpib_choice_class *k = &c->class[class_of(bytes)];
	uint64_t cost = 1 + ns * MIB / (others + bytes + 1);
	uint64_t *mine = &k->cost[spread];

	*mine = *mine ? (7 * *mine + cost + 7) / 8 : cost;
	if (!k->cost[0] || !k->cost[1])
		return;
	cost = k->cost[k->spread];
	if (k->cost[!k->spread] < cost - cost / c->margin)
		k->spread = !k->spread;
	choice_reckon(c);
}
