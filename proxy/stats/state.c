/* SPDX-License-Identifier: Apache-2.0 */
#include "stats/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

#define HEAD "mpib-proxy state 1\n"
#define NEW MPIB_STATE_FILE ".new"

/* Write the lines of the file. Each has the uid of a user, and a command that
 * this user gave. */
static unsigned state_list(const struct mpib_admin *a, FILE *out)
{
	const struct mpib_config *cfg = a->cfg;
	const size_t origin = strlen(MPIB_ADMIN_ORIGIN);
	uint32_t drained = mpib_engine_drained(a->engine) &
			   ~mpib_engine_drained_sick(a->engine);
	char value[MPIB_VALUE_MAX];
	unsigned lines = 0;

	for (unsigned r = 0; r < mpib_config_rail_total(cfg); r++) {
		if (!(drained >> r & 1))
			continue;
		fprintf(out, "%u drain %s %s\n", geteuid(),
			cfg->engine.rail[r].label, cfg->drain_why[r]);
		lines++;
	}
	for (unsigned i = 0; i < mpib_settings_count; i++) {
		const struct mpib_setting *s = &mpib_settings[i];

		if (strncmp(cfg->origin[i], MPIB_ADMIN_ORIGIN, origin) != 0)
			continue;
		mpib_config_value(cfg, s, value, sizeof(value));
		fprintf(out, "%s set %s.%s %s\n", cfg->origin[i] + origin,
			s->section, s->key, value[0] ? value : "\"\"");
		lines++;
	}
	return lines;
}

static int state_write(const struct mpib_admin *a)
{
	int fd = openat(*a->run_dir, NEW,
			O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
			0600);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
	unsigned lines;
	bool failed;

	if (!out) {
		if (fd >= 0)
			close(fd);
		return -errno;
	}
	fputs(HEAD, out);
	lines = state_list(a, out);
	failed = ferror(out);
	if (fclose(out) != 0 || failed)
		return errno ? -errno : -EIO;
	if (lines)
		return renameat(*a->run_dir, NEW, *a->run_dir,
				MPIB_STATE_FILE) < 0
			       ? -errno
			       : 0;
	unlinkat(*a->run_dir, NEW, 0);
	unlinkat(*a->run_dir, MPIB_STATE_FILE, 0);
	return 0;
}

void mpib_state_save(const struct mpib_admin *admin)
{
	int rc = state_write(admin);

	if (rc < 0)
		mpib_warn("state: %s: a restart forgets what mpibctl changed "
			  "(see the run directory and its file system)",
			  strerror(-rc));
}

static bool state_carry_out(const struct mpib_admin *a, char *line,
			    struct mpib_ask *ask)
{
	const struct mpib_command *c;
	char *command;
	json_t *answer;

	*ask = (struct mpib_ask){ .admin = a,
				  .by_admin_sock = true,
				  .uid = (uid_t)strtoul(line, &command, 10) };
	c = command == line ? NULL : mpib_command_parse(command, ask);
	if (!c || (c->fn != mpib_admin_drain && c->fn != mpib_admin_set))
		return false;
	answer = c->fn(ask);
	json_decref(answer);
	return answer;
}

static void state_read(const struct mpib_admin *a, FILE *in)
{
	char line[MPIB_VALUE_MAX + 128], text[sizeof(line)];
	struct mpib_ask ask;

	if (!fgets(line, sizeof(line), in) || strcmp(line, HEAD) != 0) {
		mpib_warn("state: the file was written by another version, "
			  "ignored (give the commands of mpibctl again)");
		return;
	}
	while (fgets(line, sizeof(line), in)) {
		line[strcspn(line, "\n")] = '\0';
		snprintf(text, sizeof(text), "%s", line);
		if (!state_carry_out(a, line, &ask))
			mpib_warn("state: \"%.60s\" ignored: %s (%s)", text,
				  ask.error[0] ? ask.error : "unknown",
				  ask.hint[0] ? ask.hint
					      : "give the command again");
	}
}

void mpib_state_load(const struct mpib_admin *admin)
{
	int fd = openat(*admin->run_dir, MPIB_STATE_FILE,
			O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	FILE *in = fd < 0 ? NULL : fdopen(fd, "r");

	if (in) {
		state_read(admin, in);
		fclose(in);
		return;
	}
	if (fd >= 0)
		close(fd);
	if (errno != ENOENT)
		mpib_warn("state: %s (give the commands of mpibctl again)",
			  strerror(errno));
}
