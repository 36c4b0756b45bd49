/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of a proxy that has no rights of root except one, see mpib-proxy(8). */
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <mpib/client.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memseg.h"
#include "ends.h"
#include "test.h"

static const char *const none[] = { NULL };

static void need_root(void)
{
	if (geteuid() != 0)
		skip_as("needs root, to become another user");
}

/* Get the value of a field of /proc/PID/status. */
static void field(pid_t pid, const char *name, char *buf, size_t len)
{
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "r");
	assert_non_null(f);
	buf[0] = '\0';
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, name, strlen(name)))
			snprintf(buf, len, "%s",
				 line + strlen(name) +
					 strspn(line + strlen(name), ":\t"));
	}
	fclose(f);
	buf[strcspn(buf, "\n")] = '\0';
}

/* Write a hexadecimal mask with CAP_LINUX_IMMUTABLE, the only capability that
 * the proxy has. The proxy needs it to prevent holes in shared memory. Write
 * zeros if this process lacks the capability. */
static void only_right(char *text, size_t len)
{
	unsigned long long had;

	field(getpid(), "CapPrm", text, len);
	had = strtoull(text, NULL, 16);
	snprintf(text, len, "%016llx", had & 1u << CAP_LINUX_IMMUTABLE);
}

TEST(the_proxy_needs_only_one_right)
{
	struct mpib_client *c;
	struct node node;
	char text[128], right[32];
	struct stat st;

	need_root();
	only_right(right, sizeof(right));
	node_start_as_nobody(&node, 6, "65534", none);
	field(node.pid, "Uid", text, sizeof(text));
	assert_string_equal(text, "65534\t65534\t65534\t65534");
	field(node.pid, "CapEff", text, sizeof(text));
	assert_string_equal(text, right);
	field(node.pid, "CapPrm", text, sizeof(text));
	assert_string_equal(text, right);
	field(node.pid, "NoNewPrivs", text, sizeof(text));
	assert_string_equal(text, "1");
	assert_int_equal(stat(node.dir, &st), 0);
	assert_int_equal(st.st_uid, 65534);

	c = ends_attach(&node, "client");
	assert_non_null(mpib_mem_alloc(c, 1 << 20));
	mpib_detach(c);

	/* Kill the proxy and start it again. */
	node_kill(&node);
	node_again(&node);
	mpib_detach(ends_attach(&node, "client"));
	node_wipe(&node);
}

TEST(the_sockets_may_belong_to_another_group)
{
	static const char *const socks[] = { MPIB_CONTROL_SOCK,
					     MPIB_STATS_SOCK };
	const struct group *gr = getgrnam("games");
	static const char *const args[] = { "--run-group", "games", NULL };
	char groups[32], path[128];
	struct node node;
	struct stat st;

	need_root();
	if (!gr)
		skip_as("there is no group games");
	snprintf(groups, sizeof(groups), "65534,%u", gr->gr_gid);
	node_start_as_nobody(&node, 6, groups, args);
	assert_int_equal(stat(node.dir, &st), 0);
	assert_int_equal(st.st_gid, gr->gr_gid);
	for (unsigned i = 0; i < sizeof(socks) / sizeof(socks[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", node.dir, socks[i]);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_gid, gr->gr_gid);
		assert_int_equal(st.st_mode & 0777, 0660);
	}
	node_wipe(&node);
}

/* Count the lines of the file that warn about holes. */
static unsigned warnings(FILE *f)
{
	char line[512];
	unsigned n = 0;

	rewind(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "punching holes") &&
		     strstr(line, "CAP_LINUX_IMMUTABLE");
	return n;
}

/* Start a node whose stderr goes to `f`. A thread writes the warnings after the
 * node is ready, so wait for the expected number of warnings before the node is
 * stopped. */
static void start_and_end(FILE *f, unsigned expected)
{
	struct node node;
	int err = dup(2);

	dup2(fileno(f), 2);
	node_start_as_nobody(&node, 6, "65534", none);
	for (unsigned i = 0; i < 1000 && warnings(f) < expected; i++)
		usleep(10000);
	node_wipe(&node);
	dup2(err, 2);
	close(err);
}

/* A process can pass a capability to the proxy only if the capability is in its
 * bounding set. */
TEST(a_start_without_the_capability_prints_a_warning)
{
	FILE *f = tmpfile();

	need_root();
	assert_non_null(f);
	/* Set O_APPEND, because the test reads the file while the node writes,
	 * and a read changes the file position that both share. */
	assert_return_code(fcntl(fileno(f), F_SETFL, O_APPEND), 0);
	if (prctl(PR_CAPBSET_READ, CAP_LINUX_IMMUTABLE) == 1 &&
	    mpib_memseg_holes() == 0) {
		start_and_end(f, 0);
		assert_int_equal(warnings(f), 0);
	}
	assert_int_equal(prctl(PR_CAPBSET_DROP, CAP_LINUX_IMMUTABLE), 0);
	start_and_end(f, 1);
	assert_int_equal(warnings(f), 1);
	fclose(f);
}
