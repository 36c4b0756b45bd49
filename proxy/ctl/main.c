/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <mpib/control.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "suggest.h"
#include "views.h"

#define WIDTH 80
#define PATIENCE_S 10

enum {
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_NO_PROXY = 3
};

static void help(FILE *out)
{
	fprintf(out, "usage: mpibctl [-j] [-s DIR] NOUN\n"
		     "Show what this node's mpib-proxy does.\n\n");
	for (unsigned i = 0; i < mpib_ctl_view_count; i++)
		fprintf(out, "  %-10s %s\n", mpib_ctl_views[i].noun,
			mpib_ctl_views[i].desc);
	fprintf(out, "\n  -j, --json          the proxy's JSON, exact numbers\n"
		     "  -s, --run-dir DIR   the proxy's run directory; default "
		     "MPIB_RUN_DIR, else\n"
		     "                      /run/mpib as root, else "
		     "$XDG_RUNTIME_DIR/mpib\n"
		     "  -h, --help, -V, --version\n\n"
		     "Exit status: 0 ok, 1 failed, 2 usage, 3 no proxy "
		     "answers.\n");
}

static int usage(const char *what, const char *typed)
{
	struct mpib_suggest s = { .typed = typed };
	const char *quote = *typed ? "\"" : "";
	const char *best;

	for (unsigned i = 0; i < mpib_ctl_view_count; i++)
		mpib_suggest_try(&s, mpib_ctl_views[i].noun);
	best = mpib_suggest_best(&s);
	fprintf(stderr, "mpibctl: command line: %s %s%s%s(%s%s%s)\n", what,
		quote, typed, *typed ? "\" " : "",
		best ? "did you mean " : "see mpibctl --help", best ? best : "",
		best ? "?" : "");
	return EXIT_USAGE;
}

/* Where the proxy's socket is; false when nothing says so. */
static bool socket_path(const char *dir, struct sockaddr_un *sun)
{
	const char *sub = "";

	if (!dir)
		dir = getenv("MPIB_RUN_DIR");
	if ((!dir || !*dir) && geteuid() == 0) {
		dir = "/run/mpib";
	} else if (!dir || !*dir) {
		dir = getenv("XDG_RUNTIME_DIR");
		sub = "/mpib";
	}
	if (!dir || !*dir)
		return false;
	return snprintf(sun->sun_path, sizeof(sun->sun_path),
			"%s%s/" MPIB_STATS_SOCK, dir,
			sub) < (int)sizeof(sun->sun_path);
}

static int unreachable(const char *path, int error)
{
	const char *remedy = "start mpib-proxy, or name its run directory by "
			     "-s or MPIB_RUN_DIR";

	if (error == EACCES)
		remedy = "join the group that owns the socket";
	fprintf(stderr, "mpibctl: %s: %s (%s)\n", path, strerror(error),
		remedy);
	return EXIT_NO_PROXY;
}

/* fd or -errno. */
static int dial(const struct sockaddr_un *sun)
{
	struct timeval limit = { .tv_sec = PATIENCE_S };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(fd, (const struct sockaddr *)sun, sizeof(*sun)) < 0) {
		int rc = -errno;

		close(fd);
		return rc;
	}
	return fd;
}

/* The proxy's next line as JSON; NULL with the reason on stderr. */
static json_t *next_line(FILE *in, const char *path)
{
	json_t *value = NULL;
	char *line = NULL;
	size_t room = 0;

	if (getline(&line, &room, in) > 0)
		value = json_loads(line, 0, NULL);
	if (!value)
		fprintf(stderr,
			"mpibctl: %s: %s (see the log of mpib-proxy, or name "
			"another run directory by -s)\n",
			path,
			line && *line ? "what answers is no mpib-proxy"
				      : "the proxy hung up or is stuck");
	free(line);
	return value;
}

static json_t *ask(FILE *in, const char *noun, const char *path)
{
	json_t *value = next_line(in, path);

	/* A proxy with too many readers says so in place of its greeting. */
	if (!value || !json_object_get(value, "mpib"))
		return value;
	json_decref(value);
	if (dprintf(fileno(in), "%s\n", noun) < 0) {
		fprintf(stderr, "mpibctl: %s: %s (try again)\n", path,
			strerror(errno));
		return NULL;
	}
	return next_line(in, path);
}

static int show(const json_t *answer, const struct mpib_ctl_view *view,
		bool json)
{
	const json_t *data = json_object_get(answer, "data");
	const char *hint = json_string_value(json_object_get(answer, "hint"));
	const char *why = json_string_value(json_object_get(answer, "error"));

	if (!json_is_true(json_object_get(answer, "ok"))) {
		fprintf(stderr, "mpibctl: %s: %s (%s)\n", view->noun,
			why ? why : "the proxy refused",
			hint ? hint : "is it of another version?");
		return EXIT_FAILED;
	}
	if (json) {
		json_dumpf(data, stdout, JSON_INDENT(2));
		printf("\n");
	} else {
		view->print(data, WIDTH, stdout);
	}
	return fflush(stdout) ? EXIT_FAILED : EXIT_SUCCESS;
}

static int run(const struct mpib_ctl_view *view, const char *dir, bool json)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd, rc = EXIT_FAILED;
	json_t *answer;
	FILE *in;

	if (!socket_path(dir, &sun)) {
		fprintf(stderr, "mpibctl: run directory: unknown or too long "
				"(name it by -s or MPIB_RUN_DIR)\n");
		return EXIT_NO_PROXY;
	}
	fd = dial(&sun);
	if (fd < 0)
		return unreachable(sun.sun_path, -fd);
	in = fdopen(fd, "r");
	if (!in) {
		fprintf(stderr, "mpibctl: %s\n", strerror(errno));
		close(fd);
		return EXIT_FAILED;
	}
	answer = ask(in, view->noun, sun.sun_path);
	fclose(in);
	if (answer)
		rc = show(answer, view, json);
	json_decref(answer);
	return rc;
}

/* Without a *view there is nothing more to do, and the process ends with what
 * is returned. */
static int parse(int argc, char **argv, const struct mpib_ctl_view **view,
		 const char **dir, bool *json)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "run-dir", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "js:hV", options, NULL)) != -1) {
		if (c == 'j') {
			*json = true;
		} else if (c == 's') {
			*dir = optarg;
		} else if (c == 'h') {
			help(stdout);
			return EXIT_SUCCESS;
		} else if (c == 'V') {
			printf("mpibctl %s\n", MPIB_VERSION);
			return EXIT_SUCCESS;
		} else {
			return usage("cannot use", argv[optind - 1]);
		}
	}
	if (optind == argc)
		return usage("no noun is given", "");
	if (optind + 1 < argc)
		return usage("one noun at a time, not", argv[optind + 1]);
	*view = mpib_ctl_view(argv[optind]);
	return *view ? EXIT_SUCCESS : usage("there is no noun", argv[optind]);
}

int main(int argc, char **argv)
{
	const struct mpib_ctl_view *view = NULL;
	const char *dir = NULL;
	bool json = false;
	int rc = parse(argc, argv, &view, &dir, &json);

	return view ? run(view, dir, json) : rc;
}
