/* SPDX-License-Identifier: Apache-2.0 */
/* Connect to the stats socket, send commands and read answers. */
#include "ctl/dial.h"

#include <errno.h>
#include <mpib/control.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/run_dir.h"
#include "base/text.h"

#define PATIENCE_S 10
#define PROBE_S 2 /* short, because callers probe repeatedly */

static int dial_fail(struct mpib_dial *d, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int dial_fail(struct mpib_dial *d, int status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(d->why, sizeof(d->why), fmt, ap);
	va_end(ap);
	return status;
}

bool mpib_dial_path(const char *run_dir, const char *name, char *buf,
		    size_t len)
{
	char own[128];

	if (!run_dir)
		run_dir = mpib_run_dir_default(own, sizeof(own));
	return run_dir && snprintf(buf, len, "%s/%s", run_dir, name) < (int)len;
}

static int dial_unreachable(struct mpib_dial *d, int error)
{
	const char *remedy = "start mpib-proxy, or name its run directory by "
			     "-s or MPIB_RUN_DIR";

	d->absent = error == ENOENT || error == ECONNREFUSED;
	d->silent = error == EAGAIN; /* the proxy's accept queue is full */
	if (d->silent)
		return dial_fail(d, MPIB_EXIT_NO_PROXY,
				 "%s: the proxy does not accept connections "
				 "(see its log, and whether it gets CPU time)",
				 d->path);
	if (error == EACCES)
		remedy = "adduser USER mpib, or the group in run.group, then "
			 "log in again; if there is no such group, add it and "
			 "restart mpib-proxy first";
	return dial_fail(d, MPIB_EXIT_NO_PROXY, "%s: %s (%s)", d->path,
			 strerror(error), remedy);
}

/* Connect to the socket at path. Return the fd or -errno. */
static int dial_one(const char *path, int type, int seconds)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct timeval limit = { .tv_sec = seconds };
	int fd, rc;

	if (strlen(path) >= sizeof(sun.sun_path))
		return -ENAMETOOLONG;
	memcpy(sun.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(fd, (const struct sockaddr *)&sun, sizeof(sun)) == 0)
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

/* Return the state of the proxy's process as in ps(1), or '?' if the state is
 * unknown. If systemd made the socket, `pid` is 1, and the state is unknown. */
static char dial_state(pid_t pid)
{
	static const char name[] = "(mpib-proxy) ";
	char line[128], *at;

	if (!mpib_read_line(line, sizeof(line), "/proc/%d/stat", (int)pid))
		return '?';
	at = strstr(line, name);
	if (!at)
		return '?';
	return at[strlen(name)];
}

/* Report that the proxy did not answer in time. The report names the proxy's
 * process and, if known, the reason. */
static int dial_silent(struct mpib_dial *d, int fd)
{
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);
	char state = '?';

	d->silent = true;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0)
		state = dial_state(cred.pid);
	if (state == 'T' || state == 't')
		return dial_fail(d, MPIB_EXIT_NO_PROXY,
				 "%s: the proxy does not answer: pid %d is "
				 "stopped (kill -CONT %d)",
				 d->path, (int)cred.pid, (int)cred.pid);
	if (state == 'D')
		return dial_fail(d, MPIB_EXIT_NO_PROXY,
				 "%s: the proxy does not answer: pid %d waits "
				 "in the kernel (see dmesg(1), and "
				 "/proc/%d/stack)",
				 d->path, (int)cred.pid, (int)cred.pid);
	return dial_fail(d, MPIB_EXIT_NO_PROXY,
			 "%s: the proxy does not answer (see its log, and "
			 "whether it gets CPU time)",
			 d->path);
}

/* Read the proxy's next line into d->line, without its newline. */
static int dial_next_line(struct mpib_dial *d)
{
	ssize_t n;

	errno = 0;
	n = getline(&d->line, &d->room, d->in);
	/* A line without a newline was cut off by the end of the proxy. */
	if (n > 0 && d->line[n - 1] == '\n') {
		d->line[n - 1] = '\0';
		return MPIB_EXIT_OK;
	}
	if (errno == EAGAIN)
		return dial_silent(d, fileno(d->in));
	return dial_fail(d, MPIB_EXIT_NO_PROXY,
			 "%s: the proxy hung up (see the log of mpib-proxy)",
			 d->path);
}

/* Read the next line and parse it as a JSON object, returned as a new
 * reference. */
static int next_value(struct mpib_dial *d, json_t **value)
{
	int rc = dial_next_line(d);

	*value = NULL;
	if (rc != MPIB_EXIT_OK)
		return rc;
	*value = json_loads(d->line, 0, NULL);
	if (json_is_object(*value))
		return MPIB_EXIT_OK;
	json_decref(*value);
	*value = NULL;
	return dial_fail(d, MPIB_EXIT_FAILED,
			 "%s: the program that listens is not mpib-proxy (name "
			 "another run directory by -s)",
			 d->path);
}

/* Report a refusal: copy "error" and "hint" of the proxy's answer into
 * d->why. */
static int dial_refusal(struct mpib_dial *d, const json_t *answer)
{
	const char *hint = json_string_value(json_object_get(answer, "hint"));
	const char *why = json_string_value(json_object_get(answer, "error"));

	return dial_fail(d, MPIB_EXIT_FAILED, "mpib-proxy: %s (%s)",
			 why ? why : "it refused",
			 hint ? hint : "it may have another version");
}

/* Connect to the admin socket, which answers all commands. Its connections are
 * reserved for the users that may use the socket. Return the fd or -errno. */
static int dial_admin(struct mpib_dial *d, const char *run_dir)
{
	char own[128], dir[sizeof(d->path) - sizeof(MPIB_ADMIN_SOCK)];

	if (!run_dir)
		run_dir = mpib_run_dir_default(own, sizeof(own));
	if (!run_dir || !mpib_admin_dir(run_dir, dir, sizeof(dir)))
		return -ENOENT;
	snprintf(d->path, sizeof(d->path), "%s/" MPIB_ADMIN_SOCK, dir);
	return dial_one(d->path, SOCK_STREAM, PATIENCE_S);
}

/* Read the greeting from fd. Takes ownership of fd. */
static int dial_begin(struct mpib_dial *d, int fd)
{
	int rc;

	d->in = fdopen(fd, "r");
	if (!d->in) {
		close(fd);
		return dial_fail(d, MPIB_EXIT_FAILED,
				 "%s: %s (free some memory)", d->path,
				 strerror(errno));
	}
	rc = next_value(d, &d->greeting);
	/* A proxy with too many readers sends an error, not a greeting. */
	if (rc == MPIB_EXIT_OK && !json_object_get(d->greeting, "mpib"))
		rc = dial_refusal(d, d->greeting);
	if (rc != MPIB_EXIT_OK)
		mpib_dial_close(d);
	return rc;
}

static int dial_too_long(struct mpib_dial *d)
{
	return dial_fail(d, MPIB_EXIT_NO_PROXY,
			 "run directory: its path is too long (name it by -s "
			 "or MPIB_RUN_DIR)");
}

int mpib_dial_open(struct mpib_dial *d, const char *run_dir)
{
	int fd;

	*d = (struct mpib_dial){ 0 };
	fd = dial_admin(d, run_dir);
	if (fd < 0 &&
	    !mpib_dial_path(run_dir, MPIB_STATS_SOCK, d->path, sizeof(d->path)))
		return dial_too_long(d);
	if (fd < 0)
		fd = dial_one(d->path, SOCK_STREAM, PATIENCE_S);
	if (fd < 0)
		return dial_unreachable(d, -fd);
	return dial_begin(d, fd);
}

/* Read the answer to the HELLO of mpib_dial_probe(). */
static int probe_answer(struct mpib_dial *d, int fd)
{
	union {
		struct mpib_ctl_header h;
		struct mpib_ctl_error error;
	} answer = { 0 };
	ssize_t n = recv(fd, &answer, sizeof(answer), 0);

	if (n < 0 && errno == EAGAIN)
		return dial_silent(d, fd);
	if (n < (ssize_t)sizeof(answer.h))
		return dial_fail(d, MPIB_EXIT_NO_PROXY,
				 "%s: the proxy hung up (see the log of "
				 "mpib-proxy)",
				 d->path);
	if (answer.h.status == 0)
		return MPIB_EXIT_OK;
	answer.error.why[sizeof(answer.error.why) - 1] = '\0';
	return dial_fail(d, MPIB_EXIT_FAILED, "%s: %s", d->path,
			 answer.error.why);
}

int mpib_dial_probe(struct mpib_dial *d, const char *run_dir)
{
	struct mpib_ctl_hello hello = {
		.h = { .type = MPIB_CTL_HELLO, .id = 1, .len = sizeof(hello) },
		.version = MPIB_ABI_VERSION,
		.flags = MPIB_HELLO_PROBE,
		.name = "mpibctl",
	};
	int fd, rc;

	*d = (struct mpib_dial){ 0 };
	if (!mpib_dial_path(run_dir, MPIB_CONTROL_SOCK, d->path,
			    sizeof(d->path)))
		return dial_too_long(d);
	fd = dial_one(d->path, SOCK_SEQPACKET, PROBE_S);
	if (fd < 0)
		return dial_unreachable(d, -fd);
	/* Ignore errors: if the proxy has hung up, the answer that it sent
	 * before has the reason. */
	send(fd, &hello, sizeof(hello), MSG_NOSIGNAL);
	rc = probe_answer(d, fd);
	close(fd);
	return rc;
}

void mpib_dial_close(struct mpib_dial *d)
{
	if (d->in)
		fclose(d->in);
	d->in = NULL;
	json_decref(d->greeting);
	d->greeting = NULL;
	free(d->line);
	d->line = NULL;
	d->room = 0;
}

static int dial_say(struct mpib_dial *d, const char *command)
{
	char line[1024];
	int len = snprintf(line, sizeof(line), "%s\n", command);

	if (len >= (int)sizeof(line) ||
	    strlen(command) != strcspn(command, "\n"))
		return dial_fail(
			d, MPIB_EXIT_USAGE,
			"%.40s...: not a valid command line of the proxy (see "
			"mpibctl --help)",
			command);
	if (send(fileno(d->in), line, (size_t)len, MSG_NOSIGNAL) == len)
		return MPIB_EXIT_OK;
	return dial_fail(d, MPIB_EXIT_NO_PROXY, "%s: %s (try again)", d->path,
			 strerror(errno));
}

static int dial_answer(struct mpib_dial *d, json_t **data)
{
	json_t *value;
	int rc = next_value(d, &value);

	*data = NULL;
	if (rc != MPIB_EXIT_OK)
		return rc;
	if (json_is_true(json_object_get(value, "ok")))
		*data = json_incref(json_object_get(value, "data"));
	else
		rc = dial_refusal(d, value);
	json_decref(value);
	return rc;
}

int mpib_dial_ask(struct mpib_dial *d, const char *command, json_t **data)
{
	int rc = dial_say(d, command);

	*data = NULL;
	return rc == MPIB_EXIT_OK ? dial_answer(d, data) : rc;
}

uint64_t mpib_json_num(const json_t *o, const char *key)
{
	json_t *n = json_object_get(o, key), *one;
	json_int_t sum = json_integer_value(n);
	const char *name;

	json_object_foreach(n, name, one) sum += json_integer_value(one);
	return (uint64_t)sum;
}

double mpib_json_real(const json_t *o, const char *key)
{
	json_t *n = json_object_get(o, key), *one;
	double sum = json_number_value(n);
	const char *name;

	json_object_foreach(n, name, one) sum += json_number_value(one);
	return sum;
}

const char *mpib_json_str(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}
