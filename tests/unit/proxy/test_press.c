/* SPDX-License-Identifier: Apache-2.0 */
/* For how long an upgrade waits for what has to settle, and when it presses. Time
 * is set by hand. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "handover/channel.h"
#include "handover/source.h"
#include "proxy.h"
#include "test.h"

/* As installed. */
#define SILENCE 60
#define ANSWER 10

static uint64_t now_ns, clients_pressed, peers_pressed;
static uint64_t peers_shut;
static bool forced, shut;
static int of_peers; /* whether what they have to answer for has settled */

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	(void)clock;
	ts->tv_sec = (time_t)(now_ns / MPIB_SEC);
	ts->tv_nsec = (long)(now_ns % MPIB_SEC);
	return 0;
}

void __wrap_proxy_clients_pause(struct proxy_clients *all, bool on);
void __wrap_proxy_clients_pause(struct proxy_clients *all, bool on)
{
	(void)all;
	(void)on;
}

int __wrap_proxy_clients_quiescent(const struct proxy_clients *all, char *why,
				   size_t why_len);
int __wrap_proxy_clients_quiescent(const struct proxy_clients *all, char *why,
				   size_t why_len)
{
	(void)all;
	(void)why;
	(void)why_len;
	return 0;
}

void __wrap_proxy_clients_press(struct proxy_clients *all);
void __wrap_proxy_clients_press(struct proxy_clients *all)
{
	(void)all;
	assert_int_equal(clients_pressed, 0);
	clients_pressed = now_ns;
}

void __wrap_mpib_broker_hold(struct mpib_broker *b, bool on);
void __wrap_mpib_broker_hold(struct mpib_broker *b, bool on)
{
	(void)b;
	(void)on;
}

int __wrap_mpib_broker_quiescent(struct mpib_broker *b, char *why,
				 size_t why_len);
int __wrap_mpib_broker_quiescent(struct mpib_broker *b, char *why,
				 size_t why_len)
{
	(void)b;
	snprintf(why, why_len, "it is being opened");
	return of_peers;
}

void __wrap_mpib_broker_press(struct mpib_broker *b);
void __wrap_mpib_broker_press(struct mpib_broker *b)
{
	(void)b;
	assert_true(forced || peers_pressed == 0);
	if (!peers_pressed)
		peers_pressed = now_ns;
}

void __wrap_mpib_broker_force(struct mpib_broker *b);
void __wrap_mpib_broker_force(struct mpib_broker *b)
{
	(void)b;
	forced = true;
}

void __wrap_mpib_broker_shut(struct mpib_broker *b, bool on);
void __wrap_mpib_broker_shut(struct mpib_broker *b, bool on)
{
	(void)b;
	assert_true(forced || !on);
	if (on && !peers_shut)
		peers_shut = now_ns;
	shut = on;
}

void __wrap_mpib_proxy_http(struct mpib_proxy *p, bool on);
void __wrap_mpib_proxy_http(struct mpib_proxy *p, bool on)
{
	(void)p;
	(void)on;
}

void __wrap_proxy_clients_serialize(struct mpib_serial *s,
				    struct proxy_clients *all);
void __wrap_proxy_clients_serialize(struct mpib_serial *s,
				    struct proxy_clients *all)
{
	(void)s;
	(void)all;
}

int __wrap_mpib_channel_send(int sock, enum mpib_channel_type type,
			     const struct mpib_serial *s);
int __wrap_mpib_channel_send(int sock, enum mpib_channel_type type,
			     const struct mpib_serial *s)
{
	(void)sock;
	(void)type;
	(void)s;
	return 0;
}

static int settle(void **state)
{
	static char name[] = "mpib-proxy", *argv[] = { name, NULL };
	struct mpib_proxy *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	now_ns = 1000 * MPIB_SEC;
	clients_pressed = peers_pressed = peers_shut = 0;
	forced = shut = false;
	of_peers = -EAGAIN;
	p->cfg.answer = ANSWER;
	assert_int_equal(mpib_loop_init(&p->loop), 0);
	mpib_upgrade_init(&p->upgrade, p, argv);
	mpib_source_settle(&p->upgrade);
	*state = p;
	return 0;
}

static int unsettle(void **state)
{
	struct mpib_proxy *p = *state;

	mpib_timer_disarm(&p->loop, &p->upgrade.timer);
	close(p->upgrade.cwd);
	mpib_loop_fini(&p->loop);
	free(p);
	return 0;
}

static void pass(struct mpib_proxy *p, uint64_t ns)
{
	for (uint64_t until = now_ns + ns; now_ns < until;) {
		now_ns += MPIB_MSEC;
		mpib_loop_turn(&p->loop, 0);
	}
}

/* A peer that is upgraded, too, answers when its new process has read all. */
static void it_outwaits_a_peer_that_hands_over(void **state)
{
	struct mpib_proxy *p = *state;

	pass(p, mpib_source_limit_ms(SILENCE) * MPIB_MSEC);
	of_peers = 0;
	pass(p, 2 * MPIB_MSEC);
	assert_int_equal(p->upgrade.state, MPIB_UPGRADE_MAPPING);
	assert_int_equal(peers_pressed, 0);
}

static void it_presses_once_and_gives_up_in_the_end(void **state)
{
	struct mpib_proxy *p = *state;
	uint64_t began = now_ns;

	pass(p, ANSWER * MPIB_SEC * 8 / 10);
	assert_true(p->upgrade.failed);
	assert_string_equal(p->upgrade.error, "it is being opened");
	assert_in_range(clients_pressed - began, 2 * MPIB_SEC,
			2 * MPIB_SEC + 2 * MPIB_MSEC);
	assert_in_range(peers_pressed - began, 4500 * MPIB_MSEC,
			4502 * MPIB_MSEC);
}

/* What is left then is for the new process to map the clients' memory. */
static void it_leaves_time_where_clients_have_little(void **state)
{
	struct mpib_proxy *p = *state;

	p->cfg.answer = 2;
	mpib_source_settle(&p->upgrade);
	while (!peers_pressed)
		pass(p, MPIB_MSEC);
	assert_in_range(p->upgrade.deadline - now_ns, 590 * MPIB_MSEC,
			800 * MPIB_MSEC);
}

/* By force peers get no time for anything new once they had most of it. */
static void a_forced_one_shuts_peers_out_until_all_has_settled(void **state)
{
	struct mpib_proxy *p = *state;
	uint64_t began = now_ns;

	p->upgrade.force = true;
	mpib_source_settle(&p->upgrade);
	while (!peers_shut)
		pass(p, MPIB_MSEC);
	assert_in_range(peers_pressed - began, 4500 * MPIB_MSEC,
			4502 * MPIB_MSEC);
	assert_in_range(peers_shut - began, 5800 * MPIB_MSEC, 6 * MPIB_SEC);
	pass(p, 10 * MPIB_MSEC);
	assert_true(shut);
	of_peers = 0;
	pass(p, 2 * MPIB_MSEC);
	assert_int_equal(p->upgrade.state, MPIB_UPGRADE_MAPPING);
	assert_false(shut);
}

#define settle_test(f) cmocka_unit_test_setup_teardown(f, settle, unsettle)

const struct CMUnitTest test_list[] = {
	settle_test(it_outwaits_a_peer_that_hands_over),
	settle_test(it_presses_once_and_gives_up_in_the_end),
	settle_test(it_leaves_time_where_clients_have_little),
	settle_test(a_forced_one_shuts_peers_out_until_all_has_settled),
	{ 0 },
};
