/* SPDX-License-Identifier: Apache-2.0 */
/* Start and stop real proxies and other programs, see node.h. */
#include "node.h"
#include "addr.h"
#include "rails.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

#define ARGS_MAX 40
#define NOBODY 65534
#define ARGS_OWN (sizeof(((struct node *)0)->args) / sizeof(char *))
#define READY_MS 60000

unsigned long long node_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (unsigned long long)ts.tv_sec * 1000 +
	       (unsigned long long)ts.tv_nsec / 1000000;
}

static void forget_environment(void)
{
	for (char **e = environ; *e;) {
		char name[64];

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(*e, "="), *e);
		/* Keep the variables MPIB_SOFT_*, which are set for a whole
		 * test run. */
		if (!strncmp(name, "MPIB_", 5) &&
		    strncmp(name, "MPIB_SOFT_", 10))
			unsetenv(name); /* moves the next variable to `e` */
		else
			e++;
	}
}

/* Start the program `argv` with `out` as stdout and `err` as stderr. -1 means
 * the stdout or stderr of the test. */
static pid_t spawn(const char *const *argv, int out, int err)
{
	const char *path = argv[0];
	pid_t parent = getpid();
	char *args[ARGS_MAX];
	unsigned n = 0;
	pid_t pid;

	if (!strcmp(path, "mpib-proxy"))
		path = MPIB_PROXY_PATH;
	else if (!strcmp(path, "mpibctl"))
		path = MPIB_CTL_PATH;
	for (; argv[n]; n++) {
		assert_true(n + 1 < ARGS_MAX);
		args[n] = strdup(argv[n]);
	}
	args[n] = NULL;

	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(126);
		if (out >= 0)
			dup2(out, STDOUT_FILENO);
		if (err >= 0)
			dup2(err, STDERR_FILENO);
		forget_environment();
		execvp(path, args);
		_exit(127);
	}
	while (n > 0)
		free(args[--n]);
	return pid;
}

int child_end(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void take(FILE *f, char *buf, size_t len)
{
	rewind(f);
	len = fread(buf, 1, len - 1, f);
	buf[len] = '\0';
	fclose(f);
}

void run_begin(struct run *run, const char *const *argv)
{
	run->outfile = tmpfile();
	run->errfile = tmpfile();
	assert_non_null(run->outfile);
	assert_non_null(run->errfile);
	run->pid = spawn(argv, fileno(run->outfile), fileno(run->errfile));
}

static void end_run(struct run *run)
{
	run->status = child_end(run->pid);
	take(run->outfile, run->out, sizeof(run->out));
	take(run->errfile, run->err, sizeof(run->err));
}

bool run_over(struct run *run)
{
	siginfo_t info = { 0 };

	assert_int_equal(waitid(P_PID, (id_t)run->pid, &info,
				WEXITED | WNOHANG | WNOWAIT),
			 0);
	if (info.si_pid != run->pid)
		return false;
	end_run(run);
	return true;
}

void run_wait(struct run *run, const char *const *argv)
{
	run_begin(run, argv);
	end_run(run);
}

/* Read a line, and remove its newline. If no line comes within READY_MS, fail
 * the test. */
static void read_line(int fd, char *buf, size_t len)
{
	unsigned long long until = node_ms() + READY_MS;
	size_t at = 0;

	while (at + 1 < len) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		unsigned long long now = node_ms();

		if (now >= until || poll(&p, 1, (int)(until - now)) == 0)
			fail_msg("no line was printed");
		if (read(fd, buf + at, 1) != 1)
			break;
		if (buf[at] == '\n')
			break;
		at++;
	}
	buf[at] = '\0';
}

void node_rail(char *buf, size_t len, unsigned i)
{
	struct in_addr in = { htonl(test_addr(i)) };

	if (i % 10 > 1 || !test_rail(buf, len, (i / 10 + 1) % 2, i % 10))
		snprintf(buf, len, "soft:%s", inet_ntoa(in));
}

/* Begin the command line of a proxy that "nobody" runs. Return the number of
 * words. Without the capability in the bounding set, setpriv(1) would fail. */
static unsigned become_nobody(const struct node *node, const char **argv)
{
	static char groups[80], proxy[96];
	unsigned n = 0;

	snprintf(groups, sizeof(groups), "--groups=%s", node->groups);
	snprintf(proxy, sizeof(proxy), "%s/mpib-proxy", node->base);
	argv[n++] = "setpriv";
	argv[n++] = "--reuid=65534";
	argv[n++] = "--regid=65534";
	argv[n++] = groups;
	argv[n++] = "--no-new-privs";
	if (prctl(PR_CAPBSET_READ, CAP_LINUX_IMMUTABLE) == 1) {
		argv[n++] = "--inh-caps=-all,+linux_immutable";
		argv[n++] = "--ambient-caps=-all,+linux_immutable";
	}
	argv[n++] = proxy;
	return n;
}

static void launch(struct node *node)
{
	const char *argv[ARGS_MAX] = { "mpib-proxy" };
	unsigned argc = node->groups ? become_nobody(node, argv) : 1;
	const char *const own[] = { "--config", node->conf, "--run-dir",
				    node->dir,	"--sout",   node->sout,
				    "--sup",	node->sup };
	int out[2];

	for (unsigned i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		argv[argc++] = own[i];
	for (unsigned i = 0; node->args[i]; i++)
		argv[argc++] = node->args[i];
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	node->pid = spawn(argv, out[1], -1);
	close(out[1]);
	read_line(out[0], node->ready, sizeof(node->ready));
	close(out[0]);
	if (strncmp(node->ready, "ready ", 6))
		fail_msg("mpib-proxy is not ready: \"%s\"", node->ready);
}

/* Make the directory and the configuration file. */
static void prepare(struct node *node, unsigned n, const char *const *args)
{
	unsigned count = 0;
	int fd;

	snprintf(node->base, sizeof(node->base), "/tmp/mpib-node-XXXXXX");
	assert_non_null(mkdtemp(node->base));
	/* Proxies and clients of other users need access to this directory. */
	assert_int_equal(chmod(node->base, 0755), 0);
	snprintf(node->dir, sizeof(node->dir), "%s/run", node->base);
	snprintf(node->conf, sizeof(node->conf), "%s/conf", node->base);
	fd = open(node->conf, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	if (test_rail(node->sout, sizeof(node->sout), 0, 0))
		dprintf(fd, "[qp]\ntimeout = %d\n", TEST_RAIL_TIMEOUT);
#ifdef __SANITIZE_THREAD__
	/* Disable resumes, for which the client library would start threads:
	 * ThreadSanitizer does not support threads of a forked child. */
	dprintf(fd, "[resume]\ngrace = 0\n");
#endif
	close(fd);
	node_rail(node->sout, sizeof(node->sout), 10 * n);
	node_rail(node->sup, sizeof(node->sup), 10 * n + 1);
	for (; args[count]; count++) {
		assert_true(count + 1 < ARGS_OWN);
		node->args[count] = strdup(args[count]);
	}
	node->args[count] = NULL;
	node->groups = NULL;
}

void node_start_with(struct node *node, unsigned n, const char *const *args)
{
	prepare(node, n, args);
	launch(node);
}

void node_start_as_nobody(struct node *node, unsigned n, const char *groups,
			  const char *const *args)
{
	char text[256];

	prepare(node, n, args);
	node->groups = groups;
	/* "nobody" may have no access to the directories of the build. */
	snprintf(text, sizeof(text), "install -m 755 %s %s/mpib-proxy",
		 MPIB_PROXY_PATH, node->base);
	assert_int_equal(system(text), 0);
	assert_int_equal(chown(node->base, NOBODY, NOBODY), 0);
	assert_int_equal(chown(node->conf, NOBODY, NOBODY), 0);
	launch(node);
}

void node_start(struct node *node, unsigned n, ...)
{
	const char *args[ARGS_OWN];
	unsigned count = 0;
	va_list ap;

	va_start(ap, n);
	do {
		assert_true(count < ARGS_OWN);
		args[count] = va_arg(ap, const char *);
	} while (args[count++]);
	va_end(ap);
	node_start_with(node, n, args);
}

void node_again(struct node *node)
{
	launch(node);
}

void child_kill(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFSIGNALED(status))
		fail_msg("a child ended by itself with %d",
			 WEXITSTATUS(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
}

void child_freeze(pid_t pid)
{
	int status;

	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
}

unsigned proc_entries(pid_t pid, const char *what)
{
	char path[64];
	unsigned n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, what);
	d = opendir(path);
	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

uint32_t node_address(const char *rail)
{
	struct in_addr in;

	assert_int_equal(inet_pton(AF_INET, rail + strlen("soft:"), &in), 1);
	return in.s_addr;
}

void node_kill(struct node *node)
{
	assert_int_equal(kill(node->pid, SIGKILL), 0);
	assert_int_equal(child_end(node->pid), 128 + SIGKILL);
}

static void free_args(struct node *node)
{
	for (unsigned i = 0; node->args[i]; i++)
		free(node->args[i]);
}

void node_wipe(struct node *node)
{
	char text[128];

	node_kill(node);
	snprintf(text, sizeof(text), "rm -r %s", node->base);
	assert_int_equal(system(text), 0);
	free_args(node);
}

void run_dir_remove(const char *dir)
{
	static const char *const name[] = { "lock", "events", "state",
					    "clients" };
	char path[120];

	for (unsigned i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%.100s/%s", dir, name[i]);
		if (unlink(path) < 0 && (i == 0 || errno != ENOENT))
			fail_msg("%s: %m", path);
	}
	assert_int_equal(rmdir(dir), 0);
}

void node_stop(struct node *node)
{
	int status;

	assert_int_equal(kill(node->pid, SIGTERM), 0);
	status = child_end(node->pid);
	if (status != 0)
		fail_msg("mpib-proxy ended with %d", status);
	run_dir_remove(node->dir);
	assert_int_equal(unlink(node->conf), 0);
	assert_int_equal(rmdir(node->base), 0);
	free_args(node);
}

/* Connect to the socket. Return -1 if no process listens on it. */
static int try_dial(const char *dir, const char *name, int type)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%.90s/%.16s", dir, name);
	if (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == 0)
		return fd;
	close(fd);
	return -1;
}

static int dial_in(const char *dir, const char *name, int type)
{
	int fd = try_dial(dir, name, type);

	assert_true(fd >= 0);
	return fd;
}

static pid_t pid_told(const struct node *node)
{
	char path[sizeof(node->dir) + 16];
	FILE *f;
	int pid;

	snprintf(path, sizeof(path), "%s/proxy.pid", node->dir);
	f = fopen(path, "r");
	if (!f)
		return node->pid;
	if (fscanf(f, "%d", &pid) != 1)
		pid = node->pid;
	fclose(f);
	return pid;
}

void node_succeeded(struct node *node)
{
	char admin[sizeof(node->dir) + 8];
	pid_t before = node->pid;
	siginfo_t info;
	int fd;

	while ((node->pid = pid_told(node)) == before)
		usleep(1000);
	assert_int_equal(child_end(before), 0);
	while (waitid(P_PID, (id_t)node->pid, &info,
		      WEXITED | WNOHANG | WNOWAIT) < 0)
		usleep(1000);
	/* Wait for the admin socket, which the proxy creates last. */
	snprintf(admin, sizeof(admin), "%s" MPIB_ADMIN_SUFFIX, node->dir);
	while ((fd = try_dial(admin, MPIB_ADMIN_SOCK, SOCK_STREAM)) < 0)
		usleep(1000);
	close(fd);
}

int node_dial(const struct node *node, const char *name, int type)
{
	return dial_in(node->dir, name, type);
}

int node_dial_admin(const struct node *node)
{
	char dir[sizeof(node->dir) + 8];

	snprintf(dir, sizeof(dir), "%s" MPIB_ADMIN_SUFFIX, node->dir);
	return dial_in(dir, MPIB_ADMIN_SOCK, SOCK_STREAM);
}

json_t *node_ask(const struct node *node, const char *command)
{
	int fd = node_dial_admin(node);
	FILE *f = fdopen(fd, "r");
	json_t *answer, *data;
	char *line = NULL;
	size_t room = 0;

	assert_non_null(f);
	dprintf(fd, "%s\n", command);
	assert_true(getline(&line, &room, f) > 0); /* reads the greeting */
	assert_true(getline(&line, &room, f) > 0);
	answer = json_loads(line, 0, NULL);
	assert_non_null(answer);
	assert_true(json_is_true(json_object_get(answer, "ok")));
	data = json_incref(json_object_get(answer, "data"));
	json_decref(answer);
	free(line);
	fclose(f);
	return data;
}

json_int_t node_usage(const struct node *node, const char *key)
{
	json_t *info = node_ask(node, "info");
	const json_t *n = json_object_get(json_object_get(info, "usage"), key);
	json_int_t value = json_integer_value(n);

	assert_true(json_is_integer(n));
	json_decref(info);
	return value;
}

void node_until_usage(const struct node *node, const char *key, json_int_t n)
{
	unsigned long long until = node_ms() + 60000;
	json_int_t now;

	while ((now = node_usage(node, key)) != n) {
		if (node_ms() > until)
			fail_msg("%s of the usage stays %d", key, (int)now);
		usleep(1000);
	}
}
