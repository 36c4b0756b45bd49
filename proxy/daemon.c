/* SPDX-License-Identifier: Apache-2.0 */
/* Fork into the background, and report the outcome to the starter. */
#include "daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include "base/log.h"

/* The daemon's report. The report is shorter than PIPE_BUF, so one write() puts
 * the whole report or nothing into the pipe, see pipe(7). */
struct daemon_outcome {
	int status;
	char text[1000];
};

/* In the starter: print the daemon's report and exit. Never returns. */
static void await_daemon(int fd)
{
	struct daemon_outcome o;
	ssize_t n;

	do {
		n = read(fd, &o, sizeof(o));
	} while (n < 0 && errno == EINTR);

	if (n != (ssize_t)sizeof(o)) {
		fprintf(stderr, "mpib-proxy: start: the daemon ended before it "
				"was ready (run it in the foreground)\n");
		_exit(1);
	}
	o.text[sizeof(o.text) - 1] = '\0';
	fprintf(o.status ? stderr : stdout, "%s\n", o.text);
	fflush(NULL);
	_exit(o.status);
}

int mpib_daemon_start(int *report)
{
	int pipefd[2];
	pid_t pid;

	if (pipe2(pipefd, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid > 0) {
		close(pipefd[1]);
		waitpid(pid, NULL, 0);
		await_daemon(pipefd[0]);
	}

	/* Close all inherited descriptors. If a rank started the daemon, the
	 * rank's sockets would otherwise stay open in the daemon after the rank
	 * closes them, and the rank's peers would not notice the close. */
	syscall(SYS_close_range, 3, pipefd[1] - 1, 0);
	syscall(SYS_close_range, pipefd[1] + 1, ~0u, 0);
	/* Make a new session. After the second fork the daemon is not the
	 * session's leader, so it can never get a controlling terminal. */
	close(pipefd[0]);
	setsid();
	pid = fork();
	if (pid != 0)
		_exit(pid < 0);
	*report = pipefd[1];
	return 0;
}

static void syslog_sink(enum mpib_log_level level, const char *line)
{
	static const int priority[] = { LOG_ERR, LOG_WARNING, LOG_INFO,
					LOG_DEBUG };

	syslog(priority[level], "%s", line);
}

static void daemon_log(void)
{
	openlog("mpib-proxy", LOG_PID | LOG_CONS, LOG_DAEMON);
	mpib_log_set_sink(syslog_sink);
}

void mpib_daemon_hush(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; null >= 0 && fd < 3; fd++)
		dup2(null, fd);
	if (null > 2)
		close(null);
}

void mpib_daemon_settle(void)
{
	daemon_log();
	mpib_daemon_hush();
	if (chdir("/") < 0)
		mpib_warn("daemon: cannot leave the start directory: %m");
}

void mpib_daemon_report(int report, int status, const char *text)
{
	struct daemon_outcome o = { .status = status };

	if (status == 0)
		mpib_daemon_settle();
	snprintf(o.text, sizeof(o.text), "%s", text);
	if (write(report, &o, sizeof(o)) < 0)
		mpib_warn("daemon: cannot report to the process that started "
			  "it: %m");
	close(report);
}

/* Talk to systemd. Without libsystemd these functions do nothing. */

struct mpib_writer mpib_notify_writer = MPIB_WRITER_INIT(mpib_notify_writer);

#ifdef MPIB_HAVE_SYSTEMD

#include <stdarg.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

static void notify_write(const void *text, size_t len)
{
	(void)len;
	sd_notify(0, text);
}

void mpib_notify(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	mpib_writer_put(&mpib_notify_writer, notify_write, text,
			strlen(text) + 1);
}

uint64_t mpib_watchdog(void)
{
	uint64_t us;

	return sd_watchdog_enabled(0, &us) > 0 ? us * 1000 : 0;
}

int mpib_activation_socket(void)
{
	int n = sd_listen_fds(1);

	for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + n; fd++) {
		if (sd_is_socket(fd, AF_UNIX, SOCK_SEQPACKET, 1) > 0)
			return fd;
	}
	return -1;
}

#else

void mpib_notify(const char *fmt, ...)
{
	(void)fmt;
}

uint64_t mpib_watchdog(void)
{
	return 0;
}

int mpib_activation_socket(void)
{
	return -1;
}

#endif
