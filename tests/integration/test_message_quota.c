/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that has sent more messages than quota.messages allows can still
 * release what it has. The proxy's clock stands still, so the client stays
 * beyond its quota for the whole test.
 */
#include <errno.h>
#include <unistd.h>

#include "inner_proxy.h"
#include "test.h"

static int sock;

static int setup(void **state)
{
	if (inner_init(state))
		return -1;
	inner_set("quota", "messages", "10");
	if (inner_start())
		return -1;
	mpib_loop_advance(&inner.loop, 0);
	sock = inner_attach();
	return 0;
}

static int teardown(void **state)
{
	close(sock);
	return inner_stop(state);
}

struct test_group test_group = { setup, teardown };

/* Send a request and wait for the answer. Return its status. */
static int32_t ask(const struct mpib_ctl_header *h, struct mpib_message *answer)
{
	inner_tell(sock, h);
	inner_hear(sock, answer);
	assert_int_equal(answer->h.type, h->type);
	return answer->h.status;
}

static uint32_t get_region(void)
{
	const struct mpib_ctl_pool pool = {
		.h = { .type = MPIB_CTL_POOL, .len = sizeof(pool) },
		.size = 4096,
	};
	struct mpib_message m;
	const struct mpib_ctl_region *region = (const void *)m.bytes;

	assert_int_equal(ask(&pool.h, &m), 0);
	return region->mr;
}

static uint32_t get_listener(void)
{
	const struct mpib_ctl_listen listen = {
		.h = { .type = MPIB_CTL_LISTEN, .len = sizeof(listen) },
	};
	struct mpib_message m;
	const struct mpib_ctl_listening *listening = (const void *)m.bytes;

	assert_int_equal(ask(&listen.h, &m), 0);
	return listening->listen_id;
}

/* Begin connection 0, which no peer connects to. */
static void get_connection(uint32_t listener)
{
	const struct mpib_ctl_accept accept = {
		.h = { .type = MPIB_CTL_ACCEPT, .len = sizeof(accept) },
		.listen_id = listener,
	};
	struct mpib_message m;

	assert_int_equal(ask(&accept.h, &m), 0);
}

static void use_up_the_quota(void)
{
	const struct mpib_ctl_id device = {
		.h = { .type = MPIB_CTL_DEVICE, .len = sizeof(device) },
	};
	struct mpib_message m;
	const struct mpib_ctl_error *e = (const void *)m.bytes;

	while (ask(&device.h, &m) == 0)
		;
	assert_int_equal(m.h.status, -EDQUOT);
	assert_in(e->why, "quota.messages = 10");
}

static int32_t release(uint32_t type, uint32_t id)
{
	const struct mpib_ctl_id give = {
		.h = { .type = type, .len = sizeof(give) },
		.id = id,
	};
	struct mpib_message m;

	return ask(&give.h, &m);
}

/* A client sends these requests only once. If the proxy refused one, it would
 * keep the object for as long as the client lives, and a peer could wait
 * forever for the connection. */
TEST(a_client_beyond_its_message_quota_may_release_its_objects)
{
	uint32_t region = get_region(), listener = get_listener();

	get_connection(listener);
	use_up_the_quota();
	assert_int_equal(release(MPIB_CTL_CLOSE, 0), 0);
	assert_int_equal(release(MPIB_CTL_CLOSE_LISTEN, listener), 0);
	assert_int_equal(release(MPIB_CTL_DEREG, region), 0);
}
