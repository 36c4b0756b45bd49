/* SPDX-License-Identifier: Apache-2.0 */
#include "upgrade/upgrade.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* The program file of this proxy. */
struct own_program {
	char path[PATH_MAX];
	struct stat st;
	char **argv;
};

static void say(int link, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void say(int link, const char *fmt, ...)
{
	char text[1000];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	send(link, text, strlen(text), MSG_NOSIGNAL);
}

int mpib_text_receive(int sock, char text[PATH_MAX])
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { text, PATH_MAX };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *c;
	ssize_t n;
	int fd;

	do {
		n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
	if (!c || c->cmsg_type != SCM_RIGHTS)
		return -1;
	text[n - 1] = '\0';
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

/* Return whether more users can write this file (st) than the proxy's own
 * program (own). */
static bool is_less_protected(const struct stat *st, const struct stat *own)
{
	return (st->st_uid != 0 && st->st_uid != own->st_uid) ||
	       (st->st_mode & ~own->st_mode & (S_IWGRP | S_IWOTH));
}

/* Write this process's pid into a variable that systemd set, because the
 * variable applies only to the process that it names. */
static void adopt_variable(const char *name)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	if (getenv(name))
		setenv(name, pid, 1);
}

static void execute_successor(const struct own_program *own, char *path,
			      int link)
{
	int fd = open(path, O_PATH | O_CLOEXEC);
	char text[16];
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0) {
		say(link, "error %s: %s (give the path of an mpib-proxy)", path,
		    strerror(errno));
		return;
	}
	if (is_less_protected(&st, &own->st)) {
		say(link,
		    "error %s: owned by uid %u, mode %04o (the program must be "
		    "owned by root or uid %u, and not writable by others)",
		    path, st.st_uid, st.st_mode & 07777, own->st.st_uid);
		return;
	}
	snprintf(text, sizeof(text), "%d", link);
	setenv(MPIB_SUCCEEDS, text, 1);
	adopt_variable("LISTEN_PID");
	adopt_variable("WATCHDOG_PID");
	fcntl(link, F_SETFD, 0);
	signal(SIGCHLD, SIG_DFL);
	say(link, "pid %d %s", (int)getpid(), path);
	own->argv[0] = path;
	/* Execute the checked file, even if `path` now names another file. */
	fexecve(fd, own->argv, environ);
	say(link, "error %s: %s (give the path of an mpib-proxy)", path,
	    strerror(errno));
}

static void starter_run(struct own_program *own, int sock)
{
	char path[PATH_MAX];
	int link;

	while ((link = mpib_text_receive(sock, path)) >= 0) {
		pid_t pid = fork();

		if (pid == 0) {
			execute_successor(own, path[0] ? path : own->path,
					  link);
			_exit(127);
		}
		if (pid < 0)
			say(link,
			    "error %s: cannot fork: %s (raise the limit, "
			    "ulimit -u)",
			    path, strerror(errno));
		close(link);
	}
}

static int know_program(struct own_program *own)
{
	ssize_t n =
		readlink("/proc/self/exe", own->path, sizeof(own->path) - 1);

	if (n < 0 || stat("/proc/self/exe", &own->st) < 0)
		return -errno;
	own->path[n] = '\0';
	return 0;
}

int mpib_starter_fork(char **argv, void (*begin)(void))
{
	struct own_program own = { .argv = argv };
	int pair[2], rc = know_program(&own);
	pid_t pid;

	if (rc < 0)
		return rc;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		close(pair[0]);
		setsid(); /* get no signals of the proxy's terminal */
		signal(SIGCHLD, SIG_IGN); /* the kernel reaps its children */
		prctl(PR_SET_NAME, "mpib-starter");
		/* Start no set-user-ID program, which would run as another
		 * user. */
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		if (begin)
			begin();
		starter_run(&own, pair[1]);
		_exit(0);
	}
	rc = pid < 0 ? -errno : 0;
	close(pair[1]);
	if (rc < 0)
		close(pair[0]);
	return rc < 0 ? rc : pair[0];
}

int mpib_text_send(int sock, const char *text, int fd)
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .h = { .cmsg_len = CMSG_LEN(sizeof(int)),
			     .cmsg_level = SOL_SOCKET,
			     .cmsg_type = SCM_RIGHTS } };
	char copy[PATH_MAX]; /* iovec is not const */
	struct iovec iov = { copy, strlen(text) + 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };

	if (iov.iov_len > sizeof(copy))
		return -ENAMETOOLONG;
	memcpy(copy, text, iov.iov_len);
	memcpy(CMSG_DATA(&control.h), &fd, sizeof(fd));
	return sendmsg(sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}
