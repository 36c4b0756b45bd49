/* SPDX-License-Identifier: Apache-2.0 */
#include "lies.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIES_MAX 64

static const char *const kind_name[LIE_KINDS] = {
	"first", "middle", "last",   "drop", "tail",
	"short", "long",   "double", "swap",
};

static struct {
	enum lie_kind kind;
	uint64_t at;
} lie[LIES_MAX];
static int lies, log_fd = -1;

bool lies_take(void)
{
	const char *text = getenv("LIAR_DOES"), *to = getenv("LIAR_LOG");
	char name[16];
	unsigned long at;
	int used;

	if (to)
		log_fd = open(to, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC,
			      0644);
	text = text ? text : "";
	while (sscanf(text, "%15[a-z]@%lu%n", name, &at, &used) == 2) {
		int kind = 0;

		while (kind < LIE_KINDS && strcmp(kind_name[kind], name) != 0)
			kind++;
		if (kind == LIE_KINDS || lies == LIES_MAX)
			return false;
		lie[lies].kind = (enum lie_kind)kind;
		lie[lies++].at = at;
		text += used + (text[used] == ',');
	}
	return !*text;
}

bool lies_does(enum lie_kind kind, uint64_t number)
{
	for (int i = 0; i < lies; i++) {
		if (lie[i].kind == kind && lie[i].at == number)
			return true;
	}
	return false;
}

void lies_note(enum lie_kind kind, uint64_t number)
{
	dprintf(log_fd, "%s %llu\n", kind_name[kind],
		(unsigned long long)number);
}
