/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stats socket of two real proxies: its line protocol, and bytes that add
 * up: by connection and by rail, open and closed, here and there.
 */
#include <mpib/client.h>
#include <mpib/control.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "node.h"

static struct node a, b;

static int start(void **state)
{
	(void)state;
	node_start(&a, 3, "--limit-readers", "3", "--sup-bw", "512", NULL);
	node_start(&b, 4, NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	node_stop(&a);
	node_stop(&b);
	return 0;
}

static FILE *reader(const struct node *n)
{
	FILE *f = fdopen(node_dial(n, MPIB_STATS_SOCK, SOCK_STREAM), "r");

	assert_non_null(f);
	return f;
}

/* The next line as JSON, NULL at the end. */
static json_t *next(FILE *f)
{
	char *line = NULL;
	size_t room = 0;
	json_t *v = NULL;

	if (getline(&line, &room, f) > 0) {
		v = json_loads(line, 0, NULL);
		assert_non_null(v);
	}
	free(line);
	return v;
}

static const char *text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static void pass_line(FILE *f)
{
	json_t *v = next(f);

	assert_non_null(v);
	json_decref(v);
}

static void the_greeting_tells_version_and_pid(void **state)
{
	FILE *f = reader(&a);
	json_t *v = next(f);

	(void)state;
	assert_true(*text(v, "mpib"));
	assert_int_equal(json_integer_value(json_object_get(v, "proto")), 1);
	assert_int_equal(json_integer_value(json_object_get(v, "pid")), a.pid);
	json_decref(v);
	fclose(f);
}

static void commands_sent_at_once_are_answered_in_order(void **state)
{
	FILE *f = reader(&a);
	json_t *v;

	(void)state;
	dprintf(fileno(f), "rails\r\n\n  help \nconns\n");
	shutdown(fileno(f), SHUT_WR);
	pass_line(f);
	v = next(f);
	assert_int_equal(json_array_size(json_object_get(v, "data")), 2);
	json_decref(v);
	v = next(f);
	assert_true(json_array_size(json_object_get(v, "data")) >= 6);
	json_decref(v);
	v = next(f);
	assert_non_null(json_object_get(json_object_get(v, "data"), "closed"));
	json_decref(v);
	assert_null(next(f));
	fclose(f);
}

static void an_unknown_command_gets_a_hint(void **state)
{
	FILE *f = reader(&a);
	json_t *v;

	(void)state;
	pass_line(f);
	dprintf(fileno(f), "cleints\n\xff\xfe\n");
	v = next(f);
	assert_true(json_is_false(json_object_get(v, "ok")));
	assert_string_equal(text(v, "hint"), "did you mean clients?");
	json_decref(v);
	v = next(f);
	assert_true(json_is_false(json_object_get(v, "ok")));
	json_decref(v);
	fclose(f);
}

static void a_line_without_end_is_hung_up_on(void **state)
{
	char junk[5000];
	FILE *f = reader(&a);

	(void)state;
	memset(junk, 'x', sizeof(junk));
	pass_line(f);
	assert_true(send(fileno(f), junk, sizeof(junk), MSG_NOSIGNAL) > 0);
	assert_null(next(f));
	fclose(f);
}

static void readers_are_counted(void **state)
{
	FILE *f[4];
	json_t *v;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		f[i] = reader(&a);
		v = next(f[i]);
		if (i < 3)
			assert_true(*text(v, "mpib"));
		else
			assert_string_equal(text(v, "error"),
					    "too many readers");
		json_decref(v);
	}
	for (unsigned i = 0; i < 4; i++)
		fclose(f[i]);
	/* The proxy may see the hang-ups a little later than we made them. */
	for (bool served = false; !served;) {
		f[0] = reader(&a);
		v = next(f[0]);
		served = *text(v, "mpib");
		json_decref(v);
		fclose(f[0]);
	}
}

static void a_reader_that_leaves_early_harms_nobody(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		FILE *f = reader(&b);

		dprintf(fileno(f), "info\nrails\nclients\nconns\nlanes\n");
		fclose(f);
	}
	json_decref(node_ask(&b, "info"));
}

/* Data of the answer to a command that works. */
static json_t *ask(FILE *f, const char *command)
{
	json_t *v, *data;

	dprintf(fileno(f), "%s\n", command);
	v = next(f);
	if (!json_is_true(json_object_get(v, "ok")))
		fail_msg("%s: %s", command, text(v, "error"));
	data = json_incref(json_object_get(v, "data"));
	json_decref(v);
	return data;
}

static json_int_t num(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

static void events_are_told_once(void **state)
{
	FILE *f = reader(&a);
	json_int_t last;
	char line[64];
	json_t *v;

	(void)state;
	pass_line(f);
	v = ask(f, "events");
	last = num(v, "last");
	assert_int_equal(num(v, "lost"), 0);
	assert_string_equal(
		text(json_array_get(json_object_get(v, "events"), 0), "kind"),
		"start");
	json_decref(v);
	json_decref(ask(f, "log debug"));
	snprintf(line, sizeof(line), "events %lld", (long long)last);
	v = ask(f, line);
	assert_int_equal(num(v, "last"), last + 1);
	assert_string_equal(
		text(json_array_get(json_object_get(v, "events"), 0), "kind"),
		"set");
	json_decref(v);
	json_decref(ask(f, "log info"));
	fclose(f);
}

static void a_monitor_goes_on_until_something_else_is_said(void **state)
{
	FILE *f = reader(&a);
	json_t *v;

	(void)state;
	pass_line(f);
	v = ask(f, "monitor 1");
	assert_int_equal(json_array_size(json_object_get(v, "rails")), 2);
	assert_true(num(v, "last_event") > 0);
	json_decref(v);
	v = next(f);
	assert_non_null(json_object_get(json_object_get(v, "data"), "rails"));
	json_decref(v);
	v = ask(f, "help");
	assert_true(json_is_array(v));
	json_decref(v);
	fclose(f);
}

static void a_drained_rail_shows_and_the_last_one_stays(void **state)
{
	FILE *f = reader(&a);
	json_t *v;

	(void)state;
	pass_line(f);
	json_decref(ask(f, "drain sup"));
	v = ask(f, "rails");
	assert_true(
		json_is_true(json_object_get(json_array_get(v, 1), "drained")));
	json_decref(v);
	dprintf(fileno(f), "drain SOUT\n");
	v = next(f);
	assert_string_equal(text(v, "error"), "SOUT is the only rail in use");
	json_decref(v);
	json_decref(ask(f, "resume SUP"));
	fclose(f);
}

static json_int_t rail(const json_t *o, const char *key, const char *name)
{
	return json_integer_value(
		json_object_get(json_object_get(o, key), name));
}

/* Bytes of one rail and direction, by rail and by connection. */
static json_int_t checked_sum(const struct node *n, unsigned r,
			      const char *field, json_int_t *closed)
{
	static const char *const name[] = { "sout", "sup" };
	json_t *rails = node_ask(n, "rails"), *conns = node_ask(n, "conns");
	json_int_t total = json_integer_value(
		json_object_get(json_array_get(rails, r), field));
	json_int_t sum = rail(json_object_get(conns, "closed"), field, name[r]);
	const json_t *c;
	size_t i;

	*closed = sum;
	json_array_foreach(json_object_get(conns, "open"), i, c) sum +=
		rail(c, field, name[r]);
	assert_int_equal(sum, total);
	json_decref(rails);
	json_decref(conns);
	return total;
}

static size_t open_conns(const struct node *n)
{
	json_t *conns = node_ask(n, "conns");
	size_t open = json_array_size(json_object_get(conns, "open"));

	json_decref(conns);
	return open;
}

struct link {
	struct mpib_client *tx_client, *rx_client;
	struct mpib_listener *listener;
	struct mpib_conn *tx, *rx;
	char *from, *to;
	struct mpib_region *from_mr, *to_mr;
};

#define BUF (4u << 20)

static void link_up(struct link *l)
{
	struct mpib_attach_opts at_a = { .size = sizeof(at_a),
					 .run_dir = a.dir,
					 .name = "sender" };
	struct mpib_attach_opts at_b = { .size = sizeof(at_b),
					 .run_dir = b.dir,
					 .name = "receiver" };
	struct mpib_handle handle;

	assert_int_equal(mpib_attach(&at_a, &l->tx_client), 0);
	assert_int_equal(mpib_attach(&at_b, &l->rx_client), 0);
	assert_int_equal(mpib_listen(l->rx_client, &handle, &l->listener), 0);
	assert_int_equal(mpib_accept(l->listener, &l->rx), 0);
	assert_int_equal(mpib_connect(l->tx_client, &handle, -1, &l->tx), 0);
	while (mpib_ready(l->tx) == 0 || mpib_ready(l->rx) == 0)
		usleep(100);
	assert_int_equal(mpib_ready(l->tx), 1);
	assert_int_equal(mpib_ready(l->rx), 1);
	l->from = mpib_mem_alloc(l->tx_client, BUF);
	l->to = mpib_mem_alloc(l->rx_client, BUF);
	assert_int_equal(mpib_reg(l->tx_client, l->from, BUF, &l->from_mr), 0);
	assert_int_equal(mpib_reg(l->rx_client, l->to, BUF, &l->to_mr), 0);
}

static void move(struct link *l, size_t size)
{
	struct mpib_request *send = NULL, *recv = NULL;
	int tag = 1, done;
	void *to = l->to;
	size_t room = BUF, got = 0;

	for (size_t i = 0; i < size; i++)
		l->from[i] = (char)(i * 7 + size);
	assert_int_equal(
		mpib_irecv(l->rx, 1, &to, &room, &tag, &l->to_mr, &recv), 0);
	assert_non_null(recv);
	while (!send)
		assert_int_equal(mpib_isend(l->tx, l->from, size, tag,
					    l->from_mr, &send),
				 0);
	for (done = 0; !done;)
		assert_int_equal(mpib_test(recv, &done, &got), 0);
	for (done = 0; !done;)
		assert_int_equal(mpib_test(send, &done, NULL), 0);
	assert_int_equal(got, size);
	assert_memory_equal(l->from, l->to, size);
}

static void bytes_add_up_here_there_and_afterwards(void **state)
{
	static const size_t size[] = { 1, 0, 100, 4096, 1000000, BUF };
	static const char *const dir[] = { "tx_bytes", "rx_bytes" };
	json_int_t tx = 0, rx = 0, sent = 0, closed;
	struct link l;
	json_t *v;

	(void)state;
	link_up(&l);
	for (unsigned i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
		move(&l, size[i]);
		sent += (json_int_t)size[i];
	}
	for (unsigned r = 0; r < 2; r++) {
		json_int_t there = checked_sum(&b, r, dir[1], &closed);

		tx += checked_sum(&a, r, dir[0], &closed);
		assert_int_equal(closed, 0);
		assert_true(there > 0);
		rx += there;
	}
	assert_int_equal(tx, sent);
	assert_int_equal(rx, sent);

	v = node_ask(&a, "clients");
	assert_int_equal(json_array_size(v), 1);
	assert_string_equal(text(json_array_get(v, 0), "name"), "sender");
	json_decref(v);
	v = node_ask(&a, "lanes");
	assert_int_equal(json_array_size(v), 1);
	assert_int_equal(rail(json_array_get(v, 0), "qps", "sout"), 2);
	assert_int_equal(rail(json_array_get(v, 0), "qps", "sup"), 4);
	json_decref(v);

	/* A client keeps what its closed connections moved. */
	mpib_close(l.tx);
	mpib_close(l.rx);
	while (open_conns(&a) > 0)
		usleep(1000);
	v = node_ask(&a, "clients");
	assert_int_equal(rail(json_array_get(v, 0), "tx_bytes", "sout") +
				 rail(json_array_get(v, 0), "tx_bytes", "sup"),
			 sent);
	json_decref(v);
	mpib_detach(l.tx_client);
	mpib_detach(l.rx_client);
	node_until_ledger(&a, "attached", 0);
	node_until_ledger(&b, "attached", 0);
	for (unsigned r = 0; r < 2; r++) {
		json_int_t all = checked_sum(&a, r, dir[0], &closed);

		assert_int_equal(closed, all);
		tx -= all;
	}
	assert_int_equal(tx, 0);
}

static json_int_t sup_bytes(FILE *f)
{
	json_t *v = ask(f, "rails");
	json_int_t n = num(json_array_get(v, 1), "tx_bytes");

	json_decref(v);
	return n;
}

static void what_is_set_and_drained_steers_the_next_message(void **state)
{
	FILE *f = reader(&a);
	json_int_t before;
	struct link l;

	(void)state;
	pass_line(f);
	link_up(&l);
	before = sup_bytes(f);
	json_decref(ask(f, "set sup.bw 1024"));
	move(&l, 1 << 20);
	assert_int_equal(sup_bytes(f) - before, 1 << 20);
	json_decref(ask(f, "drain SUP"));
	move(&l, 1 << 20);
	assert_int_equal(sup_bytes(f) - before, 1 << 20);
	json_decref(ask(f, "resume SUP"));
	json_decref(ask(f, "set sup.bw 256"));
	move(&l, 1 << 20);
	assert_int_equal(sup_bytes(f) - before, (1 << 20) + (1 << 18));
	mpib_detach(l.tx_client);
	mpib_detach(l.rx_client);
	node_until_ledger(&a, "attached", 0);
	fclose(f);
}

/* By the rails and by the clients, from one snapshot; nobody has left since
 * before says how much there was of others. */
static json_int_t not_of_clients(const json_t *line, unsigned r,
				 const char *field)
{
	static const char *const name[] = { "sout", "sup" };
	json_int_t rest =
		num(json_array_get(json_object_get(line, "rails"), r), field);
	const json_t *c;
	size_t i;

	json_array_foreach(json_object_get(line, "clients"), i, c) rest -=
		rail(c, field, name[r]);
	return rest;
}

static void rails_and_clients_fit_while_messages_move(void **state)
{
	struct mpib_request *send = NULL, *recv = NULL;
	FILE *f = reader(&a);
	json_int_t before[2];
	int tag = 1, done;
	size_t room = BUF;
	struct link l;
	json_t *v;

	(void)state;
	pass_line(f);
	link_up(&l);
	v = ask(f, "monitor 3600");
	for (unsigned r = 0; r < 2; r++)
		before[r] = not_of_clients(v, r, "tx_bytes");
	json_decref(v);
	for (unsigned n = 0; n < 30; n++) {
		void *to = l.to;

		send = recv = NULL;
		assert_int_equal(
			mpib_irecv(l.rx, 1, &to, &room, &tag, &l.to_mr, &recv),
			0);
		while (!send)
			assert_int_equal(mpib_isend(l.tx, l.from, BUF, tag,
						    l.from_mr, &send),
					 0);
		v = ask(f, "monitor 3600");
		for (unsigned r = 0; r < 2; r++)
			assert_int_equal(not_of_clients(v, r, "tx_bytes"),
					 before[r]);
		json_decref(v);
		for (done = 0; !done;)
			assert_int_equal(mpib_test(recv, &done, NULL), 0);
		for (done = 0; !done;)
			assert_int_equal(mpib_test(send, &done, NULL), 0);
	}
	mpib_detach(l.tx_client);
	mpib_detach(l.rx_client);
	node_until_ledger(&a, "attached", 0);
	node_until_ledger(&b, "attached", 0);
	fclose(f);
}

static void copies_through_staging_memory_are_the_clients_own(void **state)
{
	struct mpib_region *plain_mr;
	struct mpib_request *send = NULL, *recv = NULL;
	void *to, *plain = malloc(BUF);
	size_t room = BUF;
	int tag = 1, done;
	struct link l;
	json_t *v;

	(void)state;
	link_up(&l);
	memset(plain, 5, BUF);
	assert_int_equal(mpib_reg(l.tx_client, plain, BUF, &plain_mr), 0);
	to = l.to;
	assert_int_equal(mpib_irecv(l.rx, 1, &to, &room, &tag, &l.to_mr, &recv),
			 0);
	assert_int_equal(mpib_isend(l.tx, plain, BUF, tag, plain_mr, &send), 0);
	for (done = 0; !done;)
		assert_int_equal(mpib_test(send, &done, NULL), 0);
	for (done = 0; !done;)
		assert_int_equal(mpib_test(recv, &done, NULL), 0);
	v = node_ask(&a, "clients");
	assert_int_equal(num(json_array_get(v, 0), "copied_bytes"), BUF);
	assert_true(num(json_array_get(v, 0), "copies") > 1);
	json_decref(v);
	v = node_ask(&b, "clients");
	assert_int_equal(num(json_array_get(v, 0), "copies"), 0);
	json_decref(v);
	mpib_detach(l.tx_client);
	mpib_detach(l.rx_client);
	node_until_ledger(&a, "attached", 0);
	node_until_ledger(&b, "attached", 0);
	free(plain);
}

static void latencies_are_counted_for_each_message(void **state)
{
	FILE *f = reader(&a);
	json_int_t before, buckets = 0;
	const json_t *one;
	struct link l;
	json_t *v;
	size_t i;

	(void)state;
	pass_line(f);
	link_up(&l);
	v = ask(f, "hist send.submit_done");
	before = num(v, "count");
	json_decref(v);
	for (unsigned n = 0; n < 20; n++)
		move(&l, 1 << 20);
	v = ask(f, "hist send.submit_done");
	assert_int_equal(num(v, "count"), before + 20);
	assert_true(num(v, "p50_ns") > 0);
	assert_true(num(v, "p50_ns") <= num(v, "max_ns"));
	json_array_foreach(json_object_get(v, "buckets"), i, one) buckets +=
		json_integer_value(json_array_get(one, 1));
	assert_int_equal(buckets, before + 20);
	one = json_array_get(json_object_get(v, "connections"), 0);
	assert_int_equal(num(one, "count"), 20);
	json_decref(v);
	mpib_detach(l.tx_client);
	mpib_detach(l.rx_client);
	node_until_ledger(&a, "attached", 0);
	/* What a connection had is kept when it is no more. */
	v = ask(f, "hist send.submit_done");
	assert_int_equal(num(v, "count"), before + 20);
	json_decref(v);
	fclose(f);
}

static void a_kicked_client_is_gone(void **state)
{
	struct mpib_attach_opts at = { .size = sizeof(at), .run_dir = a.dir };
	struct mpib_node_info info;
	struct mpib_client *client;
	FILE *f = reader(&a);
	char line[32];

	(void)state;
	pass_line(f);
	assert_int_equal(mpib_attach(&at, &client), 0);
	mpib_query(client, &info);
	snprintf(line, sizeof(line), "kick %u", info.client);
	json_decref(ask(f, line));
	node_until_ledger(&a, "attached", 0);
	assert_true(mpib_alive(client) < 0);
	mpib_detach(client);
	fclose(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_greeting_tells_version_and_pid),
		cmocka_unit_test(commands_sent_at_once_are_answered_in_order),
		cmocka_unit_test(an_unknown_command_gets_a_hint),
		cmocka_unit_test(a_line_without_end_is_hung_up_on),
		cmocka_unit_test(readers_are_counted),
		cmocka_unit_test(a_reader_that_leaves_early_harms_nobody),
		cmocka_unit_test(bytes_add_up_here_there_and_afterwards),
		cmocka_unit_test(events_are_told_once),
		cmocka_unit_test(
			a_monitor_goes_on_until_something_else_is_said),
		cmocka_unit_test(a_drained_rail_shows_and_the_last_one_stays),
		cmocka_unit_test(
			what_is_set_and_drained_steers_the_next_message),
		cmocka_unit_test(rails_and_clients_fit_while_messages_move),
		cmocka_unit_test(
			copies_through_staging_memory_are_the_clients_own),
		cmocka_unit_test(latencies_are_counted_for_each_message),
		cmocka_unit_test(a_kicked_client_is_gone),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
