/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of words: a line is what one says, "#" begins a comment. Of the agent's
 * configuration, its list of windows and its list of islands.
 */
#ifndef MPIB_AGENT_WORDS_H
#define MPIB_AGENT_WORDS_H

#include <stdbool.h>

#define MPIB_AGENT_WORDS 16u /* in a line */
#define MPIB_AGENT_WHY 256

/* Take the words of a line. False: why holds "what: why (remedy)". */
typedef bool mpib_agent_words_fn(void *ctx, char **words, unsigned count,
				 unsigned line, char *why);

/*
 * Read the file line by line, up to the first line that is refused. False: why
 * holds "PATH:LINE: what: why (remedy)".
 */
bool mpib_agent_words_read(const char *path, mpib_agent_words_fn *take,
			   void *ctx, char *why);

/* Write "what: why (remedy)" into why, of MPIB_AGENT_WHY bytes. False. */
bool mpib_agent_bad(char *why, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
