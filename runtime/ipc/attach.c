/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attach a process to mpib-proxy as a client, and detach it. To attach, the
 * library finds the control socket, starts a proxy if none runs, sends HELLO,
 * and maps the segments that the proxy sends in its WELCOME. This file also
 * contains the queries about the proxy and its devices.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/run_dir.h"
#include "ipc/client.h"
#include "ipc/message.h"

/* How long mpib_attach() retries, in ms. The proxy may still be starting, or
 * may still be waiting for the clients of an earlier proxy. */
#define WAIT_MS 60000
#define START_LOOK_MS 10

unsigned mpib_forks;

static void count_fork(void)
{
	mpib_forks++;
}

/* Runs when the library is loaded. */
__attribute__((constructor)) static void attach_watch_forks(void)
{
	pthread_atfork(NULL, NULL, count_fork);
}

const char *mpib_run_dir(char *buf, size_t len)
{
	return mpib_run_dir_default(buf, len);
}

static int find_socket(const char *run_dir, char *path, size_t len)
{
	char dir[96];
	int n = -1;

	if (!run_dir)
		run_dir = mpib_run_dir(dir, sizeof(dir));
	if (run_dir)
		n = snprintf(path, len, "%s/" MPIB_CONTROL_SOCK, run_dir);
	if (n >= 0 && (size_t)n < len)
		return 0;
	return mpib_fail(-ENAMETOOLONG,
			 "%s: too long for a socket's path (choose a shorter "
			 "run directory)",
			 run_dir ? run_dir : "MPIB_RUN_DIR");
}

/* Connect to the proxy. If the backlog of the proxy's socket is full, wait
 * until the backlog has room or the deadline has passed. */
static int attach_dial(int sock, const struct sockaddr_un *sun,
		       uint64_t deadline)
{
	uint64_t now = mpib_now_ms(),
		 left = now < deadline ? deadline - now : 0;
	struct timeval tv = { .tv_sec = (time_t)(left / 1000),
			      .tv_usec = (suseconds_t)(left % 1000 * 1000) };

	if (left == 0)
		return -ETIMEDOUT; /* a timeout of 0 means no limit */
	if (setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) == 0 &&
	    connect(sock, (const struct sockaddr *)sun, sizeof(*sun)) == 0)
		return 0;
	return errno == EAGAIN ? -ETIMEDOUT : -errno;
}

static int connect_socket(struct mpib_client *c, struct mpib_attached *at,
			  uint64_t deadline)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int rc;

	memcpy(sun.sun_path, c->path, sizeof(sun.sun_path));
	at->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (at->sock < 0)
		return mpib_fail(-errno, "socket: %m (see ulimit -n)");
	/* If SO_SNDTIMEO is set, connect() returns EINTR after a signal, even
	 * if the signal's handler has SA_RESTART (signal(7)). */
	do {
		rc = attach_dial(at->sock, &sun, deadline);
	} while (rc == -EINTR);
	if (rc == -EACCES)
		return mpib_fail(rc,
				 "this user may not use %s: %s (add the user "
				 "to the group that owns it: adduser USER "
				 "mpib; then log in again)",
				 c->path, mpib_errtext(rc));
	if (rc < 0)
		return mpib_fail(rc,
				 "no mpib-proxy answers at %s: %s (start "
				 "mpib-proxy on this node, or set MPIB_RUN_DIR "
				 "to its run directory)",
				 c->path, mpib_errtext(rc));
	return 0;
}

/* Set `label` to the name of the Slurm job or the Kubernetes pod that this
 * process belongs to, or to "" if there is none. */
static void attach_label(char *label, size_t len)
{
	const char *job = getenv("SLURM_JOB_ID");
	const char *step = getenv("SLURM_STEP_ID");

	label[0] = '\0';
	if (job) {
		snprintf(label, len, "slurm %s%s%s", job, step ? "." : "",
			 step ? step : "");
	} else if (getenv("KUBERNETES_SERVICE_HOST")) {
		/* A pod's host name is the name of the pod. */
		snprintf(label, len, "pod ");
		gethostname(label + 4, len - 5);
		label[len - 1] = '\0';
	}
}

static void make_hello(struct mpib_ctl_hello *hello,
		       const struct mpib_attach_opts *opts)
{
	*hello = (struct mpib_ctl_hello){
		.h = { .type = MPIB_CTL_HELLO, .id = 1, .len = sizeof(*hello) },
		.version = MPIB_ABI_VERSION,
		.job = opts->job,
		.device = opts->device,
	};
	snprintf(hello->name, sizeof(hello->name), "%s",
		 opts->name ? opts->name : program_invocation_short_name);
	attach_label(hello->label, sizeof(hello->label));
}

static int attach_send_hello(const struct mpib_client *c, int sock)
{
	int rc = mpib_message_send(sock, &c->hello.h, NULL, 0);

	/* -EPIPE and -ECONNRESET mean that the proxy hung up. In this case do
	 * not fail here: the proxy may have sent the reason before it hung up,
	 * and recv_welcome() reads the reason. */
	if (rc < 0 && rc != -EPIPE && rc != -ECONNRESET)
		return mpib_fail(rc, "mpib-proxy at %s hung up: %s", c->path,
				 mpib_errtext(rc));
	return 0;
}

static int recv_welcome(struct mpib_client *c, int sock, uint64_t deadline,
			struct mpib_message *m)
{
	int rc = mpib_wait_socket(c, sock, POLLIN, deadline);
	char why[256];

	if (rc == -ETIMEDOUT)
		return mpib_fail(rc,
				 "mpib-proxy at %s does not answer (is it "
				 "stopped?)",
				 c->path);
	if (rc == 0)
		rc = mpib_message_recv(sock, m);
	/* The proxy hung up without reading the HELLO. The first recvmsg()
	 * reported only the hang-up. The second recvmsg() returns the data that
	 * the proxy had sent before. */
	if (rc == -ECONNRESET)
		rc = mpib_message_recv(sock, m);
	if (rc == -EMFILE)
		return mpib_fail(rc,
				 "no file descriptors are left to receive the "
				 "descriptors of mpib-proxy at %s (raise the "
				 "limit, ulimit -n)",
				 c->path);
	if (rc <= 0)
		return mpib_fail(rc == 0 ? -ECONNREFUSED : rc,
				 "mpib-proxy at %s hung up (see its log)",
				 c->path);
	rc = mpib_rpc_check(m, 0);
	if (rc == 0)
		return 0;
	snprintf(why, sizeof(why), "%s", mpib_strerror());
	return mpib_fail(rc, "%s: %s", c->path, why);
}

static int check_welcome(const struct mpib_client *c, struct mpib_attached *at,
			 const struct mpib_message *m)
{
	if (m->len < sizeof(at->welcome) || m->fds < MPIB_WELCOME_PIDFD)
		return mpib_fail(
			-EPROTO,
			"%s: the WELCOME is too short or lacks descriptors",
			c->path);
	memcpy(&at->welcome, m->bytes, sizeof(at->welcome));
	if (at->welcome.version != MPIB_ABI_VERSION)
		return mpib_fail(-EPROTO,
				 "%s: the proxy speaks version %u, this client "
				 "%u (upgrade the older one)",
				 c->path, at->welcome.version,
				 MPIB_ABI_VERSION);
	if (at->welcome.shard >= MPIB_SHARDS_MAX || at->welcome.devices < 1 ||
	    at->welcome.devices > MPIB_DEVICES || at->welcome.part == 0 ||
	    at->welcome.part % MPIB_ALIGN || at->welcome.window % MPIB_ALIGN ||
	    at->welcome.window < at->welcome.part ||
	    at->welcome.window > MPIB_WINDOW_MAX)
		return mpib_fail(-EPROTO, "%s: the WELCOME has invalid values",
				 c->path);
	return 0;
}

static int map_segments(const struct mpib_client *c, struct mpib_attached *at,
			const struct mpib_message *m)
{
	static const size_t size[3] = { sizeof(struct mpib_status),
					sizeof(struct mpib_submit),
					sizeof(struct mpib_reply) };

	for (int i = 0; i < 3; i++) {
		int rc = mpib_memseg_attach(&at->seg[i], m->fd[i], size[i],
					    i == 1);

		if (rc < 0)
			return mpib_fail(rc,
					 "%s: cannot map segment %d: %s (see "
					 "ulimit -v)",
					 c->path, i, mpib_errtext(rc));
	}
	at->status = at->seg[0].addr;
	at->submit = at->seg[1].addr;
	at->reply = at->seg[2].addr;
	return 0;
}

/* `listens` is the uid of the process that listens at the socket. Check that
 * only this user and root can write to the run directory. Any other user with
 * write access could listen at the socket's path while no proxy runs. */
static int check_owner(const struct mpib_client *c, uid_t listens)
{
	char dir[sizeof(c->path)];
	struct stat st;
	int fd, rc;

	if (listens == 0 || listens == geteuid())
		return 0;
	memcpy(dir, c->path, sizeof(dir));
	*strrchr(dir, '/') = '\0';
	fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return mpib_fail(-errno, "%s: %m", dir);
	rc = mpib_fstat(fd, &st);
	close(fd);
	if (rc < 0)
		return mpib_fail(-errno, "%s: %m", dir);
	if ((st.st_uid == 0 || st.st_uid == listens) &&
	    !(st.st_mode & (S_IWGRP | S_IWOTH)))
		return 0;
	return mpib_fail(-EACCES,
			 "uid %u listens at %s, but the directory belongs to "
			 "uid %u and has mode %o, so other users can replace "
			 "the socket (chmod go-w, or start mpib-proxy with "
			 "another run directory)",
			 (unsigned)listens, c->path, (unsigned)st.st_uid,
			 (unsigned)st.st_mode & 07777);
}

static int check_proxy(struct mpib_client *c, const struct mpib_attached *at)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(at->sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return mpib_fail(-errno, "SO_PEERCRED: %m");
	if (!c->at)
		c->proxy_uid = cred.uid;
	if (cred.uid == c->proxy_uid || cred.uid == 0)
		return check_owner(c, cred.uid);
	return mpib_fail(-EACCES,
			 "the process that listens at %s has uid %u, but the "
			 "previous proxy had uid %u (start mpib-proxy as that "
			 "user)",
			 c->path, (unsigned)cred.uid, (unsigned)c->proxy_uid);
}

static int attach_set_up(struct mpib_client *c, struct mpib_attached *at,
			 uint64_t deadline)
{
	struct mpib_message m;
	int rc = attach_send_hello(c, at->sock);

	if (rc == 0)
		rc = recv_welcome(c, at->sock, deadline, &m);
	if (rc < 0)
		return rc;
	rc = check_welcome(c, at, &m);
	if (rc == 0)
		rc = map_segments(c, at, &m);
	if (rc == 0) {
		at->doorbell = m.fd[3];
		if (m.fds > MPIB_WELCOME_PIDFD)
			at->pidfd = m.fd[MPIB_WELCOME_PIDFD];
		m.fds = 3;
	}
	mpib_message_close_fds(&m);
	return rc;
}

static void close_descriptors(struct mpib_attached *at)
{
	const int fd[] = { at->sock, at->doorbell, at->pidfd };

	for (unsigned i = 0; i < 3; i++) {
		if (fd[i] >= 0)
			close(fd[i]);
	}
}

void mpib_attached_put(struct mpib_attached *at)
{
	if (--at->users > 0)
		return;
	for (uint32_t i = 0; i < at->used; i++) {
		mpib_pool_free(at->index[i].window);
		mpib_pool_free(at->index[i].before);
	}
	close_descriptors(at);
	for (unsigned i = 0; i < 3; i++)
		mpib_memseg_fini(&at->seg[i]);
	free(at);
}

int mpib_attach_there(struct mpib_client *c, struct mpib_attached **attached)
{
	struct mpib_attached *at = calloc(1, sizeof(*at));
	uint64_t deadline = mpib_now_ms() + c->answer_ms;
	int rc;

	if (!at)
		return mpib_fail(-ENOMEM, "out of memory");
	at->sock = at->doorbell = at->pidfd = -1;
	at->users = 1;
	at->serves = true;
	rc = connect_socket(c, at, deadline);
	if (rc == 0)
		rc = check_proxy(c, at);
	if (rc == 0)
		rc = attach_set_up(c, at, deadline);
	if (rc == 0)
		*attached = at;
	else
		mpib_attached_put(at);
	return rc;
}

/*
 * If no proxy answers, start the program that MPIB_START names. If several
 * processes find no proxy in a run directory, one of them locks the lock file
 * in that directory and starts a proxy. The others wait.
 */

/* Start the program with --daemon. Its standard streams are /dev/null, its
 * signal actions are the defaults, and its signal mask is empty. */
static int start_spawn(const char *program, char *dir, pid_t *pid)
{
	char name[] = "mpib-proxy", daemon[] = "--daemon", at[] = "--run-dir";
	char *argv[] = { name, daemon, at, dir, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t set;
	int rc;

	posix_spawn_file_actions_init(&files);
	for (int fd = 0; fd < 3; fd++)
		posix_spawn_file_actions_addopen(&files, fd, "/dev/null",
						 O_RDWR, 0);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK |
						POSIX_SPAWN_SETSIGDEF);
	sigemptyset(&set);
	posix_spawnattr_setsigmask(&attr, &set);
	sigfillset(&set);
	posix_spawnattr_setsigdefault(&attr, &set);
	rc = posix_spawnp(pid, program, &files, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return -rc;
}

/* Wait until the daemon is ready or `deadline` (ms) has passed. The child
 * process `pid` exits when its daemon is ready. If the rank's program reaps the
 * child itself, waitpid() fails, and the wait ends. After the deadline, do not
 * kill the daemon, because other ranks may be waiting for it. */
static int start_wait(const struct mpib_client *c, const char *dir, pid_t pid,
		      uint64_t deadline)
{
	struct pollfd stop = { .fd = c->helper.stop, .events = POLLIN };
	int status = 0;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (poll(&stop, 1, START_LOOK_MS) > 0)
			return -ENOEXEC; /* the client detaches */
		if (mpib_now_ms() >= deadline)
			return mpib_fail(
				-ENOEXEC,
				"%s --daemon --run-dir %s, which MPIB_START "
				"names, is not ready yet (see the log of "
				"mpib-proxy, or run it in the foreground)",
				c->start, dir);
	}
	if (status != 0)
		return mpib_fail(-ENOEXEC,
				 "%s --daemon --run-dir %s, which MPIB_START "
				 "names, ended with status %d (run it by hand "
				 "to see why)",
				 c->start, dir,
				 WIFEXITED(status) ? WEXITSTATUS(status)
						   : 128 + WTERMSIG(status));
	return 0;
}

static int start_locked(const struct mpib_client *c, char *dir,
			uint64_t deadline)
{
	pid_t pid;
	int rc = start_spawn(c->start, dir, &pid);

	if (rc < 0)
		return mpib_fail(-ENOEXEC,
				 "%s, which MPIB_START names: %s (set "
				 "MPIB_START to mpib-proxy, or to the path of "
				 "mpib-proxy)",
				 c->start, mpib_errtext(rc));
	return start_wait(c, dir, pid, deadline);
}

/* Start a proxy and wait until it is ready or `deadline` (ms) has passed.
 * Returns -EBUSY if another process is starting a proxy. Returns -ENOEXEC, and
 * sets the error text, if no proxy could be started. */
static int start_proxy(const struct mpib_client *c, uint64_t deadline)
{
	char dir[sizeof(c->path)];
	int at, lock, rc;

	memcpy(dir, c->path, sizeof(dir));
	*strrchr(dir, '/') = '\0';
	mkdir(dir, 0750);
	at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	rc = at < 0 ? -errno : mpib_lockfile_take(at, "starting", &lock);
	if (at >= 0)
		close(at);
	if (rc == 0)
		rc = start_locked(c, dir, deadline);
	else if (rc != -EBUSY)
		rc = mpib_fail(-ENOEXEC,
			       "no proxy can be started in %s: %s (set "
			       "MPIB_RUN_DIR to a directory of this user)",
			       dir, mpib_errtext(rc));
	if (at >= 0 && lock >= 0)
		close(lock);
	return rc;
}

/* Return true if MPIB_START names a program, and the result `rc` of an attempt
 * to attach means that no proxy runs. Then this process may start a proxy. */
static bool attach_may_start(const struct mpib_client *c, int rc)
{
	return c->start[0] && (rc == -ENOENT || rc == -ECONNREFUSED);
}

int mpib_attach_once(struct mpib_client *c, uint64_t deadline,
		     struct mpib_attached **attached)
{
	int rc = mpib_attach_there(c, attached), started;
	char why[400];

	if (!attach_may_start(c, rc))
		return rc;
	started = start_proxy(c, deadline);
	snprintf(why, sizeof(why), "%s", mpib_strerror());
	/* Attach even if the start failed: another process may have started a
	 * proxy first. */
	rc = mpib_attach_there(c, attached);
	if (rc < 0 && started < 0 && started != -EBUSY)
		return mpib_fail(started, "%s", why);
	return rc;
}

static int attach_first(struct mpib_client *c)
{
	uint64_t until = mpib_now_ms() + WAIT_MS;
	int rc;

	for (;;) {
		rc = mpib_attach_once(c, until, &c->at);
		if ((rc != -EINPROGRESS && !attach_may_start(c, rc)) ||
		    mpib_now_ms() >= until)
			return rc;
		poll(NULL, 0, 20);
	}
}

/* Return the attach options with all defaults filled in. A caller that was
 * built with an older release has a shorter struct mpib_attach_opts. The
 * missing members get their defaults. */
static struct mpib_attach_opts full_opts(const struct mpib_attach_opts *opts)
{
	struct mpib_attach_opts o = { 0 };
	size_t size = opts && opts->size ? opts->size : sizeof(o);

	if (opts)
		memcpy(&o, opts, size < sizeof(o) ? size : sizeof(o));
	/* The default is 10 s, because the proxy may need more than 2 s to
	 * answer if all cores of the node are busy. */
	if (o.timeout_ms == 0)
		o.timeout_ms = 10000;
	return o;
}

int mpib_attach(const struct mpib_attach_opts *opts,
		struct mpib_client **client)
{
	struct mpib_attach_opts o = full_opts(opts);
	struct mpib_client *c = calloc(1, sizeof(*c));
	const char *start = getenv("MPIB_START");
	int rc;

	if (!c)
		return mpib_fail(-ENOMEM, "out of memory");
	c->answer_ms = o.timeout_ms;
	c->helper.wake = c->helper.stop = c->helper.keeper = -1;
	make_hello(&c->hello, &o);
	snprintf(c->start, sizeof(c->start), "%s", start ? start : "");
	TAILQ_INIT(&c->memories);
	c->forks = mpib_forks;
	atomic_init(&c->living, MPIB_ATTACHED(1) | c->forks);
	rc = find_socket(o.run_dir, c->path, sizeof(c->path));
	if (rc < 0)
		goto err_free;
	rc = attach_first(c);
	if (rc < 0)
		goto err_free;
	c->at->number = c->attaches = 1;
	c->at->state = MPIB_ATTACH_WHOLE;
	c->hello.shard = c->at->welcome.shard + 1;
	c->answer_ms = c->at->welcome.answer_ms;
	c->next_id = 1;
	pthread_mutex_init(&c->lock, NULL);
	mpib_helper_start(c);
	*client = c;
	return 0;

err_free:
	free(c);
	return rc;
}

static void free_objects(struct mpib_client *c)
{
	struct mpib_listener *l;
	struct mpib_region *r;
	struct mpib_conn *conn;
	struct mpib_pool *p;

	while ((conn = LIST_FIRST(&c->conns))) {
		LIST_REMOVE(conn, link);
		/* The helper has ended, so no other thread changes
		 * conn->next. */
		if (atomic_load(&conn->next_state) != MPIB_NEXT_NONE)
			mpib_attached_put(conn->next.at);
		mpib_attached_put(conn->at);
		mpib_conn_free(conn);
	}
	while ((l = LIST_FIRST(&c->listeners))) {
		LIST_REMOVE(l, link);
		free(l);
	}
	while ((p = LIST_FIRST(&c->pools))) {
		LIST_REMOVE(p, link);
		mpib_pool_free(p);
	}
	while ((r = LIST_FIRST(&c->regions))) {
		LIST_REMOVE(r, link);
		free(r);
	}
	while ((r = LIST_FIRST(&c->graves))) {
		LIST_REMOVE(r, link);
		free(r);
	}
}

void mpib_detach(struct mpib_client *client)
{
	struct mpib_client *c = client;

	if (!c)
		return;
	if (c->forks == mpib_forks)
		mpib_helper_stop(c);
	/* The process that attached shuts the socket down. So the proxy notices
	 * the hang-up and cleans up, even if a forked child has a copy of the
	 * socket. A forked child closes only its copies of the descriptors: the
	 * child did not inherit the segments, and fork() may have copied the
	 * client's lists while another thread was changing them. */
	mpib_keep_stop(c);
	if (c->helper.wake >= 0)
		close(c->helper.wake);
	if (c->helper.stop >= 0)
		close(c->helper.stop);
	if (c->forks != mpib_forks) {
		close_descriptors(c->at);
		if (c->successor)
			close_descriptors(c->successor);
		return;
	}
	shutdown(c->at->sock, SHUT_RDWR);
	mpib_successor_drop(c);
	mpib_debts_forget(c);
	free_objects(c);
	mpib_attached_put(c->at);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

int mpib_alive(struct mpib_client *client)
{
	int rc = mpib_client_check(client);

	return rc < 0 ? rc : mpib_client_look_now(client);
}

void mpib_query(struct mpib_client *client, struct mpib_node_info *info)
{
	const struct mpib_ctl_welcome *w;
	const bool forked = client->forks != mpib_forks;

	if (!forked)
		mpib_client_hold(client);
	w = &client->at->welcome;
	*info = (struct mpib_node_info){
		.client = w->client,
		.dmabuf = (int)w->dmabuf,
		.devices = w->devices,
		.device = w->device,
	};
	if (!forked)
		mpib_client_unlock(client);
}

static int device_ask(struct mpib_client *c, unsigned device,
		      struct mpib_device_info *info)
{
	const struct mpib_ctl_device *got;
	struct mpib_message m;
	int rc = mpib_client_lock(c);

	if (rc < 0)
		return rc;
	rc = mpib_rpc_of(c, MPIB_CTL_DEVICE, device, &m, sizeof(*got));
	if (rc == 0) {
		mpib_message_close_fds(&m);
		got = (const void *)m.bytes;
		*info = got->info;
	}
	mpib_client_unlock(c);
	return rc == -EPIPE && mpib_client_again(c)
		       ? device_ask(c, device, info)
		       : rc;
}

int mpib_query_device(struct mpib_client *client, unsigned device,
		      struct mpib_device_info *info)
{
	int rc = device_ask(client, device, info);

	if (rc < 0)
		return rc;
	if (info->rails < 1 || info->rails > MPIB_RAILS)
		return mpib_fail(-EPROTO, "%s: a device has invalid values",
				 client->path);
	info->name[sizeof(info->name) - 1] = '\0';
	for (int i = 0; i < info->rails; i++) {
		struct mpib_rail_info *r = &info->rail[i];

		r->name[sizeof(r->name) - 1] = '\0';
		r->pci_path[sizeof(r->pci_path) - 1] = '\0';
	}
	return 0;
}
