/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded by tests/checks/message into a program that is built with
 * -finstrument-functions: write the address of each function that runs inside a
 * function of MESSAGE_TURNS to the file MESSAGE_OUT, once. The addresses are
 * those of the program's file. One thread.
 */
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define SLOTS 65536u /* a power of 2, and more than there are functions */

static unsigned long seen[SLOTS], base, turns[2];
static FILE *out;
static bool inside;

void __cyg_profile_func_enter(void *fn, void *caller);
void __cyg_profile_func_exit(void *fn, void *caller);

static int note_base(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	base = info->dlpi_addr;
	return 1; /* the first one is the program */
}

__attribute__((constructor)) static void begin(void)
{
	const char *names = getenv("MESSAGE_TURNS"), *path;
	char *end = NULL;

	path = getenv("MESSAGE_OUT");
	if (!names || !path)
		return;
	dl_iterate_phdr(note_base, NULL);
	turns[0] = strtoul(names, &end, 16);
	turns[1] = strtoul(end, NULL, 16);
	out = fopen(path, "w");
}

static bool is_turn(unsigned long fn)
{
	return fn == turns[0] || fn == turns[1];
}

void __cyg_profile_func_enter(void *fn, void *caller)
{
	unsigned long at = (unsigned long)fn - base;
	unsigned slot = (unsigned)(at * 2654435761u) % SLOTS;

	(void)caller;
	if (is_turn(at))
		inside = true;
	else if (inside) {
		while (seen[slot] && seen[slot] != at)
			slot = (slot + 1) % SLOTS;
		if (seen[slot])
			return;
		seen[slot] = at;
		fprintf(out, "0x%lx\n", at);
		fflush(out);
	}
}

void __cyg_profile_func_exit(void *fn, void *caller)
{
	(void)caller;
	if (is_turn((unsigned long)fn - base))
		inside = false;
}
