/* SPDX-License-Identifier: Apache-2.0 */
#include "base/waking.h"

#include <time.h>

#include "base/clock.h"

/* What a call takes of itself, with all that may come between; a user's calls may
 * take so much more at once, and a twentieth of the time. */
#define FREE_NS 200000u
#define MOST_NS 20000000u
#define PART 20

/* Who made this thread work; the one that did it least lately makes room. */
static struct waking_user {
	uid_t user;
	uint64_t took_ns,
		at_ns; /* took_ns is less by a PART of the time since */
} users[64];

uint64_t mpib_waking_begin(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct waking_user *waking_user_of(uid_t user)
{
	struct waking_user *oldest = users;

	for (unsigned i = 0; i < sizeof(users) / sizeof(users[0]); i++) {
		if (users[i].at_ns && users[i].user == user)
			return &users[i];
		if (users[i].at_ns < oldest->at_ns)
			oldest = &users[i];
	}
	*oldest = (struct waking_user){ .user = user };
	return oldest;
}

bool mpib_waking_end(uid_t user, uint64_t began_ns)
{
	uint64_t took = mpib_waking_begin() - began_ns, now, over;
	struct waking_user *u;

	if (took <= FREE_NS)
		return true;
	now = mpib_now_ns();
	u = waking_user_of(user);
	over = (now - u->at_ns) / PART;
	u->took_ns = took + (u->took_ns > over ? u->took_ns - over : 0);
	u->at_ns = now;
	return u->took_ns <= MOST_NS;
}
