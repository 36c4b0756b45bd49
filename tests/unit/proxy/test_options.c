/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/config/options.h: the order of all sources, and what is refused. */
#include "config/options.h"

#include <errno.h>

#include "scratch.h"
#include "test.h"

static struct mpib_config cfg;
static enum mpib_action action;
static char why[MPIB_WHY_MAX];
static char *no_env[] = { NULL };

static int read_args(char **env, const char *line)
{
	char copy[512], name[] = "mpib-proxy", *argv[16] = { name };
	int argc = 1;

	why[0] = '\0';
	mpib_config_init(&cfg);
	snprintf(copy, sizeof(copy), "%s", line);
	for (char *a = strtok(copy, " "); a; a = strtok(NULL, " "))
		argv[argc++] = a;
	return mpib_options_read(&cfg, argc, argv, env, scratch, &action, why);
}

static void assert_refused(const char *line, const char *part)
{
	assert_int_equal(read_args(no_env, line), -EINVAL);
	assert_in(why, part);
}

static void flags_win_over_environment_and_files(void **state)
{
	char bw[] = "MPIB_SUP_BW=200", qp[] = "MPIB_SUP_QP=5";
	char *env[] = { bw, qp, NULL };

	scratch_write("mpib.conf", "[sup]\nbw = 100\nqp = 6\n[sout]\nqp = 3\n");
	assert_int_equal(read_args(env, "--sout soft --sup-bw 300"), 0);
	assert_int_equal(cfg.engine.sup_bw, 300);
	assert_int_equal(cfg.engine.qps[1], 5);
	assert_int_equal(cfg.engine.qps[0], 3);
	assert_int_equal(action, MPIB_ACTION_RUN);
}

static void the_lasting_command_line_is_understood(void **state)
{
	assert_int_equal(read_args(no_env,
				   "--run-dir /x --sout soft:127.24.1.1 --sup "
				   "soft:127.24.1.2 --peer-port 7 --threads 3 "
				   "--lanes private --log-level debug "
				   "--daemon"),
			 0);
	assert_string_equal(cfg.run_dir, "/x");
	assert_string_equal(cfg.engine.rail[0].name, "127.24.1.1");
	assert_string_equal(cfg.engine.rail[1].name, "127.24.1.2");
	assert_int_equal(cfg.peer_port, 7);
	assert_int_equal(cfg.engine.shards, 3);
	assert_int_equal(cfg.lanes, MPIB_LANES_PRIVATE);
	assert_int_equal(cfg.log_level, 3);
	assert_int_equal(cfg.daemon, 1);
}

/* As one that wants a value: by = or as the next word. */
static void a_value_that_may_be_left_out_may_be_a_word(void **state)
{
	assert_int_equal(
		read_args(no_env, "--sout soft --log-format json --failover no "
				  "--log-times=no --daemon --threads 2"),
		0);
	assert_int_equal(cfg.log_format, 1);
	assert_int_equal(cfg.engine.failover, 0);
	assert_int_equal(cfg.engine.times, 0);
	assert_int_equal(cfg.daemon, 1);
	assert_int_equal(cfg.engine.shards, 2);
	assert_refused("--sout soft --daemon maybe",
		       "proxy.daemon = \"maybe\" is none of its values");
}

static void every_setting_has_a_flag_of_its_own(void **state)
{
	for (unsigned i = 0; i < mpib_settings_count; i++) {
		for (unsigned j = 0; j < i; j++)
			assert_string_not_equal(mpib_settings[i].flag,
						mpib_settings[j].flag);
	}
}

static void a_named_file_stands_for_all_others(void **state)
{
	char line[200];

	scratch_write("mpib.conf", "[sup]\nbw = 100\n");
	scratch_write("mine", "[sout]\nqp = 3\n");
	snprintf(line, sizeof(line), "--config %s --sout soft --check-config",
		 scratch_path("mine"));
	assert_int_equal(read_args(no_env, line), 0);
	assert_int_equal(cfg.engine.sup_bw, 512);
	assert_int_equal(cfg.engine.qps[0], 3);
	assert_int_equal(action, MPIB_ACTION_CHECK);
}

/* A name, a value, a flag's value, an address and a file. */
static void all_kinds_of_faults_are_told_at_once(void **state)
{
	static const char *const fault[] = {
		"unknown setting \"sup.bww\"",
		"sout.qp = \"x\" is not a number",
		"--sup-bw",
		"metrics.listen = \"nonsense\": not an IPv4 address",
		"peer.key_file = /nonexistent: No such file",
	};
	char line[200];

	scratch_write("mine", "[sup]\nbww = 1\n[sout]\nqp = x\n[metrics]\n"
			      "listen = nonsense\n[peer]\n"
			      "key_file = /nonexistent\n");
	snprintf(line, sizeof(line), "--config %s --sup-bw 9999",
		 scratch_path("mine"));
	assert_int_equal(read_args(no_env, line), -EINVAL);
	for (unsigned i = 0; i < sizeof(fault) / sizeof(fault[0]); i++) {
		if (!strstr(why, fault[i]))
			fail_msg("\"%s\" is not in:\n%s", fault[i], why);
	}
}

static void help_wants_no_sound_configuration(void **state)
{
	scratch_write("mpib.conf", "nonsense\n");
	assert_int_equal(read_args(no_env, "--help"), 0);
	assert_int_equal(action, MPIB_ACTION_HELP);
	assert_int_equal(read_args(no_env, "--version"), 0);
	assert_int_equal(action, MPIB_ACTION_VERSION);
}

static void what_is_mistyped_is_named_with_the_nearest(void **state)
{
	assert_refused("--sup-bww 3", "did you mean --sup-bw?");
	assert_refused("--sup-bww=3", "did you mean --sup-bw?");
	assert_refused("--xyzzyx", "see --help");
	assert_refused("--sup-bw", "--sup-bw wants a value");
	assert_refused("serve", "\"serve\" is not expected");
	assert_refused("--threads 17", "flag --threads: proxy.threads");
	assert_refused("-x", "cannot be used");
}

static void the_help_fits_a_terminal(void **state)
{
	char *text = NULL, *line, *rest;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	mpib_options_help(f);
	fclose(f);
	for (line = strtok_r(text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		if (strlen(line) > 80)
			fail_msg("too wide: %s", line);
	}
	free(text);
}

#define SCRATCH_TEST(f)                                                        \
	cmocka_unit_test_setup_teardown(f, scratch_make, scratch_remove)

const struct CMUnitTest test_list[] = {
	SCRATCH_TEST(flags_win_over_environment_and_files),
	SCRATCH_TEST(a_value_that_may_be_left_out_may_be_a_word),
	SCRATCH_TEST(the_lasting_command_line_is_understood),
	SCRATCH_TEST(every_setting_has_a_flag_of_its_own),
	SCRATCH_TEST(a_named_file_stands_for_all_others),
	SCRATCH_TEST(all_kinds_of_faults_are_told_at_once),
	SCRATCH_TEST(help_wants_no_sound_configuration),
	SCRATCH_TEST(what_is_mistyped_is_named_with_the_nearest),
	SCRATCH_TEST(the_help_fits_a_terminal),
	{ 0 },
};
