/* SPDX-License-Identifier: Apache-2.0 */
/* Set, print and dump single settings by their rows in the table. */
#include "config/config.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/environ.h"

int mpib_why_fail(char *why, int rc, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, MPIB_WHY_MAX, fmt, ap);
	va_end(ap);
	return rc;
}

static void *config_field(struct mpib_config *cfg, const struct mpib_setting *s)
{
	return (char *)cfg + s->offset;
}

static void config_store(struct mpib_config *cfg, const struct mpib_setting *s,
			 int64_t n)
{
	void *p = config_field(cfg, s);

	switch (s->width) {
	case 1:
		*(uint8_t *)p = (uint8_t)n;
		break;
	case 4:
		*(uint32_t *)p = (uint32_t)n;
		break;
	default:
		*(uint64_t *)p = (uint64_t)n;
	}
}

static int64_t config_load(const struct mpib_config *cfg,
			   const struct mpib_setting *s)
{
	const void *p = (const char *)cfg + s->offset;

	switch (s->width) {
	case 1:
		return *(const uint8_t *)p;
	case 4:
		if (s->type == MPIB_SET_INT)
			return *(const int32_t *)p;
		return *(const uint32_t *)p;
	default:
		return *(const int64_t *)p;
	}
}

static int config_bad(char *why, const struct mpib_setting *s,
		      const char *value, const char *origin, const char *fmt,
		      ...) __attribute__((format(printf, 5, 6)));

static int config_bad(char *why, const struct mpib_setting *s,
		      const char *value, const char *origin, const char *fmt,
		      ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return mpib_why_fail(why, -EINVAL, "%s: %s.%s = \"%.64s\" %s", origin,
			     s->section, s->key, value, text);
}

/* Return log2 of the factor for a suffix K, M, G or T: 10, 20, 30 or 40. "B" or
 * "iB" may follow. Return 0 without a suffix, and -1 if `end` is another
 * text. */
static int suffix_shift(const char *end)
{
	static const char units[] = "KMGT";
	const char *u;

	if (!*end)
		return 0;
	u = strchr(units, toupper((unsigned char)*end));
	if (!u || !*u)
		return -1;
	end++;
	if (!strcasecmp(end, "iB") || !strcasecmp(end, "B") || !*end)
		return 10 * (int)(u - units + 1);
	return -1;
}

static int set_number(struct mpib_config *cfg, const struct mpib_setting *s,
		      const char *value, const char *origin, char *why)
{
	char *end;
	int64_t n;
	int shift = 0;

	errno = 0;
	n = strtoll(value, &end, 10);
	if (s->type == MPIB_SET_SIZE)
		shift = suffix_shift(end);
	if (end == value || shift < 0 || (shift == 0 && *end) ||
	    isspace((unsigned char)*value))
		return config_bad(
			why, s, value, origin, "is not a %s (give %s)",
			s->type == MPIB_SET_SIZE ? "size" : "number",
			s->type == MPIB_SET_SIZE ? "bytes, such as 512K"
						 : "digits only");
	if (errno || (shift && n < 0) || n > s->max >> shift ||
	    n * (INT64_C(1) << shift) < s->min)
		return config_bad(why, s, value, origin,
				  "is out of range (give %" PRId64
				  " to %" PRId64 ")",
				  s->min, s->max);

	config_store(cfg, s, n * (INT64_C(1) << shift));
	return 0;
}

static int set_choice(struct mpib_config *cfg, const struct mpib_setting *s,
		      const char *value, const char *origin, char *why)
{
	char list[128] = "";

	for (unsigned i = 0; s->choices[i]; i++) {
		char digit[2] = { (char)('0' + i), '\0' };

		/* The environment variable MPIB_MODE (policy.mode) may also be
		 * a number. */
		if (!strcmp(value, s->choices[i]) ||
		    (s->env && !strcmp(value, digit))) {
			config_store(cfg, s, i);
			return 0;
		}
		snprintf(list + strlen(list), sizeof(list) - strlen(list),
			 "%s%s", i ? ", " : "", s->choices[i]);
	}
	return config_bad(why, s, value, origin,
			  "is not one of its values (give %s)", list);
}

static int config_set_text(struct mpib_config *cfg,
			   const struct mpib_setting *s, const char *value,
			   const char *origin, char *why)
{
	if (strlen(value) >= s->width)
		return config_bad(why, s, value, origin,
				  "is too long (give at most %zu bytes)",
				  s->width - 1);
	memcpy(config_field(cfg, s), value, strlen(value) + 1);
	return 0;
}

int mpib_config_set(struct mpib_config *cfg, const struct mpib_setting *s,
		    const char *value, const char *origin, char *why)
{
	char *at = cfg->origin[s - mpib_settings];
	int rc = -EINVAL;

	switch (s->type) {
	case MPIB_SET_UINT:
	case MPIB_SET_INT:
	case MPIB_SET_SIZE:
		rc = set_number(cfg, s, value, origin, why);
		break;
	case MPIB_SET_CHOICE:
		rc = set_choice(cfg, s, value, origin, why);
		break;
	case MPIB_SET_TEXT:
		rc = config_set_text(cfg, s, value, origin, why);
		break;
	}
	if (rc == 0)
		snprintf(at, MPIB_ORIGIN_MAX, "%s", origin);
	return rc;
}

void mpib_config_env_name(const struct mpib_setting *s, char *buf, size_t len)
{
	if (s->env) {
		snprintf(buf, len, "%s", s->env);
		return;
	}
	snprintf(buf, len, "MPIB_%s_%s", s->section, s->key);
	for (char *c = buf; *c; c++)
		*c = (char)toupper((unsigned char)*c);
}

const char *mpib_config_getenv(char **env, const char *name)
{
	size_t len = strlen(name);

	for (; *env; env++) {
		if (!strncmp(*env, name, len) && (*env)[len] == '=')
			return *env + len + 1;
	}
	return NULL;
}

const struct mpib_setting *mpib_config_find(const char *section,
					    const char *key)
{
	for (unsigned i = 0; i < mpib_settings_count; i++) {
		const struct mpib_setting *s = &mpib_settings[i];

		if (!strcmp(s->section, section) && !strcmp(s->key, key))
			return s;
	}
	return NULL;
}

int mpib_config_read_env(struct mpib_config *cfg, char **env, char *why)
{
	int first = 0;

	why[0] = '\0';
	for (unsigned i = 0; i < mpib_settings_count; i++) {
		char name[64], origin[80], line[MPIB_WHY_MAX];
		const char *value;
		int rc;

		mpib_config_env_name(&mpib_settings[i], name, sizeof(name));
		value = mpib_config_getenv(env, name);
		if (!value || mpib_environ_is_link(value))
			continue;
		snprintf(origin, sizeof(origin), "environment %s", name);
		rc = mpib_config_set(cfg, &mpib_settings[i], value, origin,
				     line);
		if (rc < 0)
			mpib_config_why(why, line);
		first = first ? first : rc;
	}
	return first;
}

void mpib_config_why(char *why, const char *line)
{
	size_t at = strlen(why);

	if (at == 0 || at + strlen(line) + 2 <= MPIB_WHY_MAX)
		snprintf(why + at, MPIB_WHY_MAX - at, "%s%s", at ? "\n" : "",
			 line);
}

void mpib_config_value(const struct mpib_config *cfg,
		       const struct mpib_setting *s, char *buf, size_t len)
{
	switch (s->type) {
	case MPIB_SET_TEXT:
		snprintf(buf, len, "%s", (const char *)cfg + s->offset);
		break;
	case MPIB_SET_CHOICE:
		snprintf(buf, len, "%s", s->choices[config_load(cfg, s)]);
		break;
	case MPIB_SET_UINT:
	case MPIB_SET_INT:
	case MPIB_SET_SIZE:
		snprintf(buf, len, "%" PRId64, config_load(cfg, s));
		break;
	}
}

void mpib_config_dump(const struct mpib_config *cfg, FILE *out)
{
	const char *section = "";

	for (unsigned i = 0; i < mpib_settings_count; i++) {
		const struct mpib_setting *s = &mpib_settings[i];
		char value[MPIB_VALUE_MAX], line[MPIB_VALUE_MAX + 64];

		if (strcmp(section, s->section))
			fprintf(out, "%s[%s]\n", i ? "\n" : "", s->section);
		section = s->section;
		mpib_config_value(cfg, s, value, sizeof(value));
		snprintf(line, sizeof(line), "%s = %s", s->key, value);
		fprintf(out, "%-40s ; %s\n", line, cfg->origin[i]);
	}
	for (unsigned i = 0; i < cfg->devices; i++) {
		const struct mpib_config_device *d = &cfg->device[i];

		if (!d->origin[0])
			continue;
		fprintf(out, "\n[device %s]\nsout = %s ; %s\n", d->name,
			d->sout, d->origin);
		if (d->sup[0])
			fprintf(out, "sup = %s\n", d->sup);
	}
	/* Print the resulting devices, for people and for mpibctl doctor. */
	for (unsigned i = 0; i < cfg->devices; i++) {
		struct mpib_config_device d;

		mpib_config_device(cfg, i, &d);
		fprintf(out, "%s; device %s: %s, %s\n", i ? "" : "\n", d.name,
			d.sout, d.sup[0] ? d.sup : "none");
	}
	if (cfg->devices && cfg->why_devices[0])
		fprintf(out, "; %s\n", cfg->why_devices);
}
