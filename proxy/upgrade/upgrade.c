/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of the link of an upgrade. Its messages are text, so that other
 * versions can parse them. */
#include "upgrade/upgrade.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <mpib/abi.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/event.h"
#include "base/text.h"
#include "client/client.h"
#include "peer/protocol.h"

#define READY_WITHIN (60 * MPIB_SEC)
#define ATTACHED_WITHIN (60 * MPIB_SEC)
#define LOOK (20 * MPIB_MSEC)
#define ANSWER_MS 60000

/* Properties that attached ranks rely on. Both programs must agree on them. */
static json_t *facts(const struct mpib_config *cfg)
{
	return json_pack("{si si si si sb ss si si}", "ABI version",
			 (int)MPIB_ABI_VERSION, "number of devices",
			 (int)cfg->engine.devices, "rails of a device",
			 (int)cfg->engine.rails, "proxy.threads",
			 (int)cfg->engine.shards, "resume", cfg->engine.resume,
			 "run.dir", cfg->run_dir, "peer_min",
			 (int)MPIB_PEER_VERSION_MIN, "peer",
			 (int)MPIB_PEER_VERSION);
}

static bool speaks_with_peers(const json_t *theirs)
{
	json_int_t min =
		json_integer_value(json_object_get(theirs, "peer_min"));
	json_int_t max = json_integer_value(json_object_get(theirs, "peer"));

	return min <= MPIB_PEER_VERSION && max >= MPIB_PEER_VERSION;
}

/* If the ranks could not resume with the successor, return -EINVAL, with the
 * reason in u->why. */
static int upgrade_compare(struct mpib_upgrade *u, const json_t *theirs)
{
	const bool served = u->clients->usage.attached > 0;
	json_t *mine = facts(u->cfg), *value;
	const char *key;
	int rc = 0;

	json_object_foreach(mine, key, value)
	{
		json_t *other = json_object_get(theirs, key);
		char *here, *there;

		if (json_equal(value, other) || !strncmp(key, "peer", 4) ||
		    !(served || !strcmp(key, "run.dir")))
			continue;
		here = json_dumps(value, JSON_ENCODE_ANY);
		there = other ? json_dumps(other, JSON_ENCODE_ANY) : NULL;
		rc = mpib_why_fail(
			u->why, -EINVAL,
			"%s: %s would be %s, the running proxy has %s (restore "
			"it, or restart mpib-proxy when no job runs)",
			u->path, key, there ? there : "unknown", here);
		free(here);
		free(there);
		break;
	}
	json_decref(mine);
	if (rc == 0 && served && !speaks_with_peers(theirs))
		rc = mpib_why_fail(
			u->why, -EINVAL,
			"%s: does not speak version %u of the peer link "
			"(upgrade all nodes when no job runs)",
			u->path, MPIB_PEER_VERSION);
	return rc;
}

static void upgrade_end(struct mpib_upgrade *u)
{
	/* In a program that never called mpib_upgrade_init(), u->loop is
	 * NULL. */
	if (!u->loop || u->link < 0)
		return;
	mpib_timer_disarm(u->loop, &u->timer);
	mpib_loop_del(u->loop, &u->watch);
	close(u->link);
	u->link = -1;
}

/* Let the upgrade fail for the reason in u->why. u->pid can be killed safely:
 * while the link is open, no other process can get this pid. */
static void upgrade_fail(struct mpib_upgrade *u, bool ended)
{
	int rc;

	if (u->pid && !ended)
		kill(u->pid, SIGKILL);
	upgrade_end(u);
	if (u->took) {
		proxy_clients_stay(u->clients);
		rc = mpib_acceptor_open(&u->clients->acceptor);
		if (rc < 0)
			mpib_err("no process can attach any more: %s (restart "
				 "mpib-proxy)",
				 strerror(-rc));
	}
	u->took = false;
	mpib_utf8_make(u->why);
	mpib_event(MPIB_LOG_WARN, "upgrade_failed", NULL,
		   "upgrade failed, pid %d continues: %s", (int)getpid(),
		   u->why);
}

static void upgrade_leave(struct mpib_upgrade *u)
{
	if (send(u->link, "go", 2, MSG_NOSIGNAL) < 0) {
		snprintf(u->why, sizeof(u->why),
			 "%s: exited (see the log of mpib-proxy)", u->path);
		upgrade_fail(u, true);
		return;
	}
	mpib_timer_disarm(u->loop, &u->timer);
	mpib_event(MPIB_LOG_INFO, "upgrade", NULL,
		   "pid %d (%s) replaces pid %d", (int)u->pid, u->path,
		   (int)getpid());
	u->leaves = true;
	u->loop->stop = true;
}

/* Check whether all clients have attached to the successor. */
static void upgrade_look(void *arg)
{
	struct mpib_upgrade *u = arg;
	char client[500];
	unsigned waits = proxy_clients_prepare(u->clients, u->number, client,
					       sizeof(client));

	if (u->clients->next_why[0]) {
		snprintf(u->why, sizeof(u->why), "%s: %s", u->path, client);
		upgrade_fail(u, false);
	} else if (waits == 0) {
		upgrade_leave(u);
	} else if (mpib_loop_now(u->loop) < u->until) {
		mpib_timer_arm(u->loop, &u->timer, LOOK, upgrade_look, u);
	} else {
		snprintf(u->why, sizeof(u->why),
			 "%s: %s did not attach to it within %u s (continue "
			 "that process if it is stopped, or end it)",
			 u->path, client,
			 (unsigned)(ATTACHED_WITHIN / MPIB_SEC));
		upgrade_fail(u, false);
	}
}

/* Let the successor accept all processes, and tell the clients to attach. */
static void upgrade_prepare(struct mpib_upgrade *u)
{
	int rc = mpib_text_send(u->link, "take", u->clients->acceptor.fd);

	if (rc < 0) {
		snprintf(u->why, sizeof(u->why),
			 "%s: exited (see the log of mpib-proxy)", u->path);
		upgrade_fail(u, true);
		return;
	}
	mpib_acceptor_close(&u->clients->acceptor);
	u->took = true;
	u->until = mpib_loop_now(u->loop) + ATTACHED_WITHIN;
	upgrade_look(u);
}

/* Handle a message: "pid N PATH", "error WHY" or "ready {...}". */
static void upgrade_hear(struct mpib_upgrade *u, const char *text)
{
	json_t *theirs;
	char *path;
	int rc;

	if (!strncmp(text, "pid ", 4)) {
		u->pid = (pid_t)strtol(text + 4, &path, 10);
		snprintf(u->path, sizeof(u->path), "%s", path + (*path == ' '));
		return;
	}
	if (!strncmp(text, "error ", 6)) {
		snprintf(u->why, sizeof(u->why), "%s", text + 6);
		upgrade_fail(u, false);
		return;
	}
	theirs = strncmp(text, "ready ", 6) ? NULL
					    : json_loads(text + 6, 0, NULL);
	if (theirs)
		rc = upgrade_compare(u, theirs);
	else
		rc = mpib_why_fail(u->why, -EPROTO,
				   "%s: answers \"%.20s\" (restart mpib-proxy, "
				   "which cannot be upgraded to this version)",
				   u->path, text);
	json_decref(theirs);
	if (rc < 0)
		upgrade_fail(u, false);
	else if (!u->took)
		upgrade_prepare(u);
}

static void on_link(void *arg, uint32_t events)
{
	struct mpib_upgrade *u = arg;
	char text[MPIB_WHY_MAX];
	ssize_t n = recv(u->link, text, sizeof(text) - 1, MSG_DONTWAIT);

	(void)events;
	if (n < 0 && errno == EAGAIN)
		return;
	if (n > 0) {
		text[n] = '\0';
		upgrade_hear(u, text);
		return;
	}
	snprintf(u->why, sizeof(u->why),
		 "%s: exited before it was ready (see the log of mpib-proxy)",
		 u->path);
	upgrade_fail(u, true);
}

static void upgrade_on_time(void *arg)
{
	struct mpib_upgrade *u = arg;

	snprintf(u->why, sizeof(u->why),
		 "%s: not ready within %u s (see the log of mpib-proxy)",
		 u->path, (unsigned)(READY_WITHIN / MPIB_SEC));
	upgrade_fail(u, false);
}

void mpib_upgrade_init(struct mpib_upgrade *u, struct mpib_loop *loop,
		       const struct mpib_config *cfg,
		       struct proxy_clients *clients, int starter)
{
	u->loop = loop;
	u->cfg = cfg;
	u->clients = clients;
	u->starter = starter;
	u->link = -1;
}

static int may_begin(struct mpib_upgrade *u)
{
	if (u->path[0] && u->path[0] != '/')
		return mpib_why_fail(
			u->why, -EINVAL,
			"%s: not an absolute path (start it with /)", u->path);
	if (u->starter < 0)
		return mpib_why_fail(
			u->why, -ESRCH,
			"the starter of this proxy failed (restart "
			"mpib-proxy)");
	if (getpid() == 1)
		return mpib_why_fail(
			u->why, -EPERM,
			"this proxy is process 1 of its container, so its end "
			"would end the container (restart the container: jobs "
			"survive that)");
	if (u->clients->usage.attached > 0 && !u->cfg->engine.resume)
		return mpib_why_fail(u->why, -EPERM,
				     "resume.grace is 0, so the connections of "
				     "%u processes would fail (upgrade when no "
				     "job runs)",
				     u->clients->usage.attached);
	return 0;
}

static int upgrade_start(struct mpib_upgrade *u)
{
	int pair[2], rc;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return mpib_why_fail(u->why, -errno,
				     "cannot make a socket: %s (raise the "
				     "limit, ulimit -n)",
				     strerror(errno));
	u->link = pair[0];
	rc = mpib_text_send(u->starter, u->path, pair[1]);
	close(pair[1]);
	if (rc == 0)
		rc = mpib_loop_add(u->loop, &u->watch, u->link, EPOLLIN,
				   on_link, u);
	if (rc < 0)
		return mpib_why_fail(u->why, rc,
				     "cannot ask the starter process for a "
				     "successor: %s (restart mpib-proxy)",
				     strerror(-rc));
	mpib_timer_arm(u->loop, &u->timer, READY_WITHIN, upgrade_on_time, u);
	return 0;
}

void mpib_upgrade_begin(struct mpib_upgrade *u, const char *path)
{
	snprintf(u->path, sizeof(u->path), "%s", path);
	u->why[0] = '\0';
	u->pid = 0;
	u->number++;
	if (may_begin(u) < 0 || upgrade_start(u) < 0)
		upgrade_fail(u, true);
}

static int to_running = -1;

void mpib_succession_find(void)
{
	const char *fd = getenv(MPIB_SUCCEEDS);

	if (!fd)
		return;
	to_running = (int)strtol(fd, NULL, 10);
	if (fcntl(to_running, F_SETFD, FD_CLOEXEC) < 0)
		to_running = -1;
	unsetenv(MPIB_SUCCEEDS);
	/* fexecve() has set the process name to the number of a descriptor. */
	prctl(PR_SET_NAME, program_invocation_short_name);
}

bool mpib_succession(void)
{
	return to_running >= 0;
}

void mpib_succession_fail(const char *why)
{
	char text[MPIB_WHY_MAX];

	if (!mpib_succession())
		return;
	snprintf(text, sizeof(text), "error %s", why);
	send(to_running, text, strlen(text), MSG_NOSIGNAL);
}

static int succession_fails(char *why)
{
	return mpib_why_fail(why, -ECANCELED,
			     "upgrade: the running proxy continues (see "
			     "its log)");
}

int mpib_succession_take(const struct mpib_config *cfg, int *control, char *why)
{
	struct pollfd p = { .fd = to_running, .events = POLLIN };
	char got[PATH_MAX];
	json_t *mine = facts(cfg);
	char *dump = json_dumps(mine, JSON_COMPACT), text[MPIB_WHY_MAX];

	json_decref(mine);
	snprintf(text, sizeof(text), "ready %s", dump ? dump : "");
	free(dump);
	if (send(to_running, text, strlen(text), MSG_NOSIGNAL) < 0 ||
	    poll(&p, 1, ANSWER_MS) <= 0)
		return succession_fails(why);
	*control = mpib_text_receive(to_running, got);
	return *control < 0 ? succession_fails(why) : 0;
}

static void on_running(void *arg, uint32_t events)
{
	char got[16];
	ssize_t n = recv(to_running, got, sizeof(got), MSG_DONTWAIT);

	(void)events;
	if (n < 0 && errno == EAGAIN)
		return;
	*(int *)arg = n == 2 && !memcmp(got, "go", 2) ? 1 : -1;
}

int mpib_succession_wait(struct mpib_loop *loop, char *why)
{
	struct pollfd p = { .fd = to_running, .events = POLLIN };
	struct mpib_io watch = { 0 };
	int goes = 0, rc;
	char end;

	rc = mpib_loop_add(loop, &watch, to_running, EPOLLIN, on_running,
			   &goes);
	while (rc >= 0 && goes == 0 && !loop->stop)
		rc = mpib_loop_turn(loop, MPIB_FOREVER);
	mpib_loop_del(loop, &watch);
	if (goes != 1)
		return succession_fails(why);
	if (poll(&p, 1, ANSWER_MS) <= 0 || recv(to_running, &end, 1, 0) > 0)
		return mpib_why_fail(why, -ETIMEDOUT,
				     "upgrade: the running proxy does not end "
				     "(kill it)");
	close(to_running);
	to_running = -1;
	return 0;
}
