/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to peers and their answers: on the wire, and between brokers. */
#include <errno.h>
#include <stdio.h>

#include "peer/internal.h"
#include "rig.h"
#include "test.h"

/* Each node's asker. */
static struct asker {
	struct mpib_broker *broker;
	struct mpib_node_report own;
	bool dumb; /* knows nothing of its node yet */
	unsigned asked, answered;
} asker[NODES];

static void on_asked(void *arg)
{
	struct asker *a = arg;

	a->asked++;
	if (!a->dumb)
		mpib_broker_report(a->broker, &a->own);
}

static void on_answered(void *arg)
{
	((struct asker *)arg)->answered++;
}

static void up(struct rig *rig, unsigned n)
{
	struct asker *a = &asker[n];
	struct mpib_inquirer i = { on_asked, on_answered, a };

	rig_up(rig, n);
	*a = (struct asker){ .broker = rig->node[n].broker };
	snprintf(a->own.host, sizeof(a->own.host), "node%u", n);
	a->own.devices = a->own.rails = 1;
	mpib_broker_inquirer(a->broker, &i);
}

/* Node 0 has a connection with each other one. */
static void all_up(struct rig *rig, unsigned nodes)
{
	struct client *from;

	for (unsigned n = 0; n < nodes; n++)
		up(rig, n);
	from = rig_client(rig, 0, 1000, 0);
	for (unsigned n = 1; n < nodes; n++)
		rig_connect(rig, from, n, rig_client(rig, n, 1000, 0), 0);
}

static uint64_t now(struct rig *rig)
{
	return mpib_loop_now(&rig->node[0].loop);
}

/* What node 0 knows of the others. */
struct seen {
	unsigned peers, of[MPIB_TOLD_UNREACHED + 1];
	uint64_t silent_ns;
	char hosts[100], why[100];
};

static void on_told(void *arg, const struct mpib_broker_told *t)
{
	struct seen *s = arg;

	s->peers++;
	s->of[t->state]++;
	if (t->silent_ns > s->silent_ns)
		s->silent_ns = t->silent_ns;
	if (t->state == MPIB_TOLD_UNREACHED)
		snprintf(s->why, sizeof(s->why), "%s", t->why);
	if (t->state == MPIB_TOLD_WELL)
		snprintf(s->hosts + strlen(s->hosts),
			 sizeof(s->hosts) - strlen(s->hosts), " %s",
			 t->report->host);
}

static struct seen look(void)
{
	struct seen s = { 0 };

	mpib_broker_each_told(asker[0].broker, on_told, &s);
	return s;
}

static void one_question_has_the_answer_of_each_peer(void **state)
{
	struct rig *rig = *state;
	struct seen s;

	all_up(rig, 3);
	s = look();
	assert_int_equal(s.of[MPIB_TOLD_NEW], 2);
	mpib_broker_ask(asker[0].broker);
	assert_true(mpib_broker_awaits(asker[0].broker, now(rig)));
	rig_settle(rig);
	assert_false(mpib_broker_awaits(asker[0].broker, now(rig)));
	s = look();
	assert_int_equal(s.peers, 2);
	assert_string_equal(s.hosts, " node1 node2");
	assert_int_equal(asker[0].answered, 2);
	assert_int_equal(asker[0].asked, 0);
}

static void who_does_not_answer_is_named_and_not_asked_again(void **state)
{
	struct rig *rig = *state;
	uint64_t begun;
	struct seen s;

	all_up(rig, 3);
	asker[2].dumb = true;
	mpib_broker_ask(asker[0].broker);
	rig_pass(rig, 2 * MPIB_SEC);
	s = look();
	assert_string_equal(s.hosts, " node1");
	assert_int_equal(s.of[MPIB_TOLD_SILENT], 1);
	assert_int_equal(s.silent_ns, 2 * MPIB_SEC);
	/* Who asks next does not wait for it. */
	begun = now(rig);
	mpib_broker_ask(asker[0].broker);
	rig_settle(rig);
	assert_false(mpib_broker_awaits(asker[0].broker, begun));
	assert_int_equal(asker[0].answered, 2);
	/* It goes on: the answer to the first question is one. */
	asker[2].dumb = false;
	mpib_broker_report(asker[2].broker, &asker[2].own);
	rig_settle(rig);
	s = look();
	assert_string_equal(s.hosts, " node1 node2");
	assert_int_equal(s.silent_ns, 0);
	assert_int_equal(asker[2].asked, 1);
}

static struct mpib_peer *peer_of(unsigned n)
{
	return TAILQ_FIRST(&asker[n].broker->peers);
}

static void who_asks_without_end_is_answered_now_and_then(void **state)
{
	const struct mpib_peer_msg ask = { .type = MPIB_PEER_ASK };
	struct rig *rig = *state;

	all_up(rig, 2);
	for (unsigned i = 0; i < 1000; i++) {
		mpib_peer_tell(peer_of(1), &ask);
		rig_settle(rig);
	}
	assert_int_equal(asker[1].answered, 1);
	assert_int_equal(asker[0].asked, 1);
	rig_pass(rig, MPIB_SEC);
	assert_int_equal(asker[1].answered, 2);
	/* What is older than a second is asked for anew. */
	mpib_peer_tell(peer_of(1), &ask);
	rig_settle(rig);
	assert_int_equal(asker[1].answered, 3);
	assert_int_equal(asker[0].asked, 2);
}

static void a_question_outlives_its_link_and_ends_with_the_peer(void **state)
{
	struct rig *rig = *state;
	struct seen s;

	all_up(rig, 2);
	asker[1].dumb = true;
	mpib_broker_ask(asker[0].broker);
	rig_settle(rig);
	rig_cut(rig, 0);
	rig_settle(rig);
	mpib_broker_report(asker[1].broker, &asker[1].own);
	rig_settle(rig);
	s = look();
	assert_string_equal(s.hosts, " node1");
	rig_advance(rig, 2 * MPIB_SEC);
	mpib_broker_ask(asker[0].broker);
	rig_settle(rig);
	rig_kill(rig, 1);
	rig_settle(rig);
	assert_false(mpib_broker_awaits(asker[0].broker, now(rig)));
	s = look();
	assert_int_equal(s.silent_ns, 0);
}

/* A node that has as much as a node can. */
static void fill(struct mpib_node_report *m)
{
	memset(m->version, 'v', sizeof(m->version) - 1);
	memset(m->host, 'h', sizeof(m->host) - 1);
	memset(m->slowest, 's', sizeof(m->slowest) - 1);
	m->uptime_s = m->clients = m->connections = m->stuck = UINT32_MAX;
	m->devices = MPIB_DEVICES_MAX;
	m->rails = MPIB_RAILS;
	for (unsigned i = 0; i < MPIB_RAILS_MAX; i++) {
		struct mpib_report_rail *r = &m->rail[i];

		memset(r->device, 'd', sizeof(r->device) - 1);
		r->flags = MPIB_REPORT_FLAGS;
		r->speed_mbps = r->expected_mbps = UINT32_MAX;
		r->errors = r->failovers = UINT64_MAX;
	}
	m->slowest_mbps = m->slowest_rtt_ns = UINT64_MAX;
	m->agent.there = true;
	m->agent.sick = m->agent.congested = m->agent.maintenance = 3;
	memset(m->agent.island, 'i', sizeof(m->agent.island) - 1);
	m->settings = MPIB_REPORT_SETTINGS;
	memset(m->setting, 0xff, sizeof(m->setting));
}

static void the_longest_report_fits_a_sealed_frame(void **state)
{
	struct mpib_peer_msg m = { .type = MPIB_PEER_REPORT }, got;
	uint8_t buf[MPIB_PEER_FRAME_MAX];
	size_t n;

	fill(&m.report);
	n = mpib_peer_encode(&m, buf);
	assert_true(n + MPIB_SEAL_BYTES <= sizeof(buf) - 100);
	assert_int_equal(mpib_peer_decode(buf + 4, n - 4, &got), 0);
	assert_memory_equal(&got.report, &m.report, sizeof(m.report));
	/* Neither less nor more. */
	assert_int_equal(mpib_peer_decode(buf + 4, n - 5, &got), -EPROTO);
	assert_int_equal(mpib_peer_decode(buf + 4, n - 3, &got), -EPROTO);
}

/* Change the byte `at` of a small report to value; what a decoder says of it. */
static int decode_with(size_t at, uint8_t value, struct mpib_peer_msg *got)
{
	struct mpib_peer_msg m = {
		.type = MPIB_PEER_REPORT,
		.report = { .version = "1.0", .devices = 1, .rails = 1 }
	};
	uint8_t buf[MPIB_PEER_FRAME_MAX];
	size_t n = mpib_peer_encode(&m, buf);

	buf[4 + at] = value;
	return mpib_peer_decode(buf + 4, n - 4, got);
}

static void what_a_peer_says_commands_no_terminal_and_no_table(void **state)
{
	struct mpib_peer_msg got;

	/* type, length, "1.0", an empty host, four numbers, devices, rails, an
	 * empty device, flags. */
	assert_int_equal(decode_with(2, 27, &got), 0);
	assert_string_equal(got.report.version, "?.0");
	assert_int_equal(decode_with(2, 0xe9, &got), 0);
	assert_string_equal(got.report.version, "?.0");
	assert_int_equal(decode_with(1, sizeof(got.report.version), &got),
			 -EPROTO);
	assert_int_equal(
		decode_with(22, MPIB_DEVICES_MAX * MPIB_RAILS + 1, &got),
		-EPROTO);
	assert_int_equal(decode_with(23, MPIB_RAILS + 1, &got), -EPROTO);
	assert_int_equal(
		decode_with(24, sizeof(got.report.rail[0].device), &got),
		-EPROTO);
	assert_int_equal(decode_with(25, 0xff, &got), 0);
	assert_int_equal(got.report.rail[0].flags, MPIB_REPORT_FLAGS);
}

const struct CMUnitTest test_list[] = {
	rig_test(one_question_has_the_answer_of_each_peer),
	rig_test(who_does_not_answer_is_named_and_not_asked_again),
	rig_test(who_asks_without_end_is_answered_now_and_then),
	rig_test(a_question_outlives_its_link_and_ends_with_the_peer),
	cmocka_unit_test(the_longest_report_fits_a_sealed_frame),
	cmocka_unit_test(what_a_peer_says_commands_no_terminal_and_no_table),
	{ 0 },
};
