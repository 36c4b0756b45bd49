/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether something should be divided, above a crossover size that is measured:
 * a rail's part of a send op over several QPs instead of one (spread.h, per
 * lane and rail), a send op over both rails instead of one (adapt.h, per lane).
 * "Spread" stands for either here.
 *
 * The cost of either way is the time from post to acknowledgement divided by
 * the bytes that were acknowledged in it, those of the part included: on an idle
 * rail that is the part's latency, on a busy rail the inverse of the rail's
 * rate. All sizes
 * between two powers of two form a class with a smoothed cost for each way. The
 * first parts of a class go either way by turns, and later now and then a part
 * goes the dearer way, so that both costs stay known. The crossover is the
 * smallest class from which on every class with known costs is cheaper when
 * spread. Until then nothing is spread but those first parts.
 *
 * Shard thread, integers only; the caller passes times.
 */
#ifndef MPIB_ENGINE_CHOICE_H
#define MPIB_ENGINE_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#define MPIB_CHOICE_CLASSES 32
#define MPIB_CHOICE_FIRST 8u /* parts that go either way by turns */
#define MPIB_CHOICE_TRY                                                        \
	32u /* at most one part in this many goes the dearer
				way, fewer where that is much dearer */

struct mpib_choice {
	uint32_t above; /* parts longer than this are spread */
	uint32_t margin;
	struct mpib_choice_class {
		uint64_t cost[2]; /* by spread: ns per MiB, 0: not known */
		uint32_t parts; /* posted, either way */
		uint32_t tried; /* parts when one last went the dearer way */
		bool spread; /* spreading is cheaper */
	} class[MPIB_CHOICE_CLASSES];
};

/* A way is taken for the cheaper one when it is so by more than one part in
 * margin: measured costs are never quite the same. */
void mpib_choice_init(struct mpib_choice *c, uint32_t margin);
/* Whether to spread the next part of this size. Repeated calls return the same
 * until mpib_choice_posted(). */
bool mpib_choice_spread(const struct mpib_choice *c, uint32_t bytes);
/* A part of this size was posted. mpib_choice_note() follows unless the part
 * is lost. */
void mpib_choice_posted(struct mpib_choice *c, uint32_t bytes);
/* A part was acknowledged ns after its post, with so many bytes of others. */
void mpib_choice_note(struct mpib_choice *c, uint32_t bytes, bool spread,
		      uint64_t ns, uint64_t others);

#endif
