/* SPDX-License-Identifier: Apache-2.0 */
/* Send commands to the proxies' stats and admin sockets, as mpibctl does. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <mpib/control.h>

#include "base/run_dir.h"
#include "sim_node.h"
#include "sim_wrap.h"

static bool asked;

static void *ask(void *arg)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	const char *command = arg;
	static char answer[1 << 16];

	for (unsigned n = 0; n < sim_node_count(); n++) {
		int fd = __wrap_socket(AF_UNIX, SOCK_STREAM, 0);
		size_t at = 0;
		ssize_t got = 1;

		snprintf(un.sun_path, sizeof(un.sun_path), "%s/stats.sock",
			 sim_node_dir(n));
		if (__wrap_connect(fd, (void *)&un, sizeof(un)) < 0)
			continue;
		__wrap_send(fd, command, strlen(command), 0);
		for (unsigned i = 0; i < 100 && got > 0; i++) {
			sim_wait(sim_now + SIM_MS);
			got = __wrap_recv(fd, answer + at,
					  sizeof(answer) - 1 - at,
					  MSG_DONTWAIT);
			if (got > 0)
				at += (size_t)got;
			else if (errno == EAGAIN)
				got = 1;
		}
		answer[at] = '\0';
		fprintf(stderr, "node %u, %s%s\n", n, command, answer);
		__wrap_close(fd);
	}
	asked = true;
	return NULL;
}

static bool was_asked(void)
{
	return asked;
}

void sim_nodes_ask(const char *command)
{
	char *text = strdup(command);

	asked = false;
	sim_task_new(sim_proc_new("ask", 0, 0), "ask", ask, text);
	sim_run(was_asked);
	free(text);
}

struct order {
	unsigned node;
	char text[64];
};

/* Send the command and ignore the answer. It is no error if the proxy refuses
 * the command or if no proxy runs. */
static void *tell(void *arg)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct order *o = arg;
	int fd = __wrap_socket(AF_UNIX, SOCK_STREAM, 0);
	char answer[1024], dir[96];

	/* The directory's name differs between runs, so do not write this name
	 * to the trace. After a proxy was killed, no directory exists until the
	 * next proxy starts. */
	if (mpib_admin_dir(sim_node_dir(o->node), dir, sizeof(dir)) &&
	    snprintf(un.sun_path, sizeof(un.sun_path), "%s/%s", dir,
		     MPIB_ADMIN_SOCK) < (int)sizeof(un.sun_path) &&
	    __wrap_connect(fd, (void *)&un, sizeof(un)) == 0) {
		__wrap_send(fd, o->text, strlen(o->text), 0);
		for (unsigned i = 0; i < 100; i++) {
			sim_wait(sim_now + SIM_MS);
			if (__wrap_recv(fd, answer, sizeof(answer),
					MSG_DONTWAIT) >= 0)
				break;
		}
	}
	__wrap_close(fd);
	free(o);
	__wrap__exit(0);
	return NULL;
}

void sim_node_tell(unsigned node, const char *fmt, ...)
{
	struct order *o = calloc(1, sizeof(*o));
	va_list ap;

	if (!o)
		abort();
	o->node = node;
	va_start(ap, fmt);
	vsnprintf(o->text, sizeof(o->text), fmt, ap);
	va_end(ap);
	sim_task_new(sim_proc_new("operator", node, 0), "operator", tell, o);
}
