/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks on the events and client names that an operator sees, and on message
 * quotas. Users cause events that displace the events of other users, and use
 * names that look like events. Users also reconnect to get a new quota of
 * control messages.
 */
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ipc/message.h"
#include "test.h"
#include "victim.h"

#define COMERS 700
#define RATE 1000 /* control messages per second that a user may send */
#define FLOOD_MS 3000

static struct node node[2];
static struct victim *victim;
static char file[100];

static int setup(void **state)
{
	static const char *const args[] = { "--quota-messages", "1000", NULL };

	victim = victim_between(node, args);
	if (victim)
		snprintf(file, sizeof(file), "%s/events", node[0].base);
	return 0;
}

static int teardown(void **state)
{
	if (victim)
		unlink(file);
	victim_leave(victim, node);
	return 0;
}

/* Attach with the name `name`, as part of a job. */
static int attach_as(const char *dir, const char *name)
{
	struct mpib_ctl_hello hello = {
		.h = { .type = MPIB_CTL_HELLO, .id = 1, .len = sizeof(hello) },
		.version = MPIB_ABI_VERSION,
	};
	int sock = tenant_dial(dir, MPIB_CONTROL_SOCK, SOCK_SEQPACKET);

	if (sock < 0)
		return -1;
	memcpy(hello.name, name, strlen(name) + 1);
	memcpy(hello.label, name, strlen(name) + 1);
	if (mpib_message_send(sock, &hello.h, NULL, 0) == 0 &&
	    tenant_answer(sock) == 0)
		return sock;
	close(sock);
	return -1;
}

static int come_and_go(void *arg)
{
	const char *dir = arg;

	for (unsigned came = 0; came < COMERS;) {
		int sock = attach_as(dir, "moth");

		if (sock < 0) {
			usleep(1000);
			continue;
		}
		close(sock);
		came++;
	}
	return 0;
}

/* Count the events of this kind, and write the number of the newest event to
 * `newest`. */
static unsigned events_of(const struct node *n, const char *kind,
			  json_int_t *newest)
{
	json_t *data = node_ask(n, "events"), *e;
	unsigned found = 0;
	size_t i;

	json_array_foreach(json_object_get(data, "events"), i, e)
	{
		const char *text =
			json_string_value(json_object_get(e, "text"));

		for (; text && *text; text++)
			assert_true((unsigned char)*text >= ' ');
		found += !strcmp(json_string_value(json_object_get(e, "kind")),
				 kind);
		*newest = json_integer_value(json_object_get(e, "seq"));
	}
	json_decref(data);
	return found;
}

TEST(reconnecting_users_do_not_push_out_events_of_others)
{
	json_int_t newest = 0;

	attack_needs_root();
	json_decref(node_ask(&node[0], "drain SUP"));
	json_decref(node_ask(&node[0], "resume SUP"));
	assert_int_equal(tenant_run(ATTACKER, come_and_go, node[0].dir), 0);
	victim_goes_on(victim, 64);
	assert_int_equal(events_of(&node[0], "drain", &newest), 1);
	assert_int_equal(events_of(&node[0], "resume", &newest), 1);
}

static const char *const forged[] = {
	"x\n{\"seq\":1,\"kind\":\"forged\",\"text\":\"x\"}",
	"\",\"kind\":\"forged\",\"x\":\"",
	"\033[2J\033]0;forged\007",
	"\xff\xfe\xc0\xaf\x80",
	"%s%n%s%n",
};

static int attach_forged(void *arg)
{
	for (unsigned i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
		int sock = attach_as(arg, forged[i]);

		if (sock < 0)
			return 2;
		close(sock);
	}
	return 0;
}

/* After a kill, the next proxy reads the events from the event file. In this
 * file, too, a client's name must not look like an event. */
TEST(client_names_cannot_forge_events)
{
	const unsigned names = sizeof(forged) / sizeof(forged[0]);
	json_int_t before = 0, after = 0;
	struct node other;

	attack_needs_root();
	node_start(&other, 3, "--run-group", "nogroup", "--log-events", file,
		   NULL);
	assert_int_equal(tenant_run(ATTACKER, attach_forged, other.dir), 0);
	for (unsigned life = 0; life < 2; life++) {
		assert_int_equal(events_of(&other, "forged", &after), 0);
		assert_int_equal(events_of(&other, "client_attaches", &after),
				 names);
		assert_true(after > before);
		before = after;
		node_kill(&other);
		node_again(&other);
	}
	victim_goes_on(victim, 64);
	node_stop(&other);
}

/* Send messages until the proxy hangs up or the client leaves. Then connect
 * again. */
static int ask_and_come_back(void *arg)
{
	struct mpib_ctl_id ask = {
		.h = { .type = MPIB_CTL_DEVICE, .id = 2, .len = sizeof(ask) }
	};
	unsigned long long until = node_ms() + FLOOD_MS;
	unsigned *answered = arg;

	while (node_ms() < until) {
		int sock = attach_as(node[0].dir, "asker");
		int rc = sock < 0 ? 1 : 0;

		for (unsigned i = 0; rc <= 0 && i < RATE - 10; i++) {
			if (mpib_message_send(sock, &ask.h, NULL, 0) < 0)
				break;
			rc = tenant_answer(sock);
			*answered += rc == 0;
		}
		if (sock >= 0)
			close(sock);
	}
	return 0;
}

TEST(a_reconnect_does_not_give_a_new_message_quota)
{
	unsigned *answered = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned long long from = node_ms(), most;

	attack_needs_root();
	assert_true(answered != MAP_FAILED);
	assert_int_equal(tenant_run(ATTACKER, ask_and_come_back, answered), 0);
	most = RATE * ((node_ms() - from) / 1000 + 2);
	print_message("%u messages answered, at most %llu allowed\n", *answered,
		      most);
	assert_in_range(*answered, 1, most);
	victim_goes_on(victim, 64);
	munmap(answered, 4096);
}

struct test_group test_group = { setup, teardown };
