/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a client: attach, the death of its proxy, and fork(). */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attached.h"

#define CASE(name) TEST_OF(name, start, stop)

/* A caller that cleans up after an error may pass pointers that it never
 * set. */
CASE(closing_a_null_pointer_has_no_effect)
{
	attach();
	mpib_close(NULL);
	mpib_close_listen(NULL);
	assert_int_equal(mpib_dereg(NULL), 0);
	mpib_mem_free(c, NULL);
	mpib_detach(NULL);
	assert_int_equal(mpib_alive(c), 0);
}

static void set_up_hello(int refuse, uint32_t version, uint32_t part, bool mute)
{
	pthread_mutex_lock(&f->lock);
	f->refuse_hello = refuse;
	f->welcome.version = version;
	f->welcome.part = part;
	f->mute = mute;
	pthread_mutex_unlock(&f->lock);
}

CASE(errors_of_attach_name_the_socket_and_a_remedy)
{
	struct mpib_attach_opts nowhere = { .run_dir = "/nonexistent" };

	assert_int_equal(mpib_attach(&nowhere, &c), -ENOENT);
	assert_non_null(strstr(mpib_strerror(), "/nonexistent/proxy.sock"));
	assert_non_null(strstr(mpib_strerror(), "start mpib-proxy"));

	set_up_hello(-EPROTO, MPIB_ABI_VERSION, 128, false);
	assert_int_equal(fake_attach(f, &c), -EPROTO);
	assert_non_null(strstr(mpib_strerror(), "no room at the inn"));
	set_up_hello(0, 99, 128, false);
	assert_int_equal(fake_attach(f, &c), -EPROTO);
	assert_non_null(strstr(mpib_strerror(), "version 99"));
	set_up_hello(0, MPIB_ABI_VERSION, 100, false);
	assert_int_equal(fake_attach(f, &c), -EPROTO);
	set_up_hello(0, MPIB_ABI_VERSION, 128, true);
	assert_int_equal(fake_attach(f, &c), -ETIMEDOUT);
	assert_non_null(strstr(mpib_strerror(), "does not answer"));
	fake_proxy_die(f);
	assert_int_equal(fake_attach(f, &c), -ECONNREFUSED);
	c = NULL;
}

static struct fake_proxy *impostor(uid_t uid)
{
	struct fake_proxy *other;

	/* The system call changes the uid of this thread only. */
	assert_int_equal(syscall(SYS_setresuid, -1, uid, -1), 0);
	other = fake_proxy_beside(f);
	assert_int_equal(syscall(SYS_setresuid, -1, 0, -1), 0);
	return other;
}

CASE(a_socket_that_others_can_replace_is_not_trusted)
{
	struct fake_proxy *other;

	if (geteuid() != 0) {
		print_message("SKIPPED: needs root to change its uid\n");
		skip();
	}
	assert_int_equal(chmod(f->dir, 0777), 0);
	other = impostor(61001);
	assert_int_equal(fake_attach(f, &c), -EACCES);
	assert_non_null(strstr(mpib_strerror(), "uid 61001 listens at"));
	assert_non_null(strstr(mpib_strerror(), "mode 777"));
	assert_int_equal(chmod(f->dir, 0750), 0);
	assert_int_equal(chown(f->dir, 61002, (gid_t)-1), 0);
	assert_int_equal(fake_attach(f, &c), -EACCES);
	assert_non_null(strstr(mpib_strerror(), "belongs to uid 61002"));
	/* A user may listen in its own directory, and in a directory of root
	 * with no write access for others. */
	assert_int_equal(chown(f->dir, 61001, (gid_t)-1), 0);
	attach();
	mpib_detach(c);
	assert_int_equal(chown(f->dir, 0, (gid_t)-1), 0);
	attach();
	mpib_detach(c);
	c = NULL;
	fake_proxy_stop(other);
}

static void on_alarm(int sig)
{
}

/* Return a socket whose backlog is full, so that connect() blocks. */
static int crowded_socket(char *dir)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0), more;

	assert_non_null(mkdtemp(dir));
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/" MPIB_CONTROL_SOCK,
		 dir);
	assert_int_equal(bind(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	assert_int_equal(listen(fd, 0), 0);
	do {
		more = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
		assert_true(more >= 0);
	} while (connect(more, (struct sockaddr *)&sun, sizeof(sun)) == 0);
	assert_int_equal(errno, EAGAIN);
	return fd;
}

CASE(a_signal_does_not_end_the_wait_for_a_busy_proxy)
{
	struct sigaction on = { .sa_handler = on_alarm,
				.sa_flags = SA_RESTART };
	const struct itimerval often = { { 0, 5000 }, { 0, 5000 } };
	const struct itimerval never = { 0 };
	char dir[] = "/tmp/mpib-crowd-XXXXXX", path[64];
	struct mpib_attach_opts opts = { .run_dir = dir, .timeout_ms = 300 };
	struct sigaction was;
	int fd = crowded_socket(dir);

	sigaction(SIGALRM, &on, &was);
	setitimer(ITIMER_REAL, &often, NULL);
	assert_int_equal(mpib_attach(&opts, &c), -ETIMEDOUT);
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &was, NULL);
	c = NULL;
	close(fd);
	snprintf(path, sizeof(path), "%s/" MPIB_CONTROL_SOCK, dir);
	unlink(path);
	rmdir(dir);
}

CASE(an_answer_is_awaited_for_as_long_as_the_proxy_announced)
{
	struct mpib_listener *l;
	struct mpib_handle handle;

	f->welcome.answer_ms = 1000;
	attach();
	set_up_hello(0, MPIB_ABI_VERSION, f->welcome.part, true);
	assert_int_equal(mpib_listen(c, &handle, &l), -ETIMEDOUT);
	assert_non_null(strstr(mpib_strerror(), "within 1 s"));
	assert_non_null(strstr(mpib_strerror(), "client.answer"));
}

CASE(a_waiting_caller_notices_that_the_proxy_died)
{
	struct mpib_region *region;
	struct mpib_request *r;
	struct mpib_conn *conn;
	int done, rc = 0;
	char byte;

	attach();
	conn = connected();
	assert_int_equal(mpib_isend(conn, NULL, 0, 0, NULL, &r), 0);
	fake_proxy_die(f);
	while (rc == 0)
		rc = mpib_test(r, &done, NULL);
	assert_int_equal(rc, -EPIPE);
	assert_int_equal(mpib_alive(c), -EPIPE);
	assert_int_equal(mpib_isend(conn, NULL, 0, 0, NULL, &r), -EPIPE);
	assert_int_equal(mpib_reg(c, &byte, 1, &region), -EPIPE);
	assert_null(mpib_mem_alloc(c, 4096));
	mpib_close(conn);
}

/* A proxy that closed its connection may still write to the memory until its
 * process has ended. */
CASE(the_error_distinguishes_a_hang_up_from_the_end_of_the_proxy)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		for (;;)
			pause();
	f->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	attach();
	close(f->pidfd);
	fake_proxy_die(f);
	while (mpib_alive(c) == 0)
		;
	assert_null(strstr(mpib_strerror(), "ended"));
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(mpib_alive(c), -EPIPE);
	assert_in(mpib_strerror(), " ended (restart");
}

static void watch(void *user, struct mpib_request *r, enum mpib_watch what)
{
}

/* Call every function in the forked child, with the parent's objects. Return 0
 * if each call is refused. */
static int ask_of_the_parents(struct mpib_conn *conn, struct mpib_request *r,
			      struct mpib_listener *listener)
{
	struct mpib_rail_report rails[MPIB_RAILS] = { { .bytes = 1 } };
	struct mpib_report_times times = { .over_ns = 1 };
	struct mpib_device_info device;
	struct mpib_node_info info;
	struct mpib_region *region;
	struct mpib_conn *n;
	char byte;
	int wrong = 0;

	mpib_query(c, &info);
	wrong |= info.client != 7;
	wrong |= mpib_query_device(c, 0, &device) != -EOWNERDEAD;
	wrong |= mpib_reg(c, &byte, 1, &region) != -EOWNERDEAD;
	wrong |= mpib_reg_fd(c, &byte, 1, 0, 0, 1, &region) != -EOWNERDEAD;
	wrong |= mpib_accept(listener, &n) != -EOWNERDEAD;
	wrong |= mpib_report(conn, MPIB_REPORT_ALL, watch, NULL) != -EOWNERDEAD;
	wrong |= mpib_report(conn, MPIB_REPORT_OFF, watch, NULL) != -EOWNERDEAD;
	mpib_request_rails(r, rails);
	wrong |= rails[0].state != MPIB_RAIL_IDLE || rails[0].bytes;
	mpib_request_times(r, &times);
	wrong |= times.over_ns || times.rail[0].posted_ns;
	wrong |= mpib_request_slot(r) != 0;
	wrong |= mpib_request_buffers(r) != 1;
	mpib_close_listen(listener);
	mpib_mem_free(c, NULL);
	return wrong;
}

static int child_of_fork(struct mpib_conn *conn, struct mpib_request *r,
			 struct mpib_region *region)
{
	struct mpib_handle h = { .magic = MPIB_HANDLE_MAGIC };
	struct mpib_listener *l;
	struct mpib_request *q;
	struct mpib_conn *n;
	void *none = NULL;
	size_t zero = 0;
	int done, wrong = 0;

	wrong |= mpib_isend(conn, NULL, 0, 0, NULL, &q) != -EOWNERDEAD;
	wrong |= mpib_irecv(conn, 1, &none, &zero, NULL,
			    &(struct mpib_region *){ NULL }, &q) != -EOWNERDEAD;
	wrong |= mpib_iflush(conn, NULL, NULL, &q) != -EOWNERDEAD;
	wrong |= mpib_test(r, &done, NULL) != -EOWNERDEAD;
	wrong |= mpib_test_int(r, &done, NULL) != -EOWNERDEAD;
	wrong |= mpib_alive(c) != -EOWNERDEAD;
	wrong |= mpib_ready(conn) != -EOWNERDEAD;
	wrong |= mpib_listen(c, &h, &l) != -EOWNERDEAD;
	wrong |= mpib_connect(c, &h, -1, &n) != -EOWNERDEAD;
	wrong |= mpib_dereg(region) != -EOWNERDEAD;
	wrong |= mpib_mem_alloc(c, 1) != NULL || errno != EOWNERDEAD;
	mpib_close(conn);
	mpib_detach(c);
	return wrong;
}

CASE(a_forked_child_is_refused_and_the_parent_continues)
{
	struct mpib_region *region;
	struct mpib_request *r;
	struct mpib_handle handle;
	struct mpib_listener *listener;
	struct mpib_conn *conn;
	int status, done;
	char byte;
	pid_t pid;

	attach();
	conn = connected();
	assert_int_equal(mpib_reg(c, &byte, 1, &region), 0);
	assert_int_equal(mpib_isend(conn, NULL, 0, 0, NULL, &r), 0);
	assert_int_equal(mpib_listen(c, &handle, &listener), 0);
	pid = fork();
	if (pid == 0)
		_exit(ask_of_the_parents(conn, r, listener) |
		      child_of_fork(conn, r, region));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(mpib_alive(c), 0);
	mpib_completion_finish(&f->reply->completion[0][0], 1, 0);
	assert_int_equal(mpib_test(r, &done, NULL), 0);
	assert_int_equal(done, 1);
	assert_int_equal(mpib_dereg(region), 0);
	mpib_close(conn);
}
