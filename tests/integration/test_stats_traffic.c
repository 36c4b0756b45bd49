/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of the stats sockets of two real proxies that have moved messages. At
 * both nodes, the bytes of all open and closed connections add up to the bytes
 * of the rails.
 */
#include <mpib/control.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ask.h"
#include "ends.h"
#include "test.h"

/* Return the byte count of one rail in one direction. Check that the counts of
 * the connections add up to this count. */
static json_int_t checked_sum(const struct node *n, unsigned r,
			      const char *field, json_int_t *closed)
{
	static const char *const name[] = { "sout", "sup" };
	json_t *rails = node_ask(n, "rails"), *conns = node_ask(n, "conns");
	json_int_t total = json_integer_value(
		json_object_get(json_array_get(rails, r), field));
	json_int_t sum =
		ask_rail(json_object_get(conns, "closed"), field, name[r]);
	const json_t *c;
	size_t i;

	*closed = sum;
	json_array_foreach(json_object_get(conns, "open"), i, c) sum +=
		ask_rail(c, field, name[r]);
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

#define BUF (4u << 20)

static void link_up(struct ends *l)
{
	ends_open(l, &ask_a, &ask_b, BUF);
}

static void link_down(struct ends *l)
{
	ends_detach(l);
	node_until_usage(&ask_a, "attached", 0);
	node_until_usage(&ask_b, "attached", 0);
}

TEST(bytes_add_up_at_both_nodes_and_after_a_close)
{
	static const size_t size[] = { 1, 0, 100, 4096, 1000000, BUF };
	static const char *const dir[] = { "tx_bytes", "rx_bytes" };
	json_int_t tx = 0, rx = 0, sent = 0, closed;
	struct ends l;
	json_t *v;

	link_up(&l);
	for (unsigned i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
		ends_move(&l, size[i], 1);
		sent += (json_int_t)size[i];
	}
	for (unsigned r = 0; r < 2; r++) {
		json_int_t there = checked_sum(&ask_b, r, dir[1], &closed);

		tx += checked_sum(&ask_a, r, dir[0], &closed);
		assert_int_equal(closed, 0);
		assert_true(there > 0);
		rx += there;
	}
	assert_int_equal(tx, sent);
	assert_int_equal(rx, sent);

	v = node_ask(&ask_a, "clients");
	assert_int_equal(json_array_size(v), 1);
	assert_string_equal(ask_text(json_array_get(v, 0), "name"), "sender");
	json_decref(v);
	v = node_ask(&ask_a, "lanes");
	assert_int_equal(json_array_size(v), 1);
	assert_int_equal(ask_rail(json_array_get(v, 0), "qps", "sout"), 2);
	assert_int_equal(ask_rail(json_array_get(v, 0), "qps", "sup"), 4);
	json_decref(v);

	/* The counters of a client still include the bytes of its closed
	 * connections. */
	mpib_close(l.tx);
	mpib_close(l.rx);
	while (open_conns(&ask_a) > 0)
		usleep(1000);
	v = node_ask(&ask_a, "clients");
	assert_int_equal(
		ask_rail(json_array_get(v, 0), "tx_bytes", "sout") +
			ask_rail(json_array_get(v, 0), "tx_bytes", "sup"),
		sent);
	json_decref(v);
	link_down(&l);
	for (unsigned r = 0; r < 2; r++) {
		json_int_t all = checked_sum(&ask_a, r, dir[0], &closed);

		assert_int_equal(closed, all);
		tx -= all;
	}
	assert_int_equal(tx, 0);
}

static json_int_t sup_bytes(FILE *f)
{
	json_t *v = ask_data(f, "rails");
	json_int_t n = ask_num(json_array_get(v, 1), "tx_bytes");

	json_decref(v);
	return n;
}

TEST(settings_and_drains_apply_to_the_next_message)
{
	FILE *f = ask_admin(&ask_a);
	json_int_t before;
	struct ends l;

	ask_pass(f);
	link_up(&l);
	before = sup_bytes(f);
	json_decref(ask_data(f, "set sup.bw 1024"));
	ends_move(&l, 1 << 20, 1);
	assert_int_equal(sup_bytes(f) - before, 1 << 20);
	json_decref(ask_data(f, "drain SUP"));
	ends_move(&l, 1 << 20, 1);
	assert_int_equal(sup_bytes(f) - before, 1 << 20);
	json_decref(ask_data(f, "resume SUP"));
	json_decref(ask_data(f, "set sup.bw 256"));
	ends_move(&l, 1 << 20, 1);
	assert_int_equal(sup_bytes(f) - before, (1 << 20) + (1 << 18));
	link_down(&l);
	fclose(f);
}

/* Read the metrics once. Return the rail's sent bytes minus the sent bytes of
 * all attached clients. The difference is the number of bytes of clients that
 * have left. */
static long long not_of_clients(FILE *f, const char *rail)
{
	json_t *metrics = ask_data(f, "metrics");
	char *text = strdup(json_string_value(metrics)), *line, *save;
	long long rest = 0, n;
	char label[32];

	snprintf(label, sizeof(label), "rail=\"%s\"", rail);
	for (line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		const char *value = strrchr(line, ' ');

		if (!value || !strstr(line, label))
			continue;
		n = strtoll(value, NULL, 10);
		if (!strncmp(line, "mpib_rail_tx_bytes_total", 24))
			rest += n;
		else if (!strncmp(line, "mpib_client_tx_bytes_total", 26))
			rest -= n;
	}
	free(text);
	json_decref(metrics);
	return rest;
}

TEST(counters_of_rails_and_clients_agree_while_messages_move)
{
	FILE *f = ask_reader(&ask_a);
	long long sout, sup;
	struct ends l;

	ask_pass(f);
	link_up(&l);
	sout = not_of_clients(f, "SOUT");
	sup = not_of_clients(f, "SUP");
	for (unsigned n = 0; n < 30; n++) {
		struct mpib_request *recv = ends_receive(&l, 1);
		struct mpib_request *send = ends_send(&l, BUF, 1);

		assert_int_equal(not_of_clients(f, "SOUT"), sout);
		assert_int_equal(not_of_clients(f, "SUP"), sup);
		ends_finish(recv);
		ends_finish(send);
	}
	link_down(&l);
	fclose(f);
}

TEST(a_client_makes_its_staging_copies_itself)
{
	struct mpib_request *send = NULL, *recv;
	struct mpib_region *plain_mr;
	void *plain = malloc(BUF);
	struct ends l;
	json_t *v;

	link_up(&l);
	memset(plain, 5, BUF);
	assert_int_equal(mpib_reg(l.from, plain, BUF, &plain_mr), 0);
	recv = ends_receive(&l, 1);
	while (!send) /* the library's lock may be held */
		assert_int_equal(
			mpib_isend(l.tx, plain, BUF, 1, plain_mr, &send), 0);
	ends_finish(send);
	ends_finish(recv);
	v = node_ask(&ask_a, "clients");
	assert_int_equal(ask_num(json_array_get(v, 0), "copied_bytes"), BUF);
	assert_true(ask_num(json_array_get(v, 0), "copies") > 1);
	json_decref(v);
	v = node_ask(&ask_b, "clients");
	assert_int_equal(ask_num(json_array_get(v, 0), "copies"), 0);
	json_decref(v);
	link_down(&l);
	free(plain);
}

TEST(latencies_are_counted_for_each_message)
{
	FILE *f = ask_reader(&ask_a);
	json_int_t before, buckets = 0;
	const json_t *one;
	struct ends l;
	json_t *v;
	size_t i;

	ask_pass(f);
	link_up(&l);
	v = ask_data(f, "hist send.submit_done");
	before = ask_num(v, "count");
	json_decref(v);
	for (unsigned n = 0; n < 20; n++)
		ends_move(&l, 1 << 20, 1);
	v = ask_data(f, "hist send.submit_done");
	assert_int_equal(ask_num(v, "count"), before + 20);
	assert_true(ask_num(v, "p50_ns") > 0);
	assert_true(ask_num(v, "p50_ns") <= ask_num(v, "max_ns"));
	json_array_foreach(json_object_get(v, "buckets"), i, one) buckets +=
		json_integer_value(json_array_get(one, 1));
	assert_int_equal(buckets, before + 20);
	one = json_array_get(json_object_get(v, "connections"), 0);
	assert_int_equal(ask_num(one, "count"), 20);
	json_decref(v);
	link_down(&l);
	/* The latencies of closed connections still count. */
	v = ask_data(f, "hist send.submit_done");
	assert_int_equal(ask_num(v, "count"), before + 20);
	json_decref(v);
	fclose(f);
}

struct test_group test_group = { ask_start, ask_stop };
