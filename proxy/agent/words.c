/* SPDX-License-Identifier: Apache-2.0 */
/* Reading files of words. */
#include "agent/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define BLANK " \t\r\n"
#define LINE_BYTES 502 /* a newline and the 0 behind it included */

bool mpib_agent_bad(char *why, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, MPIB_AGENT_WHY, fmt, ap);
	va_end(ap);
	return false;
}

/* Returns how many words there are; more than MPIB_AGENT_WORDS: too many. */
static unsigned words_split(char *text, char **words)
{
	unsigned n = 0;
	char *rest;

	text[strcspn(text, "#")] = '\0';
	for (char *w = strtok_r(text, BLANK, &rest); w;
	     w = strtok_r(NULL, BLANK, &rest)) {
		if (n == MPIB_AGENT_WORDS)
			return n + 1;
		words[n++] = w;
	}
	return n;
}

static bool words_take(char *text, size_t len, mpib_agent_words_fn *take,
		       void *ctx, unsigned line, char *why)
{
	char *words[MPIB_AGENT_WORDS];
	unsigned count;

	if (len >= LINE_BYTES)
		return mpib_agent_bad(why, "the line is too long (give at most "
					   "500 bytes)");
	/* Bytes 0 are what a crash may leave of a file that was written. */
	if (strlen(text) != len)
		return mpib_agent_bad(why, "the line has bytes of zero (write "
					   "the file anew)");
	count = words_split(text, words);
	if (count > MPIB_AGENT_WORDS)
		return mpib_agent_bad(why,
				      "the line has too many words (give at "
				      "most %u)",
				      MPIB_AGENT_WORDS);
	return count == 0 || take(ctx, words, count, line, why);
}

bool mpib_agent_words_read(const char *path, mpib_agent_words_fn *take,
			   void *ctx, char *why)
{
	char text[LINE_BYTES], reason[MPIB_AGENT_WHY] = "";
	struct mpib_text_file in;
	unsigned line = 0;
	const char *bad;
	bool ok = true;
	ssize_t n = 0;

	if (mpib_text_open(&in, path, &bad) < 0)
		return mpib_agent_bad(why, "%.120s: %s (see the path)", path,
				      bad);
	while (ok && (n = mpib_text_line(&in, text, sizeof(text))) > 0) {
		line++;
		ok = words_take(text, (size_t)n, take, ctx, line, reason);
	}
	if (!ok)
		mpib_agent_bad(why, "%.80s:%u: %.160s", path, line, reason);
	else if (n < 0)
		ok = mpib_agent_bad(why, "%.120s: %s (see the path)", path,
				    strerror((int)-n));
	mpib_text_close(&in);
	return ok;
}
