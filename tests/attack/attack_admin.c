/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attackers without permission try to change settings: over the stats socket,
 * from a container, and as root of a user namespace.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"
#include "victim.h"

static struct node node[2];
static struct victim *victim;

static int setup(void **state)
{
	static const char *const args[] = { "--fault", "yes", NULL };

	victim = victim_between(node, args);
	return 0;
}

/* Send the command and wait for the answer. Return 0 if the proxy accepted the
 * command, 1 if the proxy refused it, 2 if `fd` is invalid, and 3 if no answer
 * came. */
static int give(int fd, const char *command)
{
	char line[4096];
	FILE *f;
	int rc = 3;

	if (fd < 0)
		return 2;
	f = fdopen(fd, "r");
	if (!f)
		return 3;
	dprintf(fd, "%s\n", command);
	/* The first line is the greeting, and the second line is the answer. */
	for (unsigned i = 0; i < 2; i++) {
		if (!fgets(line, sizeof(line), f))
			line[0] = '\0';
	}
	if (line[0]) {
		bool ok = strstr(line, "\"ok\":true");

		rc = ok || strstr(line, "\"ok\": true") ? 0 : 1;
		fprintf(stderr, "%s: %s", command, line);
	}
	fclose(f);
	return rc;
}

static int give_stats(const char *command)
{
	return give(tenant_dial(node[0].dir, MPIB_STATS_SOCK, SOCK_STREAM),
		    command);
}

static int give_admin(const char *command)
{
	char dir[120];

	snprintf(dir, sizeof(dir), "%s" MPIB_ADMIN_SUFFIX, node[0].dir);
	return give(tenant_dial(dir, MPIB_ADMIN_SOCK, SOCK_STREAM), command);
}

static const char *const changes[] = { "drain SUP", "kick 1",
				       "set log.level debug",
				       "set limit.readers 1", "fault SUP" };

/* The stats socket must not change a setting, not even for root. */
static int change_by_stats(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		if (give_stats(changes[i]) != 1)
			return 1 + (int)i;
	}
	return 0;
}

TEST(the_stats_socket_cannot_change_settings)
{
	attack_needs_root();
	assert_int_equal(tenant_run(ATTACKER, change_by_stats, NULL), 0);
	assert_int_equal(tenant_run(0, change_by_stats, NULL), 0);
}

/* Enter a new mount namespace whose root directory contains only the run
 * directory. The process still has uid 0 on the host, like root of a pod
 * without user namespaces. */
static int be_a_pod(void *arg)
{
	char root[128], at[160];

	(void)arg;
	snprintf(root, sizeof(root), "%s/pod", node[0].base);
	snprintf(at, sizeof(at), "%s/run", root);
	if (unshare(CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mkdir(root, 0755) || mount("pod", root, "tmpfs", 0, NULL) ||
	    mkdir(at, 0755) ||
	    mount(node[0].dir, at, NULL, MS_BIND | MS_REC, NULL) ||
	    chroot(root) || chdir("/"))
		return 91;
	if (give(tenant_dial("/run", MPIB_STATS_SOCK, SOCK_STREAM),
		 "drain SUP") != 1)
		return 1;
	/* The run directory is mounted into pods, so the admin socket must not
	 * be in it. */
	return access("/run/" MPIB_ADMIN_SOCK, F_OK) == 0 ? 2 : 0;
}

TEST(root_of_a_pod_cannot_change_settings)
{
	char root[128];
	int rc;

	attack_needs_root();
	rc = tenant_run(0, be_a_pod, NULL);
	snprintf(root, sizeof(root), "%s/pod", node[0].base);
	rmdir(root);
	assert_int_equal(rc, 0);
}

static int be_root_of_a_user_namespace(void *arg)
{
	uid_t uid = getuid();
	char map[32];
	int fd;

	(void)arg;
	if (unshare(CLONE_NEWUSER) < 0)
		return 77; /* user namespaces are not allowed here */
	fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
	snprintf(map, sizeof(map), "0 %u 1", uid);
	if (fd < 0 || write(fd, map, strlen(map)) < 0 || getuid() != 0)
		return 77;
	if (give_admin("drain SUP") != 2)
		return 1;
	if (give_stats("fault SUP") != 1)
		return 3;
	return give_stats("drain SUP") == 1 ? 0 : 2;
}

TEST(root_of_a_user_namespace_has_no_more_rights_than_its_user)
{
	int rc;

	attack_needs_root();
	rc = tenant_run(ATTACKER, be_root_of_a_user_namespace, NULL);
	if (rc == 77)
		skip_as("no user namespaces here");
	assert_int_equal(rc, 0);
}

static int connect_to_admin(void *arg)
{
	(void)arg;
	return give_admin("info") == 2 ? 0 : 1;
}

TEST(a_tenant_cannot_reach_the_admin_socket)
{
	attack_needs_root();
	assert_int_equal(tenant_run(ATTACKER, connect_to_admin, NULL), 0);
}

/* The admin socket must work for root. Otherwise the attacks above would prove
 * nothing. */
TEST(root_can_change_settings_by_the_admin_socket)
{
	attack_needs_root();
	assert_int_equal(give_admin("drain SUP"), 0);
	assert_int_equal(give_admin("resume SUP"), 0);
	assert_int_equal(give_admin("fault SUP"), 0);
	assert_int_equal(give_admin("set log.level info"), 0);
}

struct test_group test_group = { setup, victim_teardown };
