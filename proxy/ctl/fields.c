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

/* Take the names of all that row has which is no object; those of an object in
 * it begin with its own. What has no room is left out. */
static void fields_all(struct fields *f, const char *prefix, json_t *row)
{
	const char *key;
	json_t *value;

	json_object_foreach(row, key, value)
	{
		char name[NAME_MAX_BYTES];
		int n = snprintf(name, sizeof(name), "%s%s%s", prefix,
				 *prefix ? "." : "", key);

		if (n >= NAME_MAX_BYTES || f->count == FIELDS_MAX)
			continue;
		if (json_object_size(value) > 0)
			fields_all(f, name, value);
		else
			memcpy(f->name[f->count++], name, (size_t)n + 1);
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

/* A copy that commands no terminal. Tabs and newlines stay, or are blanks. */
static char *fields_plain(const char *from, bool separators)
{
	size_t len = strlen(from) + 1;
	char *text = memcpy(mpib_xcalloc(len), from, len), *c = text;

	while (*c) {
		char *end = c + strcspn(c, "\t\r\n"), found = *end;

		*end = '\0';
		mpib_plain(c);
		if (found)
			*end++ = (char)(separators ? found : ' ');
		c = end;
	}
	return text;
}

static void print_value(const json_t *v, FILE *out)
{
	if (json_is_string(v)) {
		/* A script would take tabs and newlines for separators. */
		char *text = fields_plain(json_string_value(v), false);

		fputs(text, out);
		free(text);
	} else if (v && !json_is_null(v)) {
		json_dumpf(v, out,
			   JSON_ENCODE_ANY | JSON_COMPACT | MPIB_JSON_DIGITS);
	} else {
		fputc('-', out);
	}
}

static void print_quoted(const char *text, FILE *out)
{
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', out);
		fputc(*text, out);
	}
	fputc('"', out);
}

/* Numbers and words as they are; what a reader of CSV would take apart, and
 * what is none, quoted or empty. */
static void print_csv(const json_t *v, FILE *out)
{
	char *text, *dump;

	if (json_is_string(v)) {
		text = fields_plain(json_string_value(v), true);
		if (strpbrk(text, ",\"\r\n"))
			print_quoted(text, out);
		else
			fputs(text, out);
		free(text);
	} else if (json_is_array(v) || json_is_object(v)) {
		dump = json_dumps(v, JSON_COMPACT | MPIB_JSON_DIGITS);
		text = fields_plain(dump ? dump : "", true);
		print_quoted(text, out);
		free(text);
		free(dump);
	} else if (v && !json_is_null(v)) {
		json_dumpf(v, out,
			   JSON_ENCODE_ANY | JSON_COMPACT | MPIB_JSON_DIGITS);
	}
}

static void print_row(const json_t *row, const struct fields *f, bool csv,
		      FILE *out)
{
	for (unsigned i = 0; i < f->count; i++) {
		const json_t *v = fields_find(row, f->name[i]);

		if (i)
			fputc(csv ? ',' : '\t', out);
		if (csv)
			print_csv(v, out);
		else
			print_value(v, out);
	}
	fputs(csv ? "\r\n" : "\n", out);
}

static void print_names(const struct fields *f, FILE *out)
{
	for (unsigned i = 0; i < f->count; i++) {
		char *name = fields_plain(f->name[i], false);

		fprintf(out, "%s%s", i ? "," : "", name);
		free(name);
	}
	fputs("\r\n", out);
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

bool mpib_fields_print(json_t *data, const char *list, bool csv, FILE *out,
		       char *why, size_t len)
{
	size_t rows = json_is_array(data) ? json_array_size(data) : 1;
	json_t *first = json_is_array(data) ? json_array_get(data, 0) : data;
	struct fields f = { .count = 0 };

	if (!list) {
		fields_all(&f, "", first);
	} else if (!fields_split(&f, list)) {
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
	if (csv)
		print_names(&f, out);
	for (size_t r = 0; r < rows; r++)
		print_row(json_is_array(data) ? json_array_get(data, r) : data,
			  &f, csv, out);
	return true;
}
