/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpib-proxy's command line: options, help, and the order in which the sources
 * of the configuration are read.
 */
#include "config/options.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "base/text.h"

/* Values of getopt_long(). They lie above all characters, because ':' and '?'
 * are errors; a setting's value is a base plus its index in the table. */
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

/* The option's value is in optarg. */
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

/* Like getopt_long(). As no word has a meaning of its own here, one behind an option
 * that may have a value is that. */
static int options_next(const struct config_options *o, int argc, char **argv)
{
	int c = getopt_long(argc, argv, ":", o->list, NULL);

	if (c >= OPT_SETTING && c < OPT_CONFIG && !optarg && optind < argc &&
	    argv[optind][0] != '-')
		optarg = argv[optind++];
	return c;
}

/* Read --check-config, --config and the like from argv; read settings into cfg,
 * or skip them if cfg is NULL. */
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
	/* argv is read twice: settings on it win over files, so they come last,
	 * but --config must be known before files are read. */
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
	/* Numbers that were refused are not what others are to fit. */
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
		"Without --sout it looks for RDMA ports. With --sout soft the "
		"software HCA\nruns on 127.0.0.1 and 127.0.0.2.\n\n"
		"  --config FILE                read FILE, not " MPIB_CONFIG_DIR
		"/mpib.conf and conf.d\n"
		"  --check-config               show every setting and its "
		"origin, then exit:\n"
		"                               0, or 78 when something is "
		"wrong\n"
		"  --device SOUT[,SUP]          a device of these rails; may be "
		"repeated\n"
		"  --help, --version\n\n"
		"Settings, with their names in the environment; [sup] bw in a "
		"file is\nMPIB_SUP_BW and --sup-bw. Flags win over the "
		"environment, that over files.\n");
	for (unsigned i = 0; i < mpib_settings_count; i++)
		help_setting(&cfg, &mpib_settings[i], out);
}
