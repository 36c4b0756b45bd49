/* SPDX-License-Identifier: Apache-2.0 */
/* One message between two processes; docs/client.md explains it. */
#include <mpib/client.h>
#include <mpib/control.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE (1 << 20)

static void check(int rc)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "mpib-send: message: %s\n", mpib_strerror());
	exit(1);
}

/* A program may send the handle by any means. This one uses a pipe. */
static void pass(ssize_t moved)
{
	if (moved == sizeof(struct mpib_handle))
		return;
	fprintf(stderr, "mpib-send: handle: none came through the pipe "
			"(run mpib-send receive | mpib-send send)\n");
	exit(1);
}

/* Return 1 for the sending end, 0 for the receiving end. Exit if the command
 * line names neither. */
static int sends(int argc, char **argv)
{
	const char *way = argc == 2 ? argv[1] : "";

	if (!strcmp(way, "send") || !strcmp(way, "receive"))
		return !strcmp(way, "send");
	if (!strcmp(way, "--help")) {
		puts("Usage: mpib-send receive | mpib-send send");
		exit(0);
	}
	if (argc == 2)
		fprintf(stderr,
			"mpib-send: command line: \"%s\" is neither "
			"send nor receive (see --help)\n",
			way);
	else
		fprintf(stderr,
			"mpib-send: command line: expected 1 argument, "
			"not %d (see --help)\n",
			argc - 1);
	exit(2);
}

static size_t finish(struct mpib_request *req)
{
	size_t size;
	int done = 0;

	while (!done)
		check(mpib_test(req, &done, &size));
	return size;
}

static void wait_ready(struct mpib_conn *conn)
{
	int rc;

	while ((rc = mpib_ready(conn)) == 0)
		;
	check(rc);
}

/* [send] */
static void send_it(struct mpib_client *client, char *data,
		    struct mpib_region *region)
{
	struct mpib_request *req = NULL;
	struct mpib_handle handle;
	struct mpib_conn *conn;

	pass(read(STDIN_FILENO, &handle, sizeof(handle)));
	check(mpib_connect(client, &handle, -1, &conn));
	wait_ready(conn);
	memset(data, 'x', SIZE - 1); /* the last byte stays 0 */
	while (!req) /* NULL: no room yet */
		check(mpib_isend(conn, data, SIZE, 0, region, &req));
	finish(req);
}
/* [receive] */
static void receive_it(struct mpib_client *client, char *data,
		       struct mpib_region *region)
{
	struct mpib_request *req = NULL;
	struct mpib_listener *listener;
	struct mpib_handle handle;
	struct mpib_conn *conn;
	void *buffer = data;
	size_t size = SIZE;
	int tag = 0;

	check(mpib_listen(client, &handle, &listener));
	pass(write(STDOUT_FILENO, &handle, sizeof(handle)));
	check(mpib_accept(listener, &conn));
	wait_ready(conn);
	while (!req)
		check(mpib_irecv(conn, 1, &buffer, &size, &tag, &region, &req));
	if (finish(req) != SIZE || strspn(data, "x") != SIZE - 1 ||
	    data[SIZE - 1]) {
		fprintf(stderr, "mpib-send: message: its bytes are wrong "
				"(run mpibctl doctor)\n");
		exit(1);
	}
	fprintf(stderr, "%d bytes, all right\n", SIZE);
}
/* [main] */
int main(int argc, char **argv)
{
	int sending = sends(argc, argv);
	struct mpib_client *client;
	struct mpib_region *region;
	char *data;

	check(mpib_attach(NULL, &client)); /* MPIB_RUN_DIR says where */
	data = mpib_mem_alloc(client, SIZE); /* not copied */
	check(data ? 0 : -1);
	check(mpib_reg(client, data, SIZE, &region));
	if (sending)
		send_it(client, data, region);
	else
		receive_it(client, data, region);
	mpib_detach(client); /* closes its objects */
	return 0;
}
/* [end] */
