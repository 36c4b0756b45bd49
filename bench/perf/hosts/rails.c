/* SPDX-License-Identifier: Apache-2.0 */
/* Rails by the stats socket, see mpib-protocol(7). */
#include "perf/hosts/rails.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <jansson.h>

#define ANSWER_S 5

static FILE *dial(const char *run_dir)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct timeval most = { .tv_sec = ANSWER_S };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int n = snprintf(at.sun_path, sizeof(at.sun_path), "%s/stats.sock",
			 run_dir);
	FILE *f = NULL;

	if (fd < 0)
		return NULL;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
	if (n > 0 && (size_t)n < sizeof(at.sun_path) &&
	    connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0)
		f = fdopen(fd, "r+");
	if (!f)
		close(fd);
	return f;
}

/* The proxy's answer to a command, a new reference; NULL: there is none. */
static json_t *ask(const char *run_dir, const char *command)
{
	FILE *f = dial(run_dir);
	char *line = NULL;
	size_t room = 0;
	json_t *all = NULL, *data;

	/* The first line is a greeting. */
	if (f && getline(&line, &room, f) > 0 && fputs(command, f) >= 0 &&
	    fflush(f) == 0 && getline(&line, &room, f) > 0)
		all = json_loads(line, 0, NULL);
	free(line);
	if (f)
		fclose(f);
	data = json_incref(json_object_get(all, "data"));
	json_decref(all);
	return data;
}

static uint64_t number(const json_t *o, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(o, key));

	return n > 0 ? (uint64_t)n : 0;
}

static bool is(const json_t *o, const char *key, const char *word)
{
	const char *text = json_string_value(json_object_get(o, key));

	return text && strcmp(text, word) == 0;
}

static void take(struct perf_rails *rails, const json_t *o)
{
	const char *name = json_string_value(json_object_get(o, "label"));
	const char *device = json_string_value(json_object_get(o, "device"));
	const char *provider =
		json_string_value(json_object_get(o, "provider"));
	int i = rails->n;

	if (i == PERF_RAILS || !name)
		return;
	snprintf(rails->rail[i].name, sizeof(rails->rail[i].name), "%s", name);
	snprintf(rails->rail[i].device, sizeof(rails->rail[i].device), "%s",
		 device ? device : "?");
	/* Also "soft (io_uring)" and similar. */
	rails->rail[i].soft = provider && strncmp(provider, "soft", 4) == 0;
	rails->rail[i].up = is(o, "state", "active");
	rails->rail[i].standby = json_is_true(json_object_get(o, "standby"));
	rails->rail[i].speed_mbps = number(o, "speed_mbps");
	rails->rail[i].tx_bytes = number(o, "tx_bytes");
	rails->rail[i].rx_bytes = number(o, "rx_bytes");
	rails->rail[i].errors = number(o, "cqe_errors") + number(o, "downs") +
				number(o, "failovers") + number(o, "retries");
	rails->n++;
}

/* Rails are listed device by device, each with the name of its device. */
void perf_rails_read(struct perf_rails *rails, const char *run_dir,
		     unsigned device)
{
	json_t *all = ask(run_dir, "rails\n"), *o;
	const char *last = NULL;
	unsigned at = 0;
	size_t i;

	memset(rails, 0, sizeof(*rails));
	json_array_foreach(all, i, o)
	{
		const char *net = json_string_value(json_object_get(o, "net"));

		if (last && net && strcmp(net, last))
			at++;
		last = net;
		if (at == device)
			take(rails, o);
	}
	json_decref(all);
}

bool perf_rails_peer_link(const char *run_dir, char *buf, size_t len)
{
	json_t *info = ask(run_dir, "info\n");
	const char *at = json_string_value(json_object_get(info, "peer_link"));
	bool found = at && snprintf(buf, len, "%s", at) < (int)len;

	json_decref(info);
	return found;
}

void perf_rails_since(struct perf_rails *now, const struct perf_rails *before)
{
	for (int i = 0; i < now->n; i++) {
		for (int k = 0; k < before->n; k++) {
			if (strcmp(now->rail[i].name, before->rail[k].name))
				continue;
			now->rail[i].tx_bytes -= before->rail[k].tx_bytes;
			now->rail[i].rx_bytes -= before->rail[k].rx_bytes;
			now->rail[i].errors -= before->rail[k].errors;
		}
	}
}
