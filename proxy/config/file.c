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
	char *why;
	unsigned line;
	int rc; /* of the first error; why has its text */
};

static void file_fail(struct reader *r, int rc)
{
	if (r->rc == 0)
		r->rc = rc;
}

/* Like fgets() for inih, but drops leading blanks: inih takes an indented line
 * for the continuation of the value above. */
static char *file_next_line(char *buf, int len, void *stream)
{
	struct reader *r = stream;
	size_t blanks;

	if (r->rc < 0 || !fgets(buf, len, r->in))
		return NULL;
	r->line++;
	if (!strchr(buf, '\n') && !feof(r->in)) {
		snprintf(r->why, MPIB_WHY_MAX,
			 "%s:%u: the line is too long (give at most %d bytes)",
			 r->path, r->line, len - 2);
		file_fail(r, -EINVAL);
		return NULL;
	}
	blanks = strspn(buf, " \t");
	memmove(buf, buf + blanks, strlen(buf + blanks) + 1);
	return buf;
}

static void file_unknown(struct reader *r, const char *section, const char *key)
{
	struct mpib_suggest s = { .typed = section };
	char names[MPIB_SETTINGS_MAX][64], typed[128], hint[96] = "";
	bool have_section = false;

	for (unsigned i = 0; i < mpib_settings_count; i++) {
		mpib_suggest_try(&s, mpib_settings[i].section);
		if (!strcmp(section, mpib_settings[i].section))
			have_section = true;
	}
	if (have_section) {
		snprintf(typed, sizeof(typed), "%s.%s", section, key);
		s = (struct mpib_suggest){ .typed = typed };
		for (unsigned i = 0; i < mpib_settings_count; i++) {
			snprintf(names[i], sizeof(names[i]), "%s.%s",
				 mpib_settings[i].section,
				 mpib_settings[i].key);
			mpib_suggest_try(&s, names[i]);
		}
	}
	if (mpib_suggest_best(&s))
		snprintf(hint, sizeof(hint), "did you mean %s?",
			 mpib_suggest_best(&s));
	else
		snprintf(hint, sizeof(hint), "mpib.conf(5) lists them");
	snprintf(r->why, MPIB_WHY_MAX,
		 "%s:%u: unknown %s \"%.80s%s%.80s\" (%s)", r->path, r->line,
		 have_section ? "setting" : "section", section,
		 have_section ? "." : "", have_section ? key : "", hint);
	file_fail(r, -EINVAL);
}

static int file_handle(void *user, const char *section, const char *key,
		       const char *value)
{
	static const char device[] = "device ";
	const struct mpib_setting *s = mpib_config_find(section, key);
	struct reader *r = user;
	char origin[MPIB_ORIGIN_MAX];

	if (r->rc < 0)
		return 0;
	snprintf(origin, sizeof(origin), "%.110s:%u", r->path, r->line);
	if (!strncmp(section, device, sizeof(device) - 1)) {
		file_fail(r, mpib_config_device_set(
				     r->cfg, section + sizeof(device) - 1, key,
				     value, origin, r->why));
		return r->rc == 0;
	}
	if (!s) {
		file_unknown(r, section, key);
		return 0;
	}
	file_fail(r, mpib_config_set(r->cfg, s, value, origin, r->why));
	return r->rc == 0;
}

int mpib_config_read_file(struct mpib_config *cfg, const char *path, char *why)
{
	struct reader r = { .cfg = cfg, .path = path, .why = why };
	int bad_line;

	r.in = fopen(path, "re");
	if (!r.in) {
		int rc = -errno;

		snprintf(why, MPIB_WHY_MAX, "%s: %s (name a readable file)",
			 path, strerror(-rc));
		return rc;
	}
	bad_line = ini_parse_stream(file_next_line, &r, file_handle, &r);
	if (r.rc == 0 && bad_line > 0) {
		snprintf(why, MPIB_WHY_MAX,
			 "%s:%d: neither [section] nor key = value (comments "
			 "start with ;)",
			 path, bad_line);
		r.rc = -EINVAL;
	} else if (r.rc == 0 && ferror(r.in)) {
		snprintf(why, MPIB_WHY_MAX, "%s: %s (name a readable file)",
			 path, strerror(EIO));
		r.rc = -EIO;
	}
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
	char path[512];
	int n, rc;

	snprintf(path, sizeof(path), "%s/mpib.conf", dir);
	rc = mpib_config_read_file(cfg, path, why);
	if (rc < 0 && rc != -ENOENT)
		return rc;

	snprintf(path, sizeof(path), "%s/conf.d", dir);
	n = scandir(path, &names, is_conf, alphasort);
	if (n < 0)
		return 0;
	rc = 0;
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/conf.d/%s", dir,
			 names[i]->d_name);
		if (rc == 0)
			rc = mpib_config_read_file(cfg, path, why);
		free(names[i]);
	}
	free(names);
	return rc;
}
