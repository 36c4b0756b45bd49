/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Let resources run out in a client or in the proxy. For any value of a limit,
 * a client that uses a little of every resource either works or is refused with
 * a reason. Connections that were made before the limit was set continue. After
 * the limit is raised, the same processes work again.
 *
 * With MPIB_TEST_SWEEP=1 the test tries all values of a limit, each with a new
 * proxy. Otherwise the test tries only some values, with the same proxy. With
 * MPIB_TEST_TALK=1 the test prints the errors.
 */
#include <dirent.h>
#include <errno.h>
#include <mpib/client.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node.h"
#include "test.h"
#include "user.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#define WINDOW "64K"
#define PART "16K"

static struct node node;
/* Shared with child processes: [0] and [1] are the outcomes with the limit, [2]
 * and [3] after the limit was raised, and [4] is the outcome of the old
 * connection. */
static struct outcome *seen;
static struct user before; /* attached before the limit was set */
static bool sweep;

static void start_node(const char *window, const char *part)
{
	struct mpib_client *c;

	node_start(&node, 6, "--client-window", window, "--client-part", part,
		   "--log-level", getenv("MPIB_TEST_TALK") ? "info" : "error",
		   NULL);
	assert_int_equal(user_attach(node.dir, &c, seen), 0);
	if (user_open(&before, c, seen) < 0)
		fail_msg("%s: %s", seen->step, seen->text);
}

static void stop_node(void)
{
	user_close(&before);
	mpib_detach(before.c);
	node_stop(&node);
}

static int start(void **state)
{
	sweep = getenv("MPIB_TEST_SWEEP") != NULL;
	seen = mmap(NULL, 5 * sizeof(*seen), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	start_node(WINDOW, PART);
	return 0;
}

static int stop(void **state)
{
	stop_node();
	munmap(seen, 5 * sizeof(*seen));
	return 0;
}

/* Use a little of every resource with the old client, and then with a new
 * client. Then move a message over the old connection. */
static void use_all(struct user *old, struct outcome *o)
{
	user_once(old->c, &o[0]);
	user_new(node.dir, &o[1]);
	o[4] = (struct outcome){ 0 };
	user_move(old, &o[4]);
}

static void judge(const char *limit, long value, const struct outcome *o,
		  bool must_work)
{
	static const char *const who[] = { "an attached client", "a new one" };

	for (unsigned i = 0; i < 2; i++) {
		const char *bad = must_work && o[i].rc ? "it has room again"
						       : user_wrong(&o[i]);

		if (getenv("MPIB_TEST_TALK") && o[i].rc)
			printf("  %s %ld, %s, %s: %d %s\n", limit, value,
			       who[i], o[i].step, o[i].rc, o[i].text);
		if (bad)
			fail_msg("%s %ld, %s, %s: %d %s: %s", limit, value,
				 who[i], o[i].step, o[i].rc, o[i].text, bad);
	}
}

static void judge_old(const char *limit, long value, const struct outcome *o)
{
	if (o->rc)
		fail_msg("%s %ld, a connection from before, %s: %d %s", limit,
			 value, o->step, o->rc, o->text);
}

/* Return the descriptor limit that lets process `pid` open `room` more
 * descriptors. */
static rlim_t limit_with_room(pid_t pid, unsigned room)
{
	bool used[1024] = { false };
	char path[64];
	struct dirent *e;
	rlim_t limit = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	assert_non_null(dir);
	while ((e = readdir(dir))) {
		int fd = atoi(e->d_name);

		if (e->d_name[0] != '.' && fd < 1024)
			used[fd] = true;
	}
	if (pid == getpid())
		used[dirfd(dir)] = false;
	closedir(dir);
	while (room > 0 || used[limit]) {
		room -= !used[limit];
		limit++;
	}
	return limit;
}

static rlim_t bytes_mapped(pid_t pid)
{
	unsigned long pages = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%lu", &pages) != 1)
		abort();
	fclose(f);
	return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static rlim_t value_of(int resource, pid_t pid, unsigned room)
{
	if (resource == RLIMIT_FSIZE)
		return room;
	return resource == RLIMIT_NOFILE ? limit_with_room(pid, room)
					 : bytes_mapped(pid) + room;
}

/* Set the soft limit, and keep the hard limit. Return the old soft limit. */
static rlim_t set_limit(pid_t pid, int resource, rlim_t value)
{
	struct rlimit was, now;

	if (prlimit(pid, resource, NULL, &was) < 0)
		abort();
	now = was;
	now.rlim_cur = value;
	if (prlimit(pid, resource, &now, NULL) < 0)
		abort();
	return was.rlim_cur;
}

/* Attach and set the limit of this process. Use a little of every resource.
 * Remove the limit, and do the same again. */
static void limited_child(int resource, unsigned room)
{
	struct mpib_client *c;
	struct user u;
	rlim_t was;

	alarm(120);
	/* a write beyond RLIMIT_FSIZE causes this signal */
	signal(SIGXFSZ, SIG_IGN);
	if (user_attach(node.dir, &c, &seen[4]) < 0 ||
	    user_open(&u, c, &seen[4]) < 0)
		_exit(1);
	was = set_limit(0, resource, value_of(resource, getpid(), room));
	use_all(&u, &seen[0]);
	if (seen[4].rc)
		_exit(2);
	set_limit(0, resource, was);
	use_all(&u, &seen[2]);
	_exit(seen[4].rc || user_move(&u, &seen[4]) ? 3 : 0);
}

static void limit_the_client(const char *name, int resource, unsigned step,
			     unsigned steps)
{
	if (!sweep) {
		steps = steps > 12 ? 12 : steps;
	}
	for (unsigned room = 0; room < step * steps; room += step) {
		pid_t pid;
		int status;

		memset(seen, 0, 5 * sizeof(*seen));
		pid = fork();
		if (pid == 0)
			limited_child(resource, room);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		judge_old(name, room, &seen[4]);
		if (status)
			fail_msg("%s %u: the process ended with 0x%x", name,
				 room, (unsigned)status);
		judge(name, room, &seen[0], false);
		judge(name, room, &seen[2], true);
	}
}

TEST(a_client_works_again_after_descriptors_ran_out)
{
	limit_the_client("client's descriptors", RLIMIT_NOFILE, 1, 16);
}

TEST(a_client_works_again_after_memory_ran_out)
{
	if (SANITIZED)
		skip_as("a sanitizer needs the address space");
	limit_the_client("client's memory", RLIMIT_AS, 1u << 20, 16);
	if (sweep)
		limit_the_client("client's memory", RLIMIT_AS, 64u << 10, 300);
}

TEST(a_client_works_again_after_the_file_size_limit_was_reached)
{
	limit_the_client("client's size of files", RLIMIT_FSIZE, 32u << 10, 3);
}

static void limit_the_proxy(const char *name, int resource, unsigned step,
			    unsigned steps)
{
	for (unsigned room = 0; room < step * steps; room += step) {
		rlim_t was;

		/* Start a new proxy for each value, so that the proxy must also
		 * make its lanes within the limit. */
		if (sweep) {
			stop_node();
			start_node(WINDOW, PART);
		}
		was = set_limit(node.pid, resource,
				value_of(resource, node.pid, room));
		use_all(&before, seen);
		judge_old(name, room, &seen[4]);
		judge(name, room, seen, false);
		set_limit(node.pid, resource, was);
		use_all(&before, seen);
		judge_old(name, room, &seen[4]);
		judge(name, room, seen, true);
	}
}

TEST(a_proxy_works_again_after_descriptors_ran_out)
{
	limit_the_proxy("proxy's descriptors", RLIMIT_NOFILE, 1,
			sweep ? 40 : 16);
}

TEST(a_proxy_works_again_after_memory_ran_out)
{
	if (SANITIZED)
		skip_as("a sanitizer needs the address space");
	limit_the_proxy("proxy's memory", RLIMIT_AS, 1u << 20, sweep ? 24 : 10);
}

/* The file size limit (RLIMIT_FSIZE) also applies to shared memory. */
TEST(a_proxy_works_again_after_the_file_size_limit_was_reached)
{
	limit_the_proxy("proxy's size of files", RLIMIT_FSIZE, 1u << 20,
			sweep ? 16 : 6);
}

/* The first number of each row is the setting's lowest valid value. */
static const struct own_limit {
	const char *name, *unlimited;
	long first, step, last;
} own_limits[] = {
	{ "quota.clients", "0", 1, 1, 3 },
	{ "quota.connections", "0", 1, 1, 7 },
	{ "quota.listeners", "0", 1, 1, 4 },
	{ "quota.regions", "0", 1, 1, 14 },
	{ "quota.memory", "0", 1, 40960, 800000 },
	{ "quota.fds", "0", 7, 1, 24 },
	{ "quota.messages", "0", 300, 100, 500 },
	{ "limit.clients", "1024", 1, 1, 3 },
};

static void set_own(const char *name, const char *value)
{
	char command[96];

	snprintf(command, sizeof(command), "set %s %s", name, value);
	json_decref(node_ask(&node, command));
}

TEST(a_request_beyond_a_limit_of_the_proxy_is_refused_with_a_reason)
{
	for (unsigned i = 0; i < sizeof(own_limits) / sizeof(own_limits[0]);
	     i++) {
		const struct own_limit *l = &own_limits[i];
		bool refused = false;

		for (long v = l->first; v <= l->last; v += l->step) {
			char text[32];

			snprintf(text, sizeof(text), "%ld", v);
			set_own(l->name, text);
			use_all(&before, seen);
			judge_old(l->name, v, &seen[4]);
			judge(l->name, v, seen, false);
			refused |= seen[0].rc || seen[1].rc;
			if (seen[0].rc == -EDQUOT || seen[1].rc == -EDQUOT)
				assert_non_null(
					strstr(seen[seen[0].rc ? 0 : 1].text,
					       l->name));
		}
		/* With at least one of the values, the proxy must have refused
		 * something. Otherwise the values would test nothing. */
		if (!refused && strcmp(l->name, "quota.messages") != 0)
			fail_msg("%s never refused anything", l->name);
		set_own(l->name, l->unlimited);
		use_all(&before, seen);
		judge(l->name, -1, seen, true);
	}
}

/* The first row has the smallest window and the smallest part. */
TEST(windows_and_parts_of_any_size_work)
{
	static const char *const sizes[][2] = {
		{ "4096", "128" },   { "4096", "4096" }, { "4224", "4096" },
		{ "65536", "128" },  { "64K", "20352" }, { "1M", "384" },
		{ "64M", "524288" },
	};

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		stop_node();
		start_node(sizes[i][0], sizes[i][1]);
		use_all(&before, seen);
		judge_old(sizes[i][0], i, &seen[4]);
		judge(sizes[i][0], i, seen, true);
	}
	stop_node();
	start_node(WINDOW, PART);
}

struct test_group test_group = { start, stop };
