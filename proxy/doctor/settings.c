/* SPDX-License-Identifier: Apache-2.0 */
/* Where no proxy answers: whether one would start with this node's settings, and
 * the rails that these name, as their ports are. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor/doctor.h"

#define SETTINGS_DEVICES 16

struct settings {
	char section[32];
	uint64_t expected_mbps; /* 0: not given */
	unsigned devices;
	struct settings_device {
		char name[32], rail[2][80]; /* SOUT, and SUP or "none" */
	} device[SETTINGS_DEVICES];
};

/* Start `d->proxy --check-config`, without what the environment says here, for a
 * service has one of its own, and with faults as text, whatever log.format is.
 * Both of its outputs can be read from *out. */
static int settings_spawn(const struct mpib_doctor *d, pid_t *pid, FILE **out)
{
	char check[] = "--check-config", name[] = "mpib-proxy";
	char format[] = "MPIB_LOG_FORMAT=text"; /* as settings_line() reads */
	char *argv[] = { name, check, NULL }, *env[] = { format, NULL };
	posix_spawn_file_actions_t actions;
	int end[2], rc;

	if (pipe2(end, O_CLOEXEC) < 0)
		return -errno;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, end[1], STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, end[1], STDERR_FILENO);
	rc = -posix_spawn(pid, d->proxy, &actions, NULL, argv, env);
	posix_spawn_file_actions_destroy(&actions);
	close(end[1]);
	if (rc < 0) {
		close(end[0]);
		return rc;
	}
	*out = fdopen(end[0], "r");
	return *out ? 0 : -errno;
}

/* A line of the settings, "key = value   ; origin" or "; device NAME: SOUT, SUP",
 * or of what is wrong. */
static void settings_line(struct mpib_doctor *d, struct settings *s, char *line)
{
	static const char fault[] = "mpib-proxy: ";
	struct settings_device *dev = &s->device[s->devices];
	char value[32], *fix;

	line[strcspn(line, "\n")] = '\0';
	if (!strncmp(line, fault, strlen(fault))) {
		fix = strstr(line, " (");
		if (fix) {
			*fix = '\0';
			fix += 2;
			fix[strlen(fix) - 1] = '\0';
		}
		mpib_find(d, MPIB_FAIL, "settings",
			  fix ? fix : "see mpib-proxy --check-config", "%s",
			  line + strlen(fault));
	}
	if (s->devices < SETTINGS_DEVICES &&
	    sscanf(line, "; device %31[^:]: %79[^,], %79s", dev->name,
		   dev->rail[0], dev->rail[1]) == 3)
		s->devices++;
	else if (sscanf(line, "[%31[a-z]", s->section) != 1 &&
		 !strcmp(s->section, "hca") &&
		 sscanf(line, "speed = %31[^ ;]", value) == 1)
		s->expected_mbps = strtoull(value, NULL, 10) * 1000;
}

/* The rail as the proxy's answers have one, from its port, whose device is
 * opened for a moment. NULL after a finding. */
static json_t *settings_rail(struct mpib_doctor *d, const char *label,
			     const char *name, const char *text,
			     uint64_t expected_mbps)
{
	const char *call = "ibv_open_device";
	char gid[INET6_ADDRSTRLEN] = "", why[256];
	struct mpib_port_info port = { 0 };
	const struct mpib_verbs *v;
	struct mpib_rail_spec spec;
	struct ibv_context *ctx;
	int rc;

	if (mpib_rail_spec_parse(text, &spec, why, sizeof(why)) < 0) {
		mpib_find(d, MPIB_FAIL, "settings",
			  "use mpibctl and mpib-proxy of one version",
			  "which rail is meant: %s", why);
		return NULL;
	}
	v = mpib_verbs_of(&spec);
	rc = v->open(&spec, &ctx);
	if (rc == 0) {
		call = "ibv_query_port";
		rc = v->query_port(ctx, spec.port, &port);
		v->close(ctx);
	}
	if (rc < 0) {
		mpib_doctor_explain(d, "rails", &spec, call, rc);
		return NULL;
	}
	inet_ntop(AF_INET6, port.gid.raw, gid, sizeof(gid));
	return json_pack("{ss ss ss ss sI ss sI sI sI}", "label", label, "name",
			 name, "device", text, "state",
			 port.state == IBV_PORT_ACTIVE ? "active" : "down",
			 "mtu", (json_int_t)128 << port.mtu, "gid", gid,
			 "speed_mbps", (json_int_t)port.speed_mbps,
			 "expected_mbps", (json_int_t)expected_mbps,
			 "cqe_errors", (json_int_t)0);
}

static void settings_device(struct mpib_doctor *d, const struct settings *s,
			    const struct settings_device *dev)
{
	static const char *const name[] = { "SOUT", "SUP" };
	char label[48];

	for (unsigned i = 0; i < 2; i++) {
		json_t *rail = NULL;

		snprintf(label, sizeof(label), "%s%s%s",
			 s->devices > 1 ? dev->name : "",
			 s->devices > 1 ? "." : "", name[i]);
		if (strcmp(dev->rail[i], "none") != 0)
			rail = settings_rail(d, label, name[i], dev->rail[i],
					     s->expected_mbps);
		if (rail)
			json_array_append_new(d->rails, rail);
	}
}

static void settings_rails(struct mpib_doctor *d, const struct settings *s)
{
	d->rails = json_array();
	for (unsigned i = 0; i < s->devices; i++)
		settings_device(d, s, &s->device[i]);
	/* Without any, no check speaks of rails. */
	if (json_array_size(d->rails) == 0) {
		json_decref(d->rails);
		d->rails = NULL;
	}
}

void mpib_check_settings(struct mpib_doctor *d)
{
	struct settings s = { 0 };
	char line[1024];
	pid_t pid = -1;
	FILE *out = NULL;
	int status = -1, rc;

	if (!d->absent)
		return;
	rc = settings_spawn(d, &pid, &out);
	while (rc == 0 && fgets(line, sizeof(line), out))
		settings_line(d, &s, line);
	if (out)
		fclose(out);
	if (pid > 0)
		waitpid(pid, &status, 0);
	if (rc < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 127)) {
		mpib_find(d, MPIB_NOTE, "settings",
			  "ask on the node, where mpib-proxy is installed",
			  "%s: %s: neither its settings nor its rails are "
			  "looked at",
			  d->proxy, rc < 0 ? strerror(-rc) : "does not run");
		return;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		mpib_find(d, MPIB_OK, "settings", NULL,
			  "mpib-proxy would start with them");
	settings_rails(d, &s);
}
