/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user whose connections go to a peer of his own. Without peer.key_file any
 * process may be one: here a proxy that stands still, or one whose connections
 * cannot be handed over. The operator of the node upgrades it, by force where
 * connections end by that, which are the attacker's alone.
 */
#include <errno.h>
#include <mpib/client.h>
#include <signal.h>
#include <unistd.h>

#include "mover.h"
#include "test.h"
#include "victim.h"

static struct node node[2], peer;
static struct victim *victim;
static int ready[2]; /* a pipe: the attacker has done its deed */
static int stopped[2]; /* the other way: its peer stands still */

static void begin(const char *flag, const char *value)
{
	attack_needs_root();
	victim = victim_between(node, NULL);
	attack_start(&peer, 3, (const char *[]){ flag, value, NULL });
	assert_int_equal(pipe(ready) || pipe(stopped), 0);
}

static int end(void **state)
{
	if (!victim)
		return 0;
	victim_leave(victim, node);
	node_wipe(&peer);
	for (unsigned i = 0; i < 2; i++) {
		close(ready[i]);
		close(stopped[i]);
	}
	victim = NULL;
	return 0;
}

/* An open connection with the peer, and where *arg says so nothing but a connect
 * once it stands still, over the lane that is there. */
static int connect_to_own_peer(void *arg)
{
	struct mover m;
	char byte;

	if (mover_begin(&m, node[0].dir, peer.dir, 4096, false, 3) < 0 ||
	    mover_move(&m, 3) < 0)
		return 2;
	if (*(const bool *)arg) {
		struct mpib_client *to = tenant_attach(&peer);
		struct mpib_client *from = tenant_attach(&node[0]);
		struct mpib_listener *l;
		struct mpib_handle h;
		struct mpib_conn *conn;

		mover_close(&m);
		if (!to || !from || mpib_listen(to, &h, &l) < 0 ||
		    write(ready[1], "x", 1) != 1 ||
		    read(stopped[0], &byte, 1) != 1 ||
		    mpib_connect(from, &h, -1, &conn) < 0)
			return 3;
		for (unsigned n = 0; n < 300 && mpib_ready(conn) == 0; n++)
			usleep(1000);
	}
	return tenant_stay(ready[1]);
}

static pid_t attack(bool connect)
{
	pid_t pid = attacker_begin(connect_to_own_peer, &connect, ready[0]);
	char byte = 'x';

	if (connect) {
		child_freeze(peer.pid);
		assert_int_equal(write(stopped[1], &byte, 1), 1);
		assert_int_equal(read(ready[0], &byte, 1), 1);
	}
	return pid;
}

static void upgrade(struct run *run, const char *how)
{
	victim_sees_upgrade(victim, node[0].dir, how, run);
	victim_goes_on(victim, 1000);
}

static void upgraded(const char *how)
{
	struct run run;

	upgrade(&run, how);
	assert_string_equal(run.err, "");
	assert_int_equal(run.status, 0);
}

static void refused_but_by_force(void)
{
	struct run run;

	upgrade(&run, "now");
	assert_int_equal(run.status, 1);
	assert_in(run.err, "mpibctl upgrade force");
	upgraded("force");
}

static void a_connect_that_its_peer_never_answers_stops_no_upgrade(void **state)
{
	pid_t pid;

	begin("--peer-silence", "600");
	pid = attack(true);
	upgraded("now");
	upgraded("now");
	child_kill(pid);
}

static void rails_that_its_peer_does_not_stop_stop_no_forced_one(void **state)
{
	pid_t pid;

	begin("--peer-silence", "600");
	pid = attack(false);
	child_freeze(peer.pid);
	refused_but_by_force();
	upgraded("now");
	child_kill(pid);
}

static void a_peer_without_fail_over_stops_no_forced_one(void **state)
{
	pid_t pid;

	begin("--failover", "no");
	pid = attack(false);
	refused_but_by_force();
	child_kill(pid);
}

#define MUTE(test) cmocka_unit_test_teardown(test, end)

const struct CMUnitTest test_list[] = {
	MUTE(a_connect_that_its_peer_never_answers_stops_no_upgrade),
	MUTE(rails_that_its_peer_does_not_stop_stop_no_forced_one),
	MUTE(a_peer_without_fail_over_stops_no_forced_one),
	{ 0 },
};
