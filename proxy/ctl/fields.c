/* SPDX-License-Identifier: Apache-2.0 */
/* Option -o: print the chosen fields of an answer, one row per line. */
#include "ctl/fields.h"

#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "base/xalloc.h"
#include "ctl/dial.h"
#include "ctl/table.h"

#define FIELDS_MAX 160
#define NAME_MAX_BYTES 64

struct fields {
	char name[FIELDS_MAX][NAME_MAX_BYTES];
	unsigned count;
};

/* Split list at commas. False when a name is empty or too long, or when there
 * are too many names. */
static bool fields_split(struct fields *f, const char *list)
{
	f->count = 0;
	for (;;) {
		size_t len = strcspn(list, ",");

		if (len == 0 || len >= NAME_MAX_BYTES || f->count == FIELDS_MAX)
			return false;
		memcpy(f->name[f->count], list, len);
		f->name[f->count++][len] = '\0';
		if (!list[len])
			return true;
		list += len + 1;
	}
}

/* The field of row that name, such as "tx_bytes.sout", leads to, or NULL. */
static const json_t *fields_find(const json_t *row, const char *name)
{
	while (row && *name) {
		char key[NAME_MAX_BYTES];
		size_t len = strcspn(name, ".");

		memcpy(key, name, len);
		key[len] = '\0';
		row = json_object_get(row, key);
		name += len + (name[len] == '.');
	}
	return row;
}

/* A copy that commands no terminal, with blanks for what separates fields. */
static char *fields_plain(const char *from)
{
	size_t len = strlen(from) + 1;
	char *text = memcpy(mpib_xcalloc(len), from, len);

	for (char *c = text; (c = strpbrk(c, "\t\r\n")); c++)
		*c = ' ';
	mpib_plain(text);
	return text;
}

static void print_value(const json_t *v, FILE *out)
{
	if (json_is_string(v)) {
		/* A script would take tabs and newlines for separators. */
		char *text = fields_plain(json_string_value(v));

		fputs(text, out);
		free(text);
	} else if (v && !json_is_null(v)) {
		json_dumpf(v, out,
			   JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII |
				   MPIB_JSON_DIGITS);
	} else {
		fputc('-', out);
	}
}

static void print_row(const json_t *row, const struct fields *f, FILE *out)
{
	for (unsigned i = 0; i < f->count; i++) {
		if (i)
			fputc('\t', out);
		print_value(fields_find(row, f->name[i]), out);
	}
	fputc('\n', out);
}

/* No row has a field name: suggest the most similar name, or list some. */
static void fields_complain(json_t *row, const char *name, char *why,
			    size_t len)
{
	struct mpib_suggest s = { .typed = name };
	char some[160] = "";
	const char *key;
	json_t *value;

	json_object_foreach(row, key, value)
	{
		size_t at = strlen(some);

		mpib_suggest_try(&s, key);
		if (at + strlen(key) + 3 < sizeof(some))
			snprintf(some + at, sizeof(some) - at, "%s%s",
				 at ? ", " : "", key);
	}
	if (mpib_suggest_best(&s))
		snprintf(why, len,
			 "field \"%s\": the answer has none of that name (did "
			 "you mean %s?)",
			 name, mpib_suggest_best(&s));
	else
		snprintf(why, len,
			 "field \"%s\": the answer has none of that name (it "
			 "has %s, ...; see -j)",
			 name, some);
	mpib_plain(why);
}

bool mpib_fields_print(json_t *data, const char *list, FILE *out, char *why,
		       size_t len)
{
	size_t rows = json_is_array(data) ? json_array_size(data) : 1;
	json_t *first = json_is_array(data) ? json_array_get(data, 0) : data;
	struct fields f = { .count = 0 };

	if (!fields_split(&f, list)) {
		snprintf(
			why, len,
			"fields \"%.64s\": not a list (give names with a comma "
			"between them)",
			list);
		return false;
	}
	for (unsigned i = 0; first && i < f.count; i++) {
		bool some = false;

		/* Rows may differ: a field that only some have is valid. */
		for (size_t r = 0; r < rows && !some; r++)
			some = fields_find(json_is_array(data)
						   ? json_array_get(data, r)
						   : data,
					   f.name[i]);
		if (!some) {
			fields_complain(first, f.name[i], why, len);
			return false;
		}
	}
	for (size_t r = 0; r < rows; r++)
		print_row(json_is_array(data) ? json_array_get(data, r) : data,
			  &f, out);
	return true;
}
