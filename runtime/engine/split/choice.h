/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a rail's part of a send op is worth spreading over QPs, by its size: a
 * crossover that is measured, per lane and rail.
 *
 * What a way costs is the time from post to acknowledgement over the bytes that
 * were in flight then, its own included: of an idle rail that is the latency of
 * the part, of a busy one the inverse of its rate. Sizes between two powers of
 * two are a class with a smoothed cost of either way; now and then a part goes
 * the other way, so that both stay known. The crossover is where the classes
 * begin of which all that are known are cheaper spread. Until something is
 * known nothing is spread.
 *
 * Shard thread, integers only, times as arguments.
 */
#ifndef MPIB_ENGINE_CHOICE_H
#define MPIB_ENGINE_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#define MPIB_CHOICE_CLASSES 32
#define MPIB_CHOICE_TRY 32u /* one part in so many goes the other way */

struct mpib_choice {
	uint32_t above; /* parts longer than that are spread */
	struct mpib_choice_class {
		uint64_t cost[2]; /* by spread: ns a MiB, 0: not known */
		uint32_t parts; /* that went a way */
		bool spread; /* cheaper so */
	} class[MPIB_CHOICE_CLASSES];
};

void mpib_choice_init(struct mpib_choice *c);
/* The way of the next part of so many bytes, however often it is asked for. */
bool mpib_choice_spread(const struct mpib_choice *c, uint32_t bytes);
/* Such a part was posted; it will be told of, or is lost. */
void mpib_choice_posted(struct mpib_choice *c, uint32_t bytes);
/* Such a part was acknowledged after ns; ahead of it were so many bytes. */
void mpib_choice_note(struct mpib_choice *c, uint32_t bytes, bool spread,
		      uint64_t ns, uint64_t ahead);

#endif
