/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/client/accept.c where it cannot even begin. */
#include <dirent.h>
#include <errno.h>

#include "client/client.h"
#include "peer/internal.h"
#include "test.h"

static struct mpib_broker broker;

static unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void who_cannot_listen_keeps_no_descriptor(void **state)
{
	struct proxy_clients all;
	struct mpib_config cfg;
	struct mpib_loop loop;
	unsigned before;

	mpib_config_init(&cfg);
	assert_int_equal(mpib_loop_init(&loop), 0);
	before = descriptors();
	assert_int_equal(
		proxy_clients_init(&all, &loop, NULL, &broker, &cfg, 1 << 20),
		-EBADF);
	assert_int_equal(descriptors(), before);
	mpib_loop_fini(&loop);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(who_cannot_listen_keeps_no_descriptor),
	{ 0 },
};
