/* SPDX-License-Identifier: Apache-2.0 */
/* Reading samples and layout, and computing medians. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tally/tally.h"

static FILE *open_input(const char *path)
{
	FILE *f = fopen(path, "re");

	if (!f)
		tally_die("cannot read %s: %s", path, strerror(errno));
	return f;
}

static void *grown(void *p, size_t count, size_t each)
{
	/* The room doubles, so it is full when count is a power of two. */
	if (count & (count - 1))
		return p;
	p = realloc(p, (count ? 2 * count : 1) * each);
	if (!p)
		tally_die("out of memory");
	return p;
}

/* Check that an item has the number of words that its kind needs. */
static void check_item(const char *path, const struct tally_item *it)
{
	static const struct {
		const char *kind;
		unsigned min, max;
	} kinds[] = {
		{ "title", 2, 2 }, { "note", 2, 2 },   { "column", 3, 4 },
		{ "row", 3, 3 },   { "derive", 6, 6 }, { "mark", 6, 8 },
	};

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!strcmp(it->word[0], kinds[i].kind) &&
		    it->words >= kinds[i].min && it->words <= kinds[i].max)
			return;
	}
	tally_die("%s: \"%s\" with %u words is no item of a layout", path,
		  it->word[0], it->words);
}

void tally_read_layout(struct tally_layout *l, const char *path)
{
	FILE *f = open_input(path);
	char *line = NULL;
	size_t room = 0;

	*l = (struct tally_layout){ 0 };
	while (getline(&line, &room, f) > 0) {
		struct tally_item it = { .line = line };
		char *rest = line, *word;

		line[strcspn(line, "\n")] = '\0';
		if (!*line || *line == '#')
			continue;
		while ((word = strsep(&rest, "\t"))) {
			if (*word && it.words < TALLY_WORDS)
				it.word[it.words++] = word;
		}
		check_item(path, &it);
		l->item = grown(l->item, l->count, sizeof(it));
		l->item[l->count++] = it;
		line = NULL; /* the item owns the line now */
	}
	free(line);
	fclose(f);
}

static void add(struct tally_samples *s, const struct tally_sample *sample)
{
	s->sample = grown(s->sample, s->count, sizeof(*sample));
	s->sample[s->count++] = *sample;
}

void tally_read_samples(struct tally_samples *s, const char *path)
{
	FILE *f = open_input(path);
	struct tally_sample one;
	char line[256];

	*s = (struct tally_samples){ 0 };
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%u %47s %47s %lf", &one.rep, one.row,
			   one.metric, &one.value) != 4 ||
		    one.rep >= TALLY_REPS)
			tally_die("%s: not a sample: %s", path, line);
		add(s, &one);
	}
	fclose(f);
}

void tally_derive(struct tally_samples *s, const struct tally_layout *l)
{
	const struct tally_item *it;
	size_t at = 0;

	while ((it = tally_next(l, &at, "derive"))) {
		size_t count = s->count;

		for (size_t i = 0; i < count; i++) {
			struct tally_sample one = s->sample[i];

			if (strcmp(one.row, it->word[4]) ||
			    strcmp(one.metric, it->word[5]))
				continue;
			snprintf(one.row, sizeof(one.row), "%s", it->word[1]);
			snprintf(one.metric, sizeof(one.metric), "%s",
				 it->word[2]);
			one.value *= strtod(it->word[3], NULL);
			add(s, &one);
		}
	}
}

void tally_free(struct tally_layout *l, struct tally_samples *s)
{
	for (size_t i = 0; i < l->count; i++)
		free(l->item[i].line);
	free(l->item);
	free(s->sample);
}

const struct tally_item *tally_next(const struct tally_layout *l, size_t *at,
				    const char *kind)
{
	while (*at < l->count) {
		const struct tally_item *it = &l->item[(*at)++];

		if (!strcmp(it->word[0], kind))
			return it;
	}
	return NULL;
}

static const struct tally_sample *find(const struct tally_samples *s,
				       unsigned rep, const char *row,
				       const char *metric)
{
	for (size_t i = 0; i < s->count; i++) {
		const struct tally_sample *one = &s->sample[i];

		if (one->rep == rep && !strcmp(one->row, row) &&
		    !strcmp(one->metric, metric))
			return one;
	}
	return NULL;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct tally_stat tally_stat(const struct tally_samples *s, const char *row,
			     const char *metric, const char *divrow,
			     const char *divmetric)
{
	double value[TALLY_REPS];
	struct tally_stat st = { 0 };

	for (size_t i = 0; i < s->count && st.n < TALLY_REPS; i++) {
		const struct tally_sample *one = &s->sample[i], *div;

		if (strcmp(one->row, row) || strcmp(one->metric, metric))
			continue;
		value[st.n] = one->value;
		if (divrow) {
			div = find(s, one->rep, divrow, divmetric);
			if (!div || div->value == 0)
				continue;
			value[st.n] /= div->value;
		}
		st.n++;
	}
	if (st.n == 0)
		return st;
	qsort(value, st.n, sizeof(value[0]), ascending);
	st.min = value[0];
	st.max = value[st.n - 1];
	st.median = st.n % 2 ? value[st.n / 2]
			     : (value[st.n / 2 - 1] + value[st.n / 2]) / 2;
	return st;
}
