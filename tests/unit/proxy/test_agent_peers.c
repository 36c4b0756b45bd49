/* SPDX-License-Identifier: Apache-2.0 */
/* What agents of different nodes say to each other: who is told, and who heeds it. */
#include "steered.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

static struct mpib_agent_window window[MPIB_AGENT_TOLD_MAX + 1];

static uint32_t ip(const char *text)
{
	uint32_t addr;

	assert_int_equal(inet_pton(AF_INET, text, &addr), 1);
	return addr;
}

/* A proxy that has registered a connection. */
static int proxy(uint32_t flags)
{
	struct mpib_agent_request r = { .type = MPIB_AGENT_REGISTER,
					.flags = flags,
					.conn_id = 1,
					.sout_src_ip = ip("10.1.0.9"),
					.sout_dst_ip = ip("10.1.0.1") };
	struct mpib_agent_response answer;
	int fd = steered_dial();

	assert_int_equal(send(fd, &r, sizeof(r), MSG_NOSIGNAL), sizeof(r));
	while (mpib_loop_turn(&agent.loop, 0) > 0)
		;
	assert_int_equal(recv(fd, &answer, sizeof(answer), MSG_DONTWAIT),
			 sizeof(answer));
	assert_int_equal(answer.status, 0);
	return fd;
}

/* Tell as the agent does; whether the proxy is told anything. */
static bool told(int fd, struct mpib_agent_summary *s)
{
	struct mpib_agent_summary now;

	mpib_agent_summary(&policy, &now);
	mpib_agent_tell(&agent, &now);
	return recv(fd, s, sizeof(*s), MSG_DONTWAIT | MSG_TRUNC) == sizeof(*s);
}

static void a_proxy_is_told_what_is_new_if_it_takes_it(void **state)
{
	struct mpib_agent_island here = { .name = "rack\x1b"
						  "1" };
	struct mpib_agent_summary s;
	int fd = proxy(MPIB_AGENT_HEARS), older = proxy(0);

	assert_true(told(fd, &s));
	assert_int_equal(s.sick | s.congested | s.windows, 0);
	assert_false(told(fd, &s));
	policy.ports.sick[1].since = 1;
	policy.ports.congested[0].since = 1;
	policy.conf.islands.of = &here;
	policy.conf.islands.n = 1;
	assert_true(told(fd, &s));
	assert_int_equal(s.sick, 2);
	assert_int_equal(s.congested, 1);
	assert_string_equal(s.island, "rack?1");
	assert_int_equal(recv(older, &s, sizeof(s), MSG_DONTWAIT), -1);
	policy.conf.islands.n = 0;
	close(older);
	close(fd);
}

static void windows_are_told_that_hold_as_many_as_have_room(void **state)
{
	struct mpib_agent_summary s;

	for (unsigned i = 0; i <= MPIB_AGENT_TOLD_MAX; i++)
		window[i] = (struct mpib_agent_window){ .net = { .bits = 120 },
							.rail = 1,
							.from = 100,
							.to = 200 };
	policy.windows.of = window;
	policy.windows.n = 2;
	policy.conf.lead_s = 10;
	window[1].from = 150;
	policy.now.s = 89;
	mpib_agent_summary(&policy, &s);
	assert_int_equal(s.windows, 0);
	policy.now.s = 90;
	mpib_agent_summary(&policy, &s);
	assert_int_equal(s.windows, 1);
	assert_int_equal(s.window[0].bits, 120);
	assert_int_equal(s.window[0].rail, 1);
	policy.now.s = 199;
	mpib_agent_summary(&policy, &s);
	assert_int_equal(s.windows, 2);
	policy.now.s = 200;
	mpib_agent_summary(&policy, &s);
	assert_int_equal(s.windows, 0);
	policy.windows.n = MPIB_AGENT_TOLD_MAX + 1;
	policy.now.s = 199;
	mpib_agent_summary(&policy, &s);
	assert_int_equal(s.windows, MPIB_AGENT_TOLD_MAX);
	policy.windows.of = NULL;
	policy.windows.n = 0;
}

static const struct mpib_agent_choice *decided(unsigned slot)
{
	mpib_agent_decide(&policy, slot);
	return &agent.slot[slot].choice;
}

static void a_rail_is_left_by_the_word_of_the_peers_agent(void **state)
{
	struct mpib_agent_peer says[2] = {
		{ .sout = ip("10.1.0.1"), .maintenance = 2 },
		{ .sout = ip("10.1.0.2"), .sick = 1 }
	};

	steered_conn(0, "10.1.0.1");
	steered_conn(1, "10.1.0.2");
	steered_conn(2, "10.1.0.3");
	policy.now.s = says[0].said_s = says[1].said_s = 1000;
	policy.peers = (struct mpib_agent_peers){ .n = 2, .of = says };
	assert_int_equal(decided(0)->sup_bw, 0);
	assert_string_equal(decided(0)->why,
			    "SUP left: maintenance at the peer");
	assert_int_equal(decided(1)->sup_bw, MPIB_HINT_SUP_BW_MAX);
	assert_string_equal(decided(1)->why,
			    "SOUT left: sick by the peer's agent");
	assert_int_equal(decided(2)->sup_bw, 512);
	/* Of two that are unwell the one that is worse off is left, whoever says
	 * so. */
	policy.ports.sick[0].since = 1;
	snprintf(policy.ports.sick[0].why, MPIB_AGENT_REASON, "errors");
	assert_int_equal(decided(0)->sup_bw, 0);
	assert_string_equal(decided(2)->why, "SOUT left: errors");
	policy.now.s += MPIB_AGENT_PEERS_MAX_S + 1;
	assert_string_equal(decided(0)->why, "SOUT left: errors");
	policy.peers.n = 0;
	for (unsigned i = 0; i < 3; i++)
		agent.slot[i].users = 0;
}

/* A proxy at where that answers one reader; kill it. */
static pid_t played(const char *where, const char *rows)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	pid_t pid;

	snprintf(at.sun_path, sizeof(at.sun_path), "%s/stats.sock", where);
	unlink(at.sun_path);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 1), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int conn = accept(fd, NULL, NULL);

		dprintf(conn,
			"{\"mpib\":\"1\",\"proto\":1}\n"
			"{\"ok\":true,\"data\":[%s]}\n",
			rows);
		pause();
	}
	close(fd);
	return pid;
}

/* Rows without a rail say that all are well. */
#define ROW(sout, age, rail)                                                   \
	"{\"sout\":\"" sout "\",\"age_s\":" age ",\"sick\":[" rail "]}"

/* Look at one proxy, which answers with these rows. */
static void look_once(struct mpib_agent_peers *p, const char *where,
		      const char *rows, uint64_t now_s)
{
	char error[MPIB_AGENT_WHY];
	pid_t pid = played(where, rows);

	assert_true(mpib_agent_peers_look(p, &where, 1, now_s, error));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void looked(struct mpib_agent_peers *p, const char *where)
{
	char sock[64];

	mpib_agent_peers_free(p);
	snprintf(sock, sizeof(sock), "%s/stats.sock", where);
	unlink(sock);
	rmdir(where);
}

static void a_dead_proxy_silences_no_other(void **state)
{
	char where[] = "/tmp/mpib-test.XXXXXX", error[MPIB_AGENT_WHY];
	const char *dirs[] = { "/nonexistent", where };
	const struct mpib_agent_peer *one;
	struct mpib_agent_peers p = { 0 };
	pid_t pid;

	assert_non_null(mkdtemp(where));
	pid = played(where,
		     ROW("10.1.0.2", "9", "\"SUP\"") "," ROW(
			     "10.1.0.1", "20",
			     "\"SUP\"") "," ROW("10.1.0.2", "3",
						"") "," ROW("10.1.0.3", "31",
							    "\"SUP\""));
	assert_false(mpib_agent_peers_look(&p, dirs, 2, 1000, error));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_int_equal(p.n, 2);
	one = mpib_agent_peer_of(&p, ip("10.1.0.1"), 1010);
	assert_non_null(one);
	assert_int_equal(one->sick, 2);
	assert_null(mpib_agent_peer_of(&p, ip("10.1.0.1"), 1011));
	/* Of two words the younger. */
	one = mpib_agent_peer_of(&p, ip("10.1.0.2"), 1000);
	assert_non_null(one);
	assert_int_equal(one->sick, 0);
	/* What was heard stays while nobody answers, each for its time. */
	assert_false(mpib_agent_peers_look(&p, dirs, 2, 1011, error));
	assert_int_equal(p.n, 1);
	looked(&p, where);
}

/* So it is when a proxy has just started: it has asked nobody yet, and a peer that
 * has just started has not heard its own agent. */
static void a_proxy_that_knows_nothing_yet_silences_none(void **state)
{
	char where[] = "/tmp/mpib-test.XXXXXX";
	static const char *const rows[] = { ROW("10.1.0.1", "2", "\"SUP\""), "",
					    ROW("10.1.0.1", "2", "") };
	static const unsigned left[] = { 2, 2, 0 };
	struct mpib_agent_peers p = { 0 };

	assert_non_null(mkdtemp(where));
	for (uint64_t i = 0; i < 3; i++) {
		look_once(&p, where, rows[i], 1000 + 5 * i);
		assert_int_equal(p.n, 1);
		assert_int_equal(p.of[0].sick, left[i]);
	}
	look_once(&p, where, "", 1039);
	assert_int_equal(p.n, 0);
	looked(&p, where);
}

static void what_was_said_before_the_clock_went_back_is_forgotten(void **state)
{
	char where[] = "/tmp/mpib-test.XXXXXX";
	struct mpib_agent_peers p = { 0 };

	assert_non_null(mkdtemp(where));
	look_once(&p, where, ROW("10.1.0.1", "2", "\"SUP\""), 1000);
	look_once(&p, where, ROW("10.1.0.1", "2", ""), 980);
	assert_int_equal(p.n, 1);
	assert_int_equal(p.of[0].sick, 0);
	looked(&p, where);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test_setup_teardown(
		a_proxy_is_told_what_is_new_if_it_takes_it, steered_begin,
		steered_end),
	cmocka_unit_test_setup_teardown(
		windows_are_told_that_hold_as_many_as_have_room, steered_begin,
		steered_end),
	cmocka_unit_test_setup_teardown(
		a_rail_is_left_by_the_word_of_the_peers_agent, steered_begin,
		steered_end),
	cmocka_unit_test(a_dead_proxy_silences_no_other),
	cmocka_unit_test(a_proxy_that_knows_nothing_yet_silences_none),
	cmocka_unit_test(what_was_said_before_the_clock_went_back_is_forgotten),
	{ 0 },
};
