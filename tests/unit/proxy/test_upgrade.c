/* SPDX-License-Identifier: Apache-2.0 */
/* How a new proxy ends that is quicker than the one which started it: before that
 * has told it anything. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "handover/channel.h"
#include "handover/spawn.h"
#include "proxy.h"
#include "test.h"

static const char *its_last; /* what it says; NULL: nothing */

int __wrap_mpib_spawn_guard(int inherited, bool daemon, int *link);
int __wrap_mpib_spawn_guard(int inherited, bool daemon, int *link)
{
	(void)inherited;
	(void)daemon;
	(void)link;
	return 0;
}

int __wrap_mpib_spawn(const struct mpib_spawn *how, int *sock, pid_t *pid);
int __wrap_mpib_spawn(const struct mpib_spawn *how, int *sock, pid_t *pid)
{
	int pair[2];

	(void)how;
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	if (its_last)
		assert_int_equal(mpib_channel_fail(pair[1], its_last), 0);
	close(pair[1]);
	*sock = pair[0];
	*pid = fork();
	if (*pid == 0)
		_exit(7);
	return 0;
}

void __wrap_mpib_proxy_base(const struct mpib_proxy *p, struct mpib_base *b);
void __wrap_mpib_proxy_base(const struct mpib_proxy *p, struct mpib_base *b)
{
	(void)p;
	*b = (struct mpib_base){ 0 };
}

/* Why there is no upgrade. */
static void upgrade_fails(const char *why)
{
	static char name[] = "mpib-proxy", *argv[] = { name, NULL };
	struct mpib_proxy *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	assert_int_equal(mpib_loop_init(&p->loop), 0);
	mpib_upgrade_init(&p->upgrade, p, argv);
	assert_int_equal(mpib_upgrade_start(&p->upgrade, "/bin/true", false),
			 0);
	assert_true(p->upgrade.failed);
	assert_non_null(strstr(p->upgrade.error, why));
	while (p->upgrade.reap.armed)
		mpib_loop_turn(&p->loop, MPIB_SEC);
	close(p->upgrade.cwd);
	mpib_loop_fini(&p->loop);
	free(p);
}

static void what_it_said_is_the_reason(void **state)
{
	(void)state;
	its_last = "it has a headache";
	upgrade_fails("it has a headache");
}

static void of_one_that_said_nothing_its_status_is(void **state)
{
	(void)state;
	its_last = NULL;
	upgrade_fails("ended with status 7");
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(what_it_said_is_the_reason),
	cmocka_unit_test(of_one_that_said_nothing_its_status_is),
	{ 0 },
};
