/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sources of the configuration: files, NCCL's variables, and the command
 * line. mpib_options_read() reads all sources in their order.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "config/config.h"

/* Return values of getopt_long(). They are larger than any character, because
 * getopt_long() returns ':' or '?' for an error. The value for a setting is
 * OPT_SETTING plus the setting's index in the table. */
enum {
	OPT_SETTING = 256,
	OPT_CONFIG = 1000,
	OPT_DEVICE,
	OPT_CHECK,
	OPT_HELP,
	OPT_VERSION
};

static const struct option extra[] = {
	{ "config", required_argument, NULL, OPT_CONFIG },
	{ "device", required_argument, NULL, OPT_DEVICE },
	{ "check-config", no_argument, NULL, OPT_CHECK },
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
};

#define EXTRA (sizeof(extra) / sizeof(extra[0]))

struct config_options {
	struct option list[MPIB_SETTINGS_MAX + EXTRA + 1];
	unsigned count;
};

static void make_options(struct config_options *o)
{
	*o = (struct config_options){ .count = mpib_settings_count };
	for (unsigned i = 0; i < mpib_settings_count; i++) {
		const struct mpib_setting *s = &mpib_settings[i];

		o->list[i].name = s->flag;
		o->list[i].has_arg =
			s->arg ? required_argument : optional_argument;
		o->list[i].val = OPT_SETTING + (int)i;
	}
	for (unsigned i = 0; i < EXTRA; i++)
		o->list[o->count++] = extra[i];
}

static int options_complain(const struct config_options *o, int c, char **argv,
			    char *why)
{
	char typed[64];
	struct mpib_suggest s = { .typed = typed };
	const char *near, *word;

	if (optind < 1 || !argv[optind - 1])
		return -EINVAL;
	word = mpib_option_word(argv, "");
	snprintf(typed, sizeof(typed), "%.*s",
		 (int)strcspn(word + strspn(word, "-"), "="),
		 word + strspn(word, "-"));
	if (c == ':')
		return mpib_why_fail(
			why, -EINVAL,
			"command line: --%s wants a value (see --help)", typed);
	for (unsigned i = 0; i < o->count; i++)
		mpib_suggest_try(&s, o->list[i].name);
	near = mpib_suggest_best(&s);
	return mpib_why_fail(why, -EINVAL,
			     "command line: %.80s cannot be used (%s%s%s)",
			     word, near ? "did you mean --" : "see --help",
			     near ? near : "", near ? "?" : "");
}

/* Set the setting that belongs to an option. The value is in optarg. */
static int options_set(struct mpib_config *cfg, int option, char *why)
{
	const struct mpib_setting *s;
	char origin[64];

	if (option == OPT_DEVICE)
		return mpib_config_device_flag(cfg, optarg, why);
	s = &mpib_settings[option - OPT_SETTING];
	snprintf(origin, sizeof(origin), "flag --%s", s->flag);
	return mpib_config_set(cfg, s, optarg ? optarg : "yes", origin, why);
}

/* Return the next option, like getopt_long(). If a word follows an option whose
 * value is optional, take the word as the value, because the command line
 * allows no other words. */
static int options_next(const struct config_options *o, int argc, char **argv)
{
	int c = getopt_long(argc, argv, ":", o->list, NULL);

	if (c >= OPT_SETTING && c < OPT_CONFIG && !optarg && optind < argc &&
	    argv[optind][0] != '-')
		optarg = argv[optind++];
	return c;
}

/* Read --check-config, --config and similar options from argv. Read settings
 * into cfg; if cfg is NULL, skip the settings. */
static int options_scan(const struct config_options *o, struct mpib_config *cfg,
			int argc, char **argv, enum mpib_action *action,
			const char **file, char *why)
{
	int c, rc = 0;

	optind = 0;
	opterr = 0;
	while (rc == 0 && (c = options_next(o, argc, argv)) != -1) {
		if (c == OPT_CONFIG) {
			*file = optarg;
		} else if (c == OPT_CHECK) {
			*action = MPIB_ACTION_CHECK;
		} else if (c == OPT_HELP || c == OPT_VERSION) {
			*action = c == OPT_HELP ? MPIB_ACTION_HELP
						: MPIB_ACTION_VERSION;
			return 0;
		} else if (c == '?' || c == ':') {
			rc = options_complain(o, c, argv, why);
		} else if (cfg) {
			rc = options_set(cfg, c, why);
		}
	}
	if (rc == 0 && optind < argc) {
		snprintf(why, MPIB_WHY_MAX,
			 "command line: \"%.80s\" is not expected (see "
			 "--help)",
			 argv[optind]);
		rc = -EINVAL;
	}
	return rc;
}

int mpib_options_read(struct mpib_config *cfg, int argc, char **argv,
		      char **env, const char *dir, enum mpib_action *action,
		      char *why)
{
	char lines[MPIB_WHY_MAX];
	const char *file = NULL;
	struct config_options o;
	int rc, more;

	*action = MPIB_ACTION_RUN;
	make_options(&o);
	/* Read argv twice. The first pass looks for --config, which selects the
	 * files. The second pass, after the files, reads the settings of the
	 * command line, which override the files. */
	rc = options_scan(&o, NULL, argc, argv, action, &file, why);
	if (rc < 0 || *action == MPIB_ACTION_HELP ||
	    *action == MPIB_ACTION_VERSION)
		return rc;

	rc = mpib_config_read_nccl(cfg, env, why);
	if (rc == 0)
		rc = file ? mpib_config_read_file(cfg, file, why)
			  : mpib_config_read_dir(cfg, dir, why);
	more = mpib_config_read_env(cfg, env, lines);
	if (rc == 0)
		why[0] = '\0';
	if (more < 0)
		mpib_config_why(why, lines);
	rc = rc ? rc : more;
	more = options_scan(&o, cfg, argc, argv, action, &file, lines);
	if (more < 0)
		mpib_config_why(why, lines);
	rc = rc ? rc : more;
	/* After an error, check only single settings: a number that was refused
	 * cannot be compared with other settings. */
	more = rc ? mpib_config_texts(cfg, lines)
		  : mpib_config_finish(cfg, lines);
	if (more < 0)
		mpib_config_why(why, lines);
	return rc ? rc : more;
}

static void help_setting(const struct mpib_config *cfg,
			 const struct mpib_setting *s, FILE *out)
{
	char env[64], value[128], arg[64], note[160] = "";

	mpib_config_env_name(s, env, sizeof(env));
	mpib_config_value(cfg, s, value, sizeof(value));
	if (value[0])
		snprintf(note, sizeof(note), " [%s]", value);
	if (s->arg)
		snprintf(arg, sizeof(arg), "%s", s->arg);
	else
		snprintf(arg, sizeof(arg), "[%s|%s]", s->choices[0],
			 s->choices[1]);
	fprintf(out, "  --%s %s, %s%s\n      %s\n", s->flag, arg, env, note,
		s->help);
}

void mpib_options_help(FILE *out)
{
	struct mpib_config cfg;

	mpib_config_init(&cfg);
	fprintf(out,
		"usage: mpib-proxy [OPTION]...\n"
		"Serve both rails of this node to the processes that attach.\n"
		"Without --sout it uses the RDMA ports that it finds. With "
		"--sout soft, the\nsoftware HCA runs on 127.0.0.1 and "
		"127.0.0.2.\n\n"
		"  --config FILE                read FILE, not " MPIB_CONFIG_DIR
		"/mpib.conf and conf.d\n"
		"  --check-config               show every setting and its "
		"origin, then exit:\n"
		"                               0, or 78 when something is "
		"wrong\n"
		"  --device SOUT[,SUP]          a device of these rails; may be "
		"repeated\n"
		"  --help, --version\n\n"
		"Settings, with their names in the environment. For example, "
		"[sup] bw in a\nfile is MPIB_SUP_BW and --sup-bw. Flags "
		"override the environment, which\noverrides files.\n");
	for (unsigned i = 0; i < mpib_settings_count; i++)
		help_setting(&cfg, &mpib_settings[i], out);
}

/* Configuration files in INI syntax. */

#define LINE_BYTES 4096 /* including the newline */

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
	if (!section[0]) {
		snprintf(why, sizeof(why),
			 "%s:%u: %.80s stands before any [section] (begin with "
			 "one, such as [hca])",
			 r->path, r->line, key);
	} else if (!have_section) {
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

/* Return whether the value begins with a quote, or contains typographic quotes
 * or no-break spaces. Quotes have no meaning in the file and would become part
 * of the value. Typographic quotes and no-break spaces are hard to see. */
static bool is_quoted(const char *value)
{
	return *value == '"' || *value == '\'' || strstr(value, "\xc2\xa0") ||
	       strstr(value, "\xe2\x80");
}

static void file_setting(struct reader *r, const char *key, const char *value)
{
	static const char device[] = "device ";
	const size_t prefix = sizeof(device) - 1;
	const struct mpib_setting *s = mpib_config_find(r->section, key);
	char origin[MPIB_ORIGIN_MAX], why[MPIB_WHY_MAX];
	int rc;

	snprintf(origin, sizeof(origin), "%.110s:%u", r->path, r->line);
	if (is_quoted(value)) {
		snprintf(why, sizeof(why),
			 "%s: %.63s: the value has quotes or a no-break space "
			 "(remove them)",
			 origin, key);
		file_fail(r, -EINVAL, why);
		return;
	}
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

/* Strip the blanks around text, in place. */
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

/* Remove a comment. A comment starts with # or ; at the start of the line, or
 * with ; after a blank. */
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

/* Process a line. After an error, reading continues, so that all errors are
 * reported. */
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

/* Read a file line by line. Returns 0, or the -errno of a failed read. */
static int file_read(struct reader *r, FILE *in)
{
	static const char bom[] = "\xef\xbb\xbf";
	char *text = NULL;
	size_t size = 0;
	ssize_t n;
	int rc;

	while ((n = getline(&text, &size, in)) > 0) {
		r->line++;
		/* A crash can leave NUL bytes in a file that was being
		 * written. */
		if (n > LINE_BYTES)
			file_bad(r, "the line is too long (give at most 4095 "
				    "bytes)");
		else if (strlen(text) != (size_t)n)
			file_neither(r);
		else if (r->line == 1 && !strncmp(text, bom, strlen(bom)))
			file_line(r, text + strlen(bom));
		else
			file_line(r, text);
	}
	rc = feof(in) ? 0 : -errno;
	free(text);
	return rc;
}

int mpib_config_read_file(struct mpib_config *cfg, const char *path, char *why)
{
	struct reader r = { .cfg = cfg, .path = path, .why = why };
	char line[MPIB_WHY_MAX];
	const char *bad;
	FILE *in;
	int rc;

	why[0] = '\0';
	rc = mpib_text_open(&in, path, &bad);
	if (rc < 0)
		return mpib_why_fail(why, rc, "%s: %s (name a readable file)",
				     path, bad);
	rc = file_read(&r, in);
	if (rc < 0) {
		snprintf(line, sizeof(line), "%s: %s (name a readable file)",
			 path, strerror(-rc));
		file_fail(&r, -EIO, line);
	}
	fclose(in);
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

/*
 * Variables of NCCL's own transport that have the same meaning as settings of
 * the proxy. Operators tune these variables for the fabric, in /etc/nccl.conf
 * or in the environment. Names and meanings are those of NCCL_PARAM() in
 * transport/net_ib of NCCL 2.30.
 */

#define UNSET_NONE 1 /* a number, and no number means "not set" */

static const struct nccl_setting {
	const char *name, *section, *key;
	/* The number that means "not set" to NCCL, or UNSET_NONE. 0: the value
	 * is a text. */
	int unset;
	const char *const *values; /* mpib's words for the numbers 0, 1 ... */
} nccl_settings[] = {
	{ "NCCL_IB_HCA", "hca", "filter", 0, NULL },
	{ "NCCL_IB_ADDR_RANGE", "hca", "gid_net", 0, NULL },
	{ "NCCL_IB_TIMEOUT", "qp", "timeout", UNSET_NONE, NULL },
	{ "NCCL_IB_RETRY_CNT", "qp", "retry_cnt", UNSET_NONE, NULL },
	{ "NCCL_IB_TC", "qp", "traffic_class", -1, NULL },
	{ "NCCL_IB_SL", "qp", "service_level", -1, NULL },
	{ "NCCL_IB_PKEY", "qp", "pkey_index", UNSET_NONE, NULL },
	{ "NCCL_IB_ECE_ENABLE", "qp", "ece", UNSET_NONE,
	  (const char *const[]){ "no", "yes", NULL } },
	{ "NCCL_IB_ADAPTIVE_ROUTING", "ar", "mode", -2,
	  (const char *const[]){ "off", "on", NULL } },
	{ "NCCL_IB_AR_THRESHOLD", "ar", "threshold", -2, NULL },
};

/* Return the value in the form of mpib's setting, or NULL if the value means
 * "not set" to NCCL. NCCL's numbers may be hexadecimal or octal. */
static const char *nccl_value(const struct nccl_setting *n, const char *value,
			      char text[32])
{
	long long number;
	char *end;

	if (!*value)
		return NULL;
	if (!n->unset)
		return value;
	number = strtoll(value, &end, 0);
	if (*end)
		return value;
	if (n->unset < 0 && number == n->unset)
		return NULL;
	for (int i = 0; n->values && n->values[i]; i++) {
		if (number == i)
			return n->values[i];
	}
	snprintf(text, 32, "%lld", number);
	return text;
}

int mpib_config_read_nccl(struct mpib_config *cfg, char **env, char *why)
{
	for (unsigned i = 0;
	     i < sizeof(nccl_settings) / sizeof(nccl_settings[0]); i++) {
		const struct nccl_setting *n = &nccl_settings[i];
		const char *value = mpib_config_getenv(env, n->name);
		char origin[MPIB_ORIGIN_MAX], text[32];
		int rc;

		value = value ? nccl_value(n, value, text) : NULL;
		if (!value)
			continue;
		snprintf(origin, sizeof(origin), "environment %s", n->name);
		rc = mpib_config_set(cfg, mpib_config_find(n->section, n->key),
				     value, origin, why);
		if (rc < 0)
			return rc;
	}
	return 0;
}

bool mpib_config_takes_nccl(const char *name)
{
	for (unsigned i = 0;
	     i < sizeof(nccl_settings) / sizeof(nccl_settings[0]); i++) {
		if (!strcmp(nccl_settings[i].name, name))
			return true;
	}
	return false;
}
