/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files in INI syntax. */
#include "config/config.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define LINE_BYTES 4097 /* a newline and the 0 behind it included */

struct reader {
	struct mpib_config *cfg;
	const char *path;
	char *why; /* a line for each error */
	char section[64];
	unsigned line;
	int rc; /* of the first error */
};

static void file_fail(struct reader *r, int rc, const char *why)
{
	if (r->rc == 0)
		r->rc = rc;
	mpib_config_why(r->why, why);
}

const char *mpib_config_nearest(const char *typed, const char *otherwise,
				char *hint, size_t len)
{
	struct mpib_suggest s = { .typed = typed };
	char names[MPIB_SETTINGS_MAX][64];

	for (unsigned i = 0; i < mpib_settings_count; i++) {
		snprintf(names[i], sizeof(names[i]), "%s.%s",
			 mpib_settings[i].section, mpib_settings[i].key);
		mpib_suggest_try(&s, names[i]);
	}
	return mpib_suggest_remedy(&s, otherwise, hint, len);
}

static void file_unknown(struct reader *r, const char *section, const char *key)
{
	static const char otherwise[] = "mpib.conf(5) lists them";
	struct mpib_suggest s = { .typed = section };
	char typed[128], hint[96], why[MPIB_WHY_MAX];
	bool have_section = false;
	const char *remedy;

	for (unsigned i = 0; i < mpib_settings_count; i++) {
		mpib_suggest_try(&s, mpib_settings[i].section);
		if (!strcmp(section, mpib_settings[i].section))
			have_section = true;
	}
	remedy = mpib_suggest_remedy(&s, otherwise, hint, sizeof(hint));
	if (!have_section) {
		snprintf(why, sizeof(why),
			 "%s:%u: unknown section \"%.80s\" (%s)", r->path,
			 r->line, section, remedy);
	} else {
		snprintf(typed, sizeof(typed), "%.63s.%.63s", section, key);
		remedy = mpib_config_nearest(typed, otherwise, hint,
					     sizeof(hint));
		snprintf(why, sizeof(why),
			 "%s:%u: unknown setting \"%.80s.%.80s\" (%s)", r->path,
			 r->line, section, key, remedy);
	}
	file_fail(r, -EINVAL, why);
}

static void file_setting(struct reader *r, const char *key, const char *value)
{
	static const char device[] = "device ";
	const size_t prefix = sizeof(device) - 1;
	const struct mpib_setting *s = mpib_config_find(r->section, key);
	char origin[MPIB_ORIGIN_MAX], why[MPIB_WHY_MAX];
	int rc;

	snprintf(origin, sizeof(origin), "%.110s:%u", r->path, r->line);
	if (!strncmp(r->section, device, prefix)) {
		rc = mpib_config_device_set(r->cfg, r->section + prefix, key,
					    value, origin, why);
	} else if (!s) {
		file_unknown(r, r->section, key);
		return;
	} else {
		rc = mpib_config_set(r->cfg, s, value, origin, why);
	}
	if (rc < 0)
		file_fail(r, rc, why);
}

/* text without the blanks around it, which end in place. */
static char *file_trim(char *text)
{
	static const char blank[] = " \t\r\n\v\f";
	size_t n;

	text += strspn(text, blank);
	n = strlen(text);
	while (n > 0 && strchr(blank, text[n - 1]))
		n--;
	text[n] = '\0';
	return text;
}

/* End the text where a comment begins: at the first byte, or at a ; behind a blank. */
static void file_uncomment(char *text)
{
	char *c = text;

	if (*text == '#' || *text == ';')
		*text = '\0';
	while ((c = strchr(c, ';')) && !isspace((unsigned char)c[-1]))
		c++;
	if (c)
		*c = '\0';
}

static void file_bad(struct reader *r, const char *what)
{
	char why[MPIB_WHY_MAX];

	snprintf(why, sizeof(why), "%s:%u: %s", r->path, r->line, what);
	file_fail(r, -EINVAL, why);
}

static void file_neither(struct reader *r)
{
	file_bad(r, "neither [section] nor key = value (comments start with "
		    ";)");
}

/* Goes on after an error, so that all of them are told. */
static void file_line(struct reader *r, char *text)
{
	char *end;

	text = file_trim(text);
	file_uncomment(text);
	if (!*text)
		return;
	end = *text == '[' ? strchr(text, ']') : strpbrk(text, "=:");
	if (!end) {
		file_neither(r);
		return;
	}
	*end = '\0';
	if (*text == '[')
		snprintf(r->section, sizeof(r->section), "%s", text + 1);
	else
		file_setting(r, file_trim(text), file_trim(end + 1));
}

/* Returns 0, or -errno of what could not be read. */
static int file_read(struct reader *r, struct mpib_text_file *in)
{
	static const char bom[] = "\xef\xbb\xbf";
	char text[LINE_BYTES];
	ssize_t n;

	while ((n = mpib_text_line(in, text, sizeof(text))) > 0) {
		r->line++;
		/* Bytes 0 are what a crash may leave of a file that was written. */
		if (n >= LINE_BYTES)
			file_bad(r, "the line is too long (give at most 4095 "
				    "bytes)");
		else if (strlen(text) != (size_t)n)
			file_neither(r);
		else if (r->line == 1 && !strncmp(text, bom, strlen(bom)))
			file_line(r, text + strlen(bom));
		else
			file_line(r, text);
	}
	return (int)n;
}

int mpib_config_read_file(struct mpib_config *cfg, const char *path, char *why)
{
	struct reader r = { .cfg = cfg, .path = path, .why = why };
	char line[MPIB_WHY_MAX];
	struct mpib_text_file in;
	const char *bad;
	int rc;

	why[0] = '\0';
	rc = mpib_text_open(&in, path, &bad);
	if (rc < 0)
		return mpib_why_fail(why, rc, "%s: %s (name a readable file)",
				     path, bad);
	rc = file_read(&r, &in);
	if (rc < 0) {
		snprintf(line, sizeof(line), "%s: %s (name a readable file)",
			 path, strerror(-rc));
		file_fail(&r, -EIO, line);
	}
	mpib_text_close(&in);
	return r.rc;
}

static int is_conf(const struct dirent *e)
{
	size_t len = strlen(e->d_name);

	return e->d_name[0] != '.' && len > 5 &&
	       !strcmp(e->d_name + len - 5, ".conf");
}

int mpib_config_read_dir(struct mpib_config *cfg, const char *dir, char *why)
{
	struct dirent **names;
	char path[512], lines[MPIB_WHY_MAX];
	int n, rc, first;

	snprintf(path, sizeof(path), "%s/mpib.conf", dir);
	first = mpib_config_read_file(cfg, path, why);
	if (first == -ENOENT) {
		first = 0;
		why[0] = '\0';
	}

	snprintf(path, sizeof(path), "%s/conf.d", dir);
	n = scandir(path, &names, is_conf, alphasort);
	if (n < 0 && errno != ENOENT) {
		rc = -errno;
		snprintf(lines, sizeof(lines),
			 "%s: %s (make it a directory that can be read)", path,
			 strerror(-rc));
		mpib_config_why(why, lines);
		first = first ? first : rc;
	}
	if (n < 0)
		return first;
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/conf.d/%s", dir,
			 names[i]->d_name);
		rc = mpib_config_read_file(cfg, path, lines);
		if (rc < 0)
			mpib_config_why(why, lines);
		first = first ? first : rc;
		free(names[i]);
	}
	free(names);
	return first;
}
