/* SPDX-License-Identifier: Apache-2.0 */
/* Test the process mpib-proxy: that it starts, when it refuses to start, and
 * how it ends. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node.h"
#include "test.h"

static void assert_one_line(const char *text)
{
	const char *nl = strchr(text, '\n');

	if (!nl || nl[1])
		fail_msg("not one line: \"%s\"", text);
}

TEST(the_ready_line_has_the_sockets_and_rails)
{
	struct node n;
	char want[1024];

	node_start(&n, 1, NULL);
	assert_in(n.ready, "/proxy.sock");
	assert_in(n.ready, "/stats.sock");
	snprintf(want, sizeof(want), " peer-link %s:24790 SOUT %s SUP %s",
		 n.sout + 5, n.sout, n.sup);
	assert_in(n.ready, want);
	node_stop(&n);
}

TEST(a_proxy_stops_while_clients_are_connected)
{
	struct node n;
	int a, b;

	node_start(&n, 1, NULL);
	a = node_dial(&n, MPIB_CONTROL_SOCK, SOCK_SEQPACKET);
	b = node_dial(&n, MPIB_STATS_SOCK, SOCK_STREAM);
	node_stop(&n);
	close(a);
	close(b);
}

/* If the kernel had to enlarge the descriptor table within accept() or
 * recvmsg(), this call would block for an RCU grace period, since the proxy has
 * threads. */
TEST(the_descriptor_table_has_its_full_size_from_the_start)
{
	char path[64], line[256];
	unsigned long size = 0;
	struct rlimit limit;
	struct node n;
	FILE *f;

	node_start(&n, 1, NULL);
	snprintf(path, sizeof(path), "/proc/%d/status", (int)n.pid);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		sscanf(line, "FDSize: %lu", &size);
	fclose(f);
	assert_return_code(getrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_true(size >= (limit.rlim_max < 16384 ? limit.rlim_max : 16384));
	node_stop(&n);
}

TEST(a_second_proxy_is_refused_with_the_pid_of_the_first)
{
	struct node n;
	struct run r;
	char pid[32], sout[32];

	node_start(&n, 1, NULL);
	node_rail(sout, sizeof(sout), 3);
	run_wait(&r,
		 (const char *[]){ "mpib-proxy", "--config", n.conf,
				   "--run-dir", n.dir, "--sout", sout, NULL });
	snprintf(pid, sizeof(pid), "pid %d", n.pid);
	assert_int_equal(r.status, 1);
	assert_in(r.err, pid);
	assert_one_line(r.err);
	assert_string_equal(r.out, "");
	/* The first proxy must still serve clients. */
	json_decref(node_ask(&n, "info"));
	node_stop(&n);
}

TEST(the_error_names_an_address_in_use)
{
	struct node n;
	struct run r;
	char dir[100];

	node_start(&n, 1, NULL);
	snprintf(dir, sizeof(dir), "%s/other", n.base);
	run_wait(&r,
		 (const char *[]){ "mpib-proxy", "--config", n.conf,
				   "--run-dir", dir, "--sout", n.sout, NULL });
	assert_int_equal(r.status, 1);
	assert_in(r.err, "mpib-proxy: ");
	assert_in(r.err, n.sout + 5);
	run_dir_remove(dir);
	node_stop(&n);
}

TEST(files_of_a_killed_proxy_do_not_prevent_the_next_start)
{
	struct node n;

	node_start(&n, 1, NULL);
	node_kill(&n);
	node_again(&n);
	node_stop(&n);
}

TEST(the_error_names_a_missing_rail)
{
	struct run r;

	run_wait(&r, (const char *[]){ "mpib-proxy", "--config", "/dev/null",
				       "--run-dir", "/tmp/mpib-no-rail",
				       "--sout", "rdma:no_such_hca", NULL });
	assert_int_equal(r.status, 78);
	assert_in(r.err, "rdma:no_such_hca:1: ibv_open_device: ");
	assert_one_line(r.err);
	run_dir_remove("/tmp/mpib-no-rail");
}

TEST(the_daemon_command_returns_when_the_proxy_is_ready)
{
	char base[] = "/tmp/mpib-daemon-XXXXXX", dir[64], file[80], sout[32];
	struct run r;
	int pid, i;

	assert_non_null(mkdtemp(base));
	node_rail(sout, sizeof(sout), 5);
	snprintf(dir, sizeof(dir), "%s/run", base);
	run_wait(&r, (const char *[]){ "mpib-proxy", "--config", "/dev/null",
				       "--run-dir", dir, "--sout", sout,
				       "--daemon", NULL });
	assert_int_equal(r.status, 0);
	assert_int_equal(sscanf(r.out, "ready pid %d", &pid), 1);
	run_wait(&r, (const char *[]){ "mpibctl", "-s", dir, "info", NULL });
	assert_int_equal(r.status, 0);
	/* If the daemon cannot start, the command prints the daemon's error. */
	run_wait(&r, (const char *[]){ "mpib-proxy", "--config", "/dev/null",
				       "--run-dir", dir, "--sout", sout,
				       "--daemon", NULL });
	assert_int_equal(r.status, 1);
	assert_in(r.err, "already runs there");

	assert_int_equal(kill(pid, SIGTERM), 0);
	snprintf(file, sizeof(file), "%s/proxy.pid", dir);
	for (i = 0; i < 5000 && access(file, F_OK) == 0; i++)
		usleep(1000);
	run_dir_remove(dir);
	assert_int_equal(rmdir(base), 0);
}

/* Read a datagram from the service manager's socket. */
static void next_notice(int fd, char *buf, size_t len)
{
	struct timeval limit = { .tv_sec = 20 };
	ssize_t n;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	n = recv(fd, buf, len - 1, 0);
	assert_true(n > 0);
	buf[n] = '\0';
}

TEST(a_service_manager_gets_ready_and_watchdog_notices)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	unsigned ready = 0, alive = 0;
	struct node n;
	char text[512];

	snprintf(sun.sun_path, sizeof(sun.sun_path), "/tmp/mpib-notify-%d",
		 getpid());
	assert_int_equal(bind(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	setenv("NOTIFY_SOCKET", sun.sun_path, 1);
	setenv("WATCHDOG_USEC", "100000", 1);
	node_start(&n, 1, NULL);
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	while (alive < 3) {
		next_notice(fd, text, sizeof(text));
		ready += strstr(text, "READY=1") != NULL;
		alive += strstr(text, "WATCHDOG=1") != NULL;
	}
	assert_int_equal(ready, 1);
	node_stop(&n);
	do {
		next_notice(fd, text, sizeof(text));
	} while (!strstr(text, "STOPPING=1"));
	close(fd);
	unlink(sun.sun_path);
}
