/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refit: restart a proxy with other settings. If the new settings are
 * compatible, nothing changes for its clients. If a new setting is not
 * compatible, the errors at both ends name the setting and the reason.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover.h"
#include "node.h"
#include "test.h"

static struct node node[2];
static struct mover mover; /* moves messages from node 1 to node 0 */

static int start(void **state)
{
	for (unsigned i = 0; i < 2; i++)
		node_start(&node[i], 5 + i, "--log-level", "error",
			   "--resume-grace", "3", NULL);
	mover_must(mover_begin(&mover, node[1].dir, node[0].dir, 100000, false,
			       1));
	mover_must(mover_move(&mover, 3));
	return 0;
}

static int stop(void **state)
{
	mover_close(&mover);
	for (unsigned i = 0; i < 2; i++)
		node_stop(&node[i]);
	return 0;
}

/* Kill the proxy of node 0 and start it with these additional arguments. NULL
 * ends the list. */
static void restarts_with(const char *const *args)
{
	unsigned n = 0;

	while (node[0].args[n])
		n++;
	for (; *args; args++)
		node[0].args[n++] = strdup(*args);
	node[0].args[n] = NULL;
	node_kill(&node[0]);
	node_again(&node[0]);
}

static void says(struct mpib_conn *conn, const char *what)
{
	while (mpib_ready(conn) >= 0)
		continue;
	if (!strstr(mpib_strerror(), what))
		fail_msg("\"%s\" does not say \"%s\"", mpib_strerror(), what);
}

#define CASE(name) TEST_OF(name, start, stop)

CASE(windows_of_another_size_break_no_connection)
{
	restarts_with((const char *[]){ "--client-window", "16384",
					"--client-part", "4096", NULL });
	mover_must(mover_move(&mover, 8));
	restarts_with((const char *[]){ "--client-window", "8388608",
					"--client-part", "1048576", NULL });
	mover_must(mover_move(&mover, 8));
	assert_int_equal(mover.wrong, 0);
}

CASE(the_error_says_that_the_proxy_resumes_no_connection)
{
	restarts_with((const char *[]){ "--resume-grace", "0", NULL });
	says(mover.rx, "resumes no connection (set its resume.grace");
	says(mover.tx, "this user no longer has this listener at the peer");
}

CASE(the_error_names_the_rails_that_the_lane_needs)
{
	/* Wait for the end of the grace period, after which node 1 reports that
	 * an end is gone. */
	sleep(3);
	snprintf(node[0].sup, sizeof(node[0].sup), "none");
	restarts_with((const char *[]){ NULL });
	says(mover.tx, "it cannot match a lane of 2 rails (give both nodes "
		       "the same rails)");
	says(mover.rx, "(its rank's error says why)");
}

CASE(the_error_names_the_changed_address)
{
	node_rail(node[0].sout, sizeof(node[0].sout), 90);
	node_rail(node[0].sup, sizeof(node[0].sup), 91);
	restarts_with((const char *[]){ NULL });
	says(mover.tx, "check that mpib-proxy runs at this address");
	says(mover.rx, "peer");
}
