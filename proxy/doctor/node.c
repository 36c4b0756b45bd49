/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the proxy's answers. If the proxy did not answer,
 * mpib_check_socket() reports that, and the other checks add nothing. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <mpib/abi.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor/doctor.h"

void mpib_check_socket(struct mpib_doctor *d)
{
	if (d->reached != MPIB_EXIT_OK) {
		mpib_find_why(d, MPIB_FAIL, "socket", d->why, NULL);
		return;
	}
	mpib_find(d, MPIB_OK, "socket", NULL, "%s: pid %" PRIu64 " answers",
		  d->socket, mpib_json_num(d->greeting, "pid"));
	if (d->attach != MPIB_EXIT_OK)
		mpib_find_why(d, MPIB_FAIL, "socket", d->attach_why, NULL);
}

void mpib_check_versions(struct mpib_doctor *d)
{
	const char *proxy = mpib_json_str(d->greeting, "mpib");

	if (!d->info)
		return;
	if (mpib_json_num(d->info, "abi") != MPIB_ABI_VERSION)
		mpib_find(d, MPIB_FAIL, "versions",
			  "install mpib-proxy and plugin of one version and "
			  "restart the proxy",
			  "the proxy speaks client ABI %" PRIu64
			  ", the installed tools speak %u",
			  mpib_json_num(d->info, "abi"), MPIB_ABI_VERSION);
	else if (strcmp(proxy, MPIB_VERSION) != 0)
		mpib_find(d, MPIB_NOTE, "versions",
			  "restart it when the node has no jobs",
			  "the proxy is %s, the installed tools are %s", proxy,
			  MPIB_VERSION);
	else
		mpib_find(d, MPIB_OK, "versions", NULL,
			  "proxy and tools are %s, client ABI %u", proxy,
			  MPIB_ABI_VERSION);
}

static void check_gid(struct mpib_doctor *d, const char *check,
		      const json_t *rail)
{
	const char *gid = mpib_json_str(rail, "gid");

	if (!*gid || !strcmp(gid, "::"))
		mpib_find(d, MPIB_FAIL, check,
			  "give its network interface an address",
			  "%s has no GID", mpib_json_str(rail, "device"));
	else if (!strncmp(gid, "fe80:", 5))
		mpib_find(d, MPIB_WARN, check,
			  "give its network interface an IPv4 address (RoCEv2)",
			  "GID %s of %s reaches its own link only", gid,
			  mpib_json_str(rail, "device"));
}

static void check_rail(struct mpib_doctor *d, const json_t *rail, bool new_port)
{
	const char *dev = mpib_json_str(rail, "device");
	const char *state = mpib_json_str(rail, "state");
	const char *why = mpib_json_str(rail, "drain_why");
	char check[64];

	snprintf(check, sizeof(check), "rail %.48s",
		 mpib_json_str(rail, "label"));
	if (!strcmp(state, "lost") && new_port)
		mpib_find(d, MPIB_FAIL, check,
			  "see dmesg(1); once the port works, the proxy starts "
			  "a successor, which opens it",
			  "%s failed, or its port was down at the start", dev);
	else if (strcmp(state, "active") != 0 && new_port)
		mpib_find(d, MPIB_FAIL, check,
			  "bring its port up: cable, switch, ip link, rdma "
			  "link",
			  "%s is down", dev);
	if (new_port)
		check_gid(d, check, rail);
	if (json_is_true(json_object_get(rail, "drained")))
		mpib_find(d, MPIB_NOTE, check,
			  "mpibctl rails resume RAIL; if the agent drains it, "
			  "see mpibctl agent",
			  *why ? "drained: %s" : "drained%s", why);
	/* This is only a note: the counter includes all errors since the proxy
	 * started, and their cause may have been repaired. */
	if (mpib_json_num(rail, "cqe_errors"))
		mpib_find(d, MPIB_NOTE, check,
			  "mpibctl events, and the proxy's log, name the peers",
			  "%" PRIu64 " completions of %s had an error",
			  mpib_json_num(rail, "cqe_errors"), dev);
	if (new_port && !strncmp(dev, "rdma:", 5))
		mpib_check_port(d, rail);
}

static bool have_hardware(const struct mpib_doctor *d)
{
	char pattern[256];
	glob_t found;
	bool some;

	snprintf(pattern, sizeof(pattern), "%s/class/infiniband/*", d->sysfs);
	some = glob(pattern, GLOB_NOSORT, NULL, &found) == 0;
	globfree(&found);
	return some;
}

/* Return whether the device of any rail begins with `prefix`. */
static bool has_rail(const struct mpib_doctor *d, const char *prefix)
{
	const json_t *rail;
	bool found = false;
	size_t i;

	json_array_foreach(d->rails, i, rail) found |=
		!strncmp(mpib_json_str(rail, "device"), prefix, strlen(prefix));
	return found;
}

void mpib_check_rails(struct mpib_doctor *d)
{
	bool differ = false, sup = false;
	const json_t *rail;
	uint64_t mtu = 0;
	size_t i;

	json_array_foreach(d->rails, i, rail)
	{
		check_rail(d, rail, mpib_doctor_new_port(d, i));
		differ |= mtu && mpib_json_num(rail, "mtu") != mtu;
		mtu = mpib_json_num(rail, "mtu");
		sup |= !strcmp(mpib_json_str(rail, "name"), "SUP");
	}
	if (differ)
		mpib_find(d, MPIB_WARN, "rails",
			  "give all their network interfaces one MTU",
			  "their MTUs differ");
	if (d->rails && !sup)
		mpib_find(d, MPIB_WARN, "rails",
			  "name the second one: sup in [hca] or [device NAME]",
			  json_array_size(d->rails) < 2
				  ? "there is only one, without a replacement "
				    "when it fails"
				  : "each device has only one, without a "
				    "replacement when it fails");
	if (has_rail(d, "soft:"))
		mpib_find(d, MPIB_WARN, "rails",
			  "name RDMA ports: [hca] sout and sup in mpib.conf",
			  "software HCAs are for trials, not for jobs%s",
			  have_hardware(d) ? ", and this machine has RDMA "
					     "devices"
					   : "");
}

/* Return the state of the lane's rail with this key, such as "sout". */
static const char *port_state(const struct mpib_doctor *d, const json_t *lane,
			      const char *key)
{
	const json_t *rail;
	size_t i;

	json_array_foreach(d->rails, i, rail)
	{
		if (!strcasecmp(mpib_json_str(rail, "name"), key) &&
		    !strcmp(mpib_json_str(rail, "net"),
			    mpib_json_str(lane, "net")))
			return mpib_json_str(rail, "state");
	}
	return "";
}

/* Report a lane that cannot use a rail although the rail's port is active. */
static void check_live(struct mpib_doctor *d, const json_t *lane)
{
	const char *key;
	json_t *live;

	json_object_foreach(json_object_get(lane, "live"), key, live)
	{
		if (json_is_false(live) &&
		    !strcmp(port_state(d, lane, key), "active"))
			mpib_find(d, MPIB_WARN, "lanes",
				  "mpibctl events has the reason; check the "
				  "other end's port and the switches",
				  "the lane to %s does not use its rail %s, "
				  "whose port is active here",
				  mpib_json_str(lane, "peer"), key);
	}
}

void mpib_check_lanes(struct mpib_doctor *d)
{
	const json_t *lane;
	unsigned broken = 0;
	size_t i;

	if (!d->lanes)
		return;
	json_array_foreach(d->lanes, i, lane)
	{
		if (json_is_true(json_object_get(lane, "broken")))
			broken++;
		else
			check_live(d, lane);
	}
	if (broken)
		mpib_find(d, MPIB_WARN, "lanes",
			  "end the jobs that use them; mpibctl lanes names the "
			  "peers",
			  "%u of %zu are broken", broken,
			  json_array_size(d->lanes));
	else
		mpib_find(d, MPIB_OK, "lanes", NULL, "%zu, none broken",
			  json_array_size(d->lanes));
}

/* Report peers whose link was refused by either end, for example because of a
 * wrong key or another version. */
void mpib_check_peers(struct mpib_doctor *d)
{
	const json_t *peer;
	char why[512];
	size_t i;

	json_array_foreach(d->peers, i, peer)
	{
		const json_t *refused = json_object_get(peer, "refused");

		if (!json_is_object(refused))
			continue;
		snprintf(why, sizeof(why),
			 "the link with %s was refused %" PRIu64
			 " times, last %.0f s ago: %s",
			 mpib_json_str(peer, "peer"),
			 mpib_json_num(refused, "count"),
			 mpib_json_real(refused, "age_s"),
			 mpib_json_str(refused, "why"));
		mpib_find_why(d, MPIB_WARN, "peers", why,
			      "see the logs of both proxies");
	}
}

/* Check RLIMIT_MEMLOCK of the proxy. The proxy registers the memory, so pinned
 * memory counts against its limit and not against the limit of the job. */
void mpib_check_memlock(struct mpib_doctor *d)
{
	uint64_t pid = mpib_json_num(d->greeting, "pid");
	char path[64], line[256], soft[32];
	bool found = false;
	FILE *f;

	if (!pid) /* no proxy runs, so the limit is not known */
		return;
	if (!has_rail(d, "rdma:")) {
		mpib_find(d, MPIB_OK, "memlock", NULL,
			  "a software HCA locks no memory");
		return;
	}
	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/limits", pid);
	f = fopen(path, "re");
	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, "Max locked memory %31s", soft) == 1;
	if (f)
		fclose(f);
	if (!found)
		mpib_find(d, MPIB_WARN, "memlock",
			  "run doctor as the user who runs the proxy, or in "
			  "its pid namespace",
			  "the limit of pid %" PRIu64 " cannot be read", pid);
	else if (strcmp(soft, "unlimited") != 0 &&
		 strtoull(soft, NULL, 10) < UINT64_C(1) << 30)
		mpib_find(d, MPIB_WARN, "memlock",
			  "LimitMEMLOCK=infinity in mpib-proxy.service, or "
			  "ulimit -l unlimited",
			  "the proxy may lock %s bytes only", soft);
	else
		mpib_find(d, MPIB_OK, "memlock", NULL,
			  "the proxy may lock %s%s", soft,
			  strcmp(soft, "unlimited") ? " bytes" : " memory");
}

/* Check that all devices are equally fast, because NCCL treats them as
 * equal. */

static bool is_sout(const json_t *rail)
{
	return !strcmp(mpib_json_str(rail, "name"), "SOUT");
}

/* Return the first SOUT rail with an index below i that is on the same port as
 * rail i; NULL: none. */
static const json_t *sout_twice(const struct mpib_doctor *d, size_t i)
{
	const char *dev = mpib_json_str(json_array_get(d->rails, i), "device");

	for (size_t j = 0; j < i; j++) {
		const json_t *other = json_array_get(d->rails, j);

		if (is_sout(other) &&
		    !strcmp(mpib_json_str(other, "device"), dev))
			return other;
	}
	return NULL;
}

/* Return the speed of the port of a SOUT rail. Return 0 for other rails, and
 * for a port that is down, because its speed is meaningless. */
static uint64_t devices_speed(const json_t *rail)
{
	return is_sout(rail) && !strcmp(mpib_json_str(rail, "state"), "active")
		       ? mpib_json_num(rail, "speed_mbps")
		       : 0;
}

static void check_speeds(struct mpib_doctor *d)
{
	const json_t *rail, *slow = NULL, *fast = NULL;
	size_t i;

	json_array_foreach(d->rails, i, rail)
	{
		uint64_t speed = devices_speed(rail);

		if (speed && (!slow || speed < devices_speed(slow)))
			slow = rail;
		if (speed && (!fast || speed > devices_speed(fast)))
			fast = rail;
	}
	if (slow && devices_speed(slow) < devices_speed(fast))
		mpib_find(d, MPIB_WARN, "devices",
			  "repair the slower port, or omit the device: a job "
			  "over all of them is as fast as the slowest",
			  "%s has %" PRIu64 " Gb/s and %s %" PRIu64,
			  mpib_json_str(slow, "label"),
			  devices_speed(slow) / 1000,
			  mpib_json_str(fast, "label"),
			  devices_speed(fast) / 1000);
}

void mpib_check_devices(struct mpib_doctor *d)
{
	const json_t *rail;
	unsigned souts = 0;
	size_t i;

	json_array_foreach(d->rails, i, rail)
	{
		const json_t *other = is_sout(rail) ? sout_twice(d, i) : NULL;

		souts += is_sout(rail);
		if (other)
			mpib_find(d, MPIB_WARN, "devices",
				  "give each device an HCA of its own as sout",
				  "%s and %s are both %s",
				  mpib_json_str(other, "label"),
				  mpib_json_str(rail, "label"),
				  mpib_json_str(rail, "device"));
	}
	check_speeds(d);
	if (souts > 1)
		mpib_find(d, MPIB_OK, "devices", NULL, "there are %u", souts);
}

/* If no proxy answers: check whether a proxy would start with this node's
 * settings. */

/* Start `d->proxy --check-config`. The process does not get this shell's
 * environment, which a service would not get either. Its only variable makes
 * the proxy report faults as text, whatever log.format is. *out reads the
 * process's stdout and stderr. */
static int settings_spawn(const struct mpib_doctor *d, pid_t *pid, FILE **out)
{
	char check[] = "--check-config", name[] = "mpib-proxy";
	char format[] = "MPIB_LOG_FORMAT=text"; /* for mpib_check_settings() */
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

void mpib_check_settings(struct mpib_doctor *d)
{
	static const char fault[] = "mpib-proxy: ";
	char line[1024], why[1100];
	pid_t pid = -1;
	FILE *out = NULL;
	int status = -1, rc;

	if (!d->absent)
		return;
	rc = settings_spawn(d, &pid, &out);
	while (rc == 0 && fgets(line, sizeof(line), out)) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, fault, strlen(fault)) != 0)
			continue;
		snprintf(why, sizeof(why), "mpib-proxy without options: %s",
			 line + strlen(fault));
		mpib_find_why(d, MPIB_FAIL, "settings", why,
			      "see mpib-proxy --check-config");
	}
	if (out)
		fclose(out);
	if (pid > 0)
		waitpid(pid, &status, 0);
	if (rc < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 127)) {
		mpib_find(d, MPIB_NOTE, "settings",
			  "run doctor on a node where mpib-proxy is installed",
			  "%s: %s: its settings were not checked", d->proxy,
			  rc < 0 ? strerror(-rc) : "does not run");
		return;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		mpib_find(d, MPIB_OK, "settings", NULL,
			  "mpib-proxy would start without options");
}
