/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "mpibctl stuck" must find each kind of hang: a receiver that posts no
 * receive, a sender that posts no send, and a peer that stops answering.
 */
#include <signal.h>
#include <unistd.h>

#include "ask.h"
#include "ends.h"
#include "test.h"

#define BUF 65536

static struct node a, b;
static struct ends ends;

static int setup(void **state)
{
	node_start(&a, 5, NULL);
	node_start(&b, 6, NULL);
	ends_open(&ends, &a, &b, BUF);
	return 0;
}

static int teardown(void **state)
{
	ends_detach(&ends);
	kill(b.pid, SIGCONT); /* in case a test has failed */
	node_stop(&a);
	node_stop(&b);
	return 0;
}

/* Wait until the node reports a stuck request. Return this request, which must
 * be the only one. */
static json_t *the_stuck_one(const struct node *n, const char *command)
{
	json_t *requests = NULL, *r;

	for (unsigned i = 0; i < 1000; i++) {
		json_t *v = node_ask(n, command);

		requests = json_incref(json_object_get(v, "requests"));
		json_decref(v);
		if (json_array_size(requests) > 0)
			break;
		json_decref(requests);
		usleep(10000);
	}
	assert_int_equal(json_array_size(requests), 1);
	r = json_incref(json_array_get(requests, 0));
	json_decref(requests);
	return r;
}

TEST(a_send_without_a_receive_names_its_peer_and_owner)
{
	struct mpib_request *sent, *recv;
	json_t *r;

	ends_move(&ends, BUF, 11); /* this message tells both ends the rank */
	sent = ends_send(&ends, BUF, 11);
	r = the_stuck_one(&a, "stuck 0");
	assert_string_equal(ask_text(r, "last"), "no_cts");
	assert_string_equal(ask_text(r, "direction"), "send");
	assert_string_equal(ask_text(r, "client_name"), "sender");
	assert_string_equal(ask_text(r, "job_id"), "0xfedcba9876543210");
	assert_int_equal(ask_num(r, "pid"), getpid());
	/* At both ends, NCCL uses the rank of the sender as the tag. */
	assert_int_equal(ask_num(r, "local_rank"), 11);
	assert_true(json_is_null(json_object_get(r, "remote_rank")));
	assert_int_equal(ask_num(r, "bytes"), BUF);
	assert_non_null(strstr(ask_text(r, "peer"), ":24790"));
	json_decref(r);
	recv = ends_receive(&ends, 11);
	ends_finish(recv);
	ends_finish(sent);
}

TEST(a_receive_without_a_send_is_reported_at_the_receiver)
{
	struct mpib_request *recv = ends_receive(&ends, 11), *sent;
	json_t *r = the_stuck_one(&b, "stuck 0");

	assert_string_equal(ask_text(r, "last"), "no_sender");
	assert_string_equal(ask_text(r, "direction"), "recv");
	assert_string_equal(ask_text(r, "client_name"), "receiver");
	json_decref(r);
	sent = ends_send(&ends, BUF, 11);
	ends_finish(recv);
	ends_finish(sent);
}

TEST(a_request_with_progress_is_not_reported_as_stuck)
{
	json_t *v;

	ends_move(&ends, BUF, 11);
	v = node_ask(&a, "stuck 0");
	assert_int_equal(json_array_size(json_object_get(v, "requests")), 0);
	json_decref(v);
}

static bool is_refused_now(void)
{
	json_t *v = node_ask(&a, "stuck 0"), *r;
	bool found = false;
	size_t i;

	json_array_foreach(json_object_get(v, "requests"), i, r) found |=
		!strcmp(ask_text(r, "last"), "refused") &&
		!strcmp(ask_text(r, "direction"), "send");
	json_decref(v);
	return found;
}

TEST(a_sender_that_gets_no_request_is_reported)
{
	struct mpib_request *sent[300], *recv;
	unsigned n = 0;

	for (;; n++) {
		assert_true(n < 300);
		assert_int_equal(mpib_isend(ends.tx, ends.src, 8, 12,
					    ends.src_mr, &sent[n]),
				 0);
		if (!sent[n])
			break;
	}
	for (unsigned i = 0; !is_refused_now(); i++)
		assert_true(i < 1000);
	for (unsigned i = 0; i < n; i++) {
		recv = ends_receive(&ends, 12);
		ends_finish(sent[i]);
		ends_finish(recv);
	}
	ends_move(&ends, BUF, 11);
	assert_false(is_refused_now());
}

TEST(one_command_of_mpibctl_finds_a_stuck_request)
{
	const char *const argv[] = {
		"mpibctl", "-s", a.dir, "stuck", "0", NULL
	};
	struct mpib_request *sent = ends_send(&ends, BUF, 11), *recv;
	struct run run;

	json_decref(the_stuck_one(&a, "stuck 0"));
	run_wait(&run, argv);
	assert_int_equal(run.status, 0);
	assert_non_null(strstr(run.out, "no_cts"));
	assert_non_null(strstr(run.out, b.sout + strlen("soft:")));
	recv = ends_receive(&ends, 11);
	ends_finish(recv);
	ends_finish(sent);
}

TEST(an_unaccepted_connection_is_reported)
{
	struct mpib_listener *silent;
	struct mpib_handle handle;
	struct mpib_conn *conn;
	const json_t *c;
	json_t *v;

	assert_int_equal(mpib_listen(ends.to, &handle, &silent), 0);
	assert_int_equal(mpib_connect(ends.from, &handle, -1, &conn), 0);
	v = node_ask(&a, "stuck 0");
	assert_int_equal(json_array_size(json_object_get(v, "connecting")), 1);
	c = json_array_get(json_object_get(v, "connecting"), 0);
	assert_string_equal(ask_text(c, "client_name"), "sender");
	assert_string_equal(ask_text(c, "direction"), "send");
	assert_true(*ask_text(c, "text"));
	json_decref(v);
	mpib_close(conn);
	mpib_close_listen(silent);
	/* A closed connection is no longer listed. */
	v = node_ask(&a, "stuck 0");
	assert_int_equal(json_array_size(json_object_get(v, "connecting")), 0);
	json_decref(v);
}

/* The peer's proxy announces a receive and is then stopped by SIGSTOP. Its
 * sockets stay open, but it neither receives nor acknowledges anything. */
TEST(a_silent_peer_is_reported_with_its_rails)
{
	struct mpib_request *recv, *sent;
	json_t *r;

	recv = ends_receive(&ends, 11);
	json_decref(the_stuck_one(&b, "stuck 0"));
	/* child_freeze() waits until all threads have stopped, because a
	 * running thread would still acknowledge. */
	child_freeze(b.pid);
	sent = ends_send(&ends, BUF, 11);
	r = the_stuck_one(&a, "stuck 1");
	kill(b.pid, SIGCONT);
	assert_string_equal(ask_text(r, "last"), "unacked");
	assert_true(json_array_size(json_object_get(r, "rails")) > 0);
	assert_true(json_real_value(json_object_get(r, "age_s")) >= 1);
	json_decref(r);
	ends_finish(recv);
	ends_finish(sent);
}

struct test_group test_group = { setup, teardown };
