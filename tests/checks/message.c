/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/checks/message preloads this library into a program that is built with
 * -finstrument-functions. The library writes to the file MESSAGE_OUT the
 * address of each function that runs inside a function of MESSAGE_TURNS. Each
 * address is written once, relative to the program's file. Only one thread may
 * run. The library also replaces the clock, so that the functions
 * do not depend on how busy the machine is: each reading adds TICK_NS.
 */
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TICK_NS 5000u
#define SLOTS 65536u /* a power of 2, greater than the number of functions */

static unsigned long seen[SLOTS], base, turns[2];
static FILE *out;
static bool inside;

void __cyg_profile_func_enter(void *fn, void *caller);
void __cyg_profile_func_exit(void *fn, void *caller);

int clock_gettime(clockid_t id, struct timespec *t)
{
	static unsigned long ns = 1000000000u;

	(void)id;
	ns += TICK_NS;
	t->tv_sec = (long)(ns / 1000000000u);
	t->tv_nsec = (long)(ns % 1000000000u);
	return 0;
}

static int note_base(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	base = info->dlpi_addr;
	return 1; /* stop: the first object is the program */
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
