/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files in INI syntax, parsed by inih. */
#include "config/config.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"

/* inih tells its handler no line number, so file_next_line(), which feeds inih,
 * counts the lines. */
struct reader {
	struct mpib_config *cfg;
	FILE *in;
	const char *path;
	char *why; /* a line for each error */
	unsigned line;
	int rc; /* of the first error */
};

static void file_fail(struct reader *r, int rc, const char *why)
{
	if (r->rc == 0)
		r->rc = rc;
	mpib_config_why(r->why, why);
}

/* Like fgets() for inih, but drops leading blanks: inih takes an indented line
 * for the continuation of the value above. */
static char *file_next_line(char *buf, int len, void *stream)
{
	struct reader *r = stream;
	char why[MPIB_WHY_MAX];
	size_t blanks;

	if (!fgets(buf, len, r->in))
		return NULL;
	r->line++;
	if (!strchr(buf, '\n') && !feof(r->in)) {
		snprintf(why, sizeof(why),
			 "%s:%u: the line is too long (give at most %d bytes)",
			 r->path, r->line, len - 2);
		file_fail(r, -EINVAL, why);
		return NULL;
	}
	blanks = strspn(buf, " \t");
	memmove(buf, buf + blanks, strlen(buf + blanks) + 1);
	return buf;
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

/* Goes on after an error, so that all of them are told. */
static int file_handle(void *user, const char *section, const char *key,
		       const char *value)
{
	static const char device[] = "device ";
	const size_t prefix = sizeof(device) - 1;
	const struct mpib_setting *s = mpib_config_find(section, key);
	struct reader *r = user;
	char origin[MPIB_ORIGIN_MAX], why[MPIB_WHY_MAX];
	int rc;

	snprintf(origin, sizeof(origin), "%.110s:%u", r->path, r->line);
	if (!strncmp(section, device, prefix)) {
		rc = mpib_config_device_set(r->cfg, section + prefix, key,
					    value, origin, why);
	} else if (!s) {
		file_unknown(r, section, key);
		return 1;
	} else {
		rc = mpib_config_set(r->cfg, s, value, origin, why);
	}
	if (rc < 0)
		file_fail(r, rc, why);
	return 1;
}

/* bad_line is the first that inih cannot parse, or 0. */
static void file_end(struct reader *r, int bad_line)
{
	char why[MPIB_WHY_MAX];

	if (bad_line > 0) {
		snprintf(why, sizeof(why),
			 "%s:%d: neither [section] nor key = value (comments "
			 "start with ;)",
			 r->path, bad_line);
		file_fail(r, -EINVAL, why);
	} else if (ferror(r->in)) {
		snprintf(why, sizeof(why), "%s: %s (name a readable file)",
			 r->path, strerror(EIO));
		file_fail(r, -EIO, why);
	}
}

int mpib_config_read_file(struct mpib_config *cfg, const char *path, char *why)
{
	struct reader r = { .cfg = cfg, .path = path, .why = why };
	int bad_line;

	why[0] = '\0';
	r.in = fopen(path, "re");
	if (!r.in) {
		int rc = -errno;

		return mpib_why_fail(why, rc, "%s: %s (name a readable file)",
				     path, strerror(-rc));
	}
	bad_line = ini_parse_stream(file_next_line, &r, file_handle, &r);
	file_end(&r, bad_line);
	fclose(r.in);
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
