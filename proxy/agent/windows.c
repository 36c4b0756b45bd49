/* SPDX-License-Identifier: Apache-2.0 */
/* The operator's list of maintenance. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/health.h"
#include "base/address.h"
#include "base/log.h"
#include "base/xalloc.h"

static bool windows_time(const char *text, uint64_t *s)
{
	struct tm tm = { 0 };
	const char *end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm);
	int day = tm.tm_mday;
	time_t t = timegm(&tm);

	*s = (uint64_t)t;
	/* timegm() makes another day of one that the month has not. */
	return end && !*end && t > 0 && tm.tm_mday == day;
}

static bool windows_peer(const char *text, struct mpib_network *net)
{
	memset(net, 0, sizeof(*net));
	if (!strcmp(text, "all") ||
	    mpib_network_parse(text, strlen(text), net) == 0)
		return true;
	net->bits = 128;
	return mpib_address_parse(text, &net->addr);
}

static bool windows_take(void *ctx, char **words, unsigned count, unsigned line,
			 char *why)
{
	struct mpib_agent_windows *w = ctx;
	struct mpib_agent_window one = { .line = line };

	if (count != 4)
		return mpib_agent_bad(why,
				      "%.48s: the line has %u words (give PEER "
				      "RAIL FROM TO)",
				      words[0], count);
	if (!windows_peer(words[0], &one.net))
		return mpib_agent_bad(why,
				      "%.48s: it is no peer (give an "
				      "address, a network or all)",
				      words[0]);
	if (!strcmp(words[1], "sup"))
		one.rail = MPIB_RAIL_SUP;
	else if (strcmp(words[1], "sout") != 0)
		return mpib_agent_bad(why,
				      "%.48s: it is no rail (give sout or "
				      "sup)",
				      words[1]);
	for (unsigned i = 2; i < 4; i++) {
		if (!windows_time(words[i], i == 2 ? &one.from : &one.to))
			return mpib_agent_bad(why,
					      "%.48s: it is no time (give UTC, "
					      "as 2030-01-31T20:00:00Z)",
					      words[i]);
	}
	if (one.to <= one.from)
		return mpib_agent_bad(why,
				      "%.48s: it ends before it begins "
				      "(give FROM, then TO)",
				      words[3]);
	if (w->n == MPIB_AGENT_WINDOWS_MAX)
		return mpib_agent_bad(
			why,
			"there are more than %u windows (take out "
			"those that are over)",
			MPIB_AGENT_WINDOWS_MAX);
	w->of = mpib_xrealloc(w->of, (w->n + 1) * sizeof(one));
	w->of[w->n++] = one;
	return true;
}

bool mpib_agent_windows_read(struct mpib_agent_windows *w, const char *path,
			     char *why)
{
	struct mpib_agent_windows fresh = { 0 };

	if (!mpib_agent_words_read(path, windows_take, &fresh, why)) {
		free(fresh.of);
		return false;
	}
	free(w->of);
	w->of = fresh.of;
	w->n = fresh.n;
	return true;
}

void mpib_agent_windows_look(struct mpib_agent_windows *w, const char *path)
{
	char why[MPIB_AGENT_WHY];
	struct stat st = { 0 };
	uint64_t mtime_ns = 0;

	if (stat(path, &st) == 0)
		mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000ull +
			   (uint64_t)st.st_mtim.tv_nsec;
	if (mtime_ns && mtime_ns == w->mtime_ns && w->inode == st.st_ino &&
	    w->size == (uint64_t)st.st_size)
		return;
	if (mpib_agent_windows_read(w, path, why)) {
		mpib_info("maintenance: %u windows of %s", w->n, path);
		w->told = false;
	} else if (!w->told || mtime_ns != w->mtime_ns) {
		mpib_warn("maintenance stays as it was: %s", why);
		w->told = true;
	}
	w->mtime_ns = mtime_ns;
	w->inode = st.st_ino;
	w->size = (uint64_t)st.st_size;
}

void mpib_agent_windows_free(struct mpib_agent_windows *w)
{
	free(w->of);
	memset(w, 0, sizeof(*w));
}

const struct mpib_agent_window *
mpib_agent_window_of(const struct mpib_agent_windows *w, uint32_t peer,
		     unsigned rail, uint64_t now_s, uint64_t lead_s)
{
	struct in6_addr addr = mpib_address_of_ip(peer);

	for (unsigned i = 0; i < w->n; i++) {
		const struct mpib_agent_window *one = &w->of[i];

		if (one->rail == rail && now_s + lead_s >= one->from &&
		    now_s < one->to && mpib_network_has(&one->net, &addr))
			return one;
	}
	return NULL;
}
