/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outlive [N]: N times, one of two proxies or both are killed under traffic and
 * started again. Some kills come while the clients resume or connect. No call
 * of the clients fails, and each message arrives once and complete. Further
 * tests do the same with proxies that the clients themselves start. For a soak,
 * run outlive 5000.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover.h"
#include "node.h"
#include "test.h"

#define MOVERS 8

static struct node node[2];
static unsigned kills = 4;
/* index of the mover that is connecting; MOVERS: none */
static unsigned opening = MOVERS;

static void move(struct mover *m, uint64_t messages)
{
	for (unsigned i = 0; i < MOVERS; i++)
		mover_must(mover_move(&m[i], messages));
}

/* The mover's index decides two things independently: every second mover sends
 * from the first node, and half of the movers send without a copy. */
static void open_mover(struct mover *m, unsigned i)
{
	mover_must(mover_open(&m[i], node[i & 1].dir, node[1 - (i & 1)].dir,
			      200000, i & 2, i));
}

/* Make a random number of steps, so that some messages are in flight. */
static void step(struct mover *m, unsigned most)
{
	for (unsigned times = (unsigned)rand() % most; times > 0; times--) {
		for (unsigned i = 0; i < MOVERS; i++) {
			int rc = i == opening ? 0 : mover_step(&m[i]);

			mover_must(rc < 0 ? rc : 0);
		}
	}
}

/* Kill one proxy or both, and start the killed proxies again one after the
 * other. */
static void kill_some(struct mover *m)
{
	unsigned which = (unsigned)rand() % 3 + 1; /* bit per proxy */
	unsigned first = (unsigned)rand() % 2;

	for (unsigned i = 0; i < 2; i++) {
		if (which & 1u << i)
			node_kill(&node[i]);
	}
	for (unsigned i = 0; i < 2; i++) {
		step(m, 200);
		if (which & 1u << (i ^ first))
			node_again(&node[i ^ first]);
	}
}

/* Replace a connection with a new one. */
static void replace_one(struct mover *m)
{
	opening = (unsigned)rand() % MOVERS;
	mover_close(&m[opening]);
	open_mover(m, opening);
}

static void await_opening(struct mover *m)
{
	if (opening < MOVERS)
		mover_must(mover_wait(&m[opening]));
	opening = MOVERS;
}

/* Messages without a copy use device memory if there are two rails, and pool
 * memory if there is only one. */
static void outlives_with(const char *sup)
{
	const char *const args[] = { "--log-level",
				     "error",
				     "--resume-grace",
				     "300",
				     sup ? "--sup" : "--dmabuf",
				     sup ? "none" : "yes",
				     NULL };
	struct mover m[MOVERS];

	srand(kills);
	node_start_with(&node[0], 5, args);
	node_start_with(&node[1], 6, args);
	for (unsigned i = 0; i < MOVERS; i++)
		open_mover(m, i);
	for (unsigned i = 0; i < MOVERS; i++)
		mover_must(mover_wait(&m[i]));
	for (unsigned k = 0; k < kills; k++) {
		/* In half of the rounds, do not wait: the clients are still
		 * resuming at the next kill. */
		if (rand() % 2)
			move(m, (unsigned)rand() % (k % 8 ? 8 : 200));
		step(m, 200);
		if (rand() % 4 == 0)
			replace_one(m);
		kill_some(m);
		await_opening(m);
	}
	move(m, 3);
	for (unsigned i = 0; i < MOVERS; i++) {
		assert_int_equal(m[i].wrong, 0);
		mover_close(&m[i]);
	}
	node_stop(&node[0]);
	node_stop(&node[1]);
	printf("proxies killed %u times, %s: 0 errors, 0 wrong\n", kills,
	       sup ? "one rail" : "two rails");
}

TEST(a_job_of_two_rails_outlives_its_proxies)
{
	outlives_with(NULL);
}

TEST(a_job_of_one_rail_outlives_its_proxies)
{
	outlives_with("--sup");
}

/* Post until a call fails, and return its error. */
static int conn_end(struct mover *m, struct mpib_conn *conn, bool sends)
{
	size_t size = m->room;
	struct mpib_request *r;
	int rc = 0, done;

	while (rc == 0) {
		r = NULL;
		rc = sends ? mpib_isend(conn, m->src, size, 0, m->tx_mr, &r)
			   : mpib_irecv(conn, 1, (void *[]){ m->dst }, &size,
					NULL, &m->rx_mr, &r);
		for (done = 0; rc == 0 && r && !done;)
			rc = mpib_test(r, &done, NULL);
	}
	return rc;
}

/* Check that the peer gets the error long before resume.grace ends. */
TEST(a_close_while_the_proxy_is_down_reaches_the_peer)
{
	struct mover m[2];

	for (unsigned i = 0; i < 2; i++)
		node_start(&node[i], 5 + i, "--log-level", "error",
			   "--resume-grace", "600", NULL);
	for (unsigned i = 0; i < 2; i++) {
		mover_must(mover_begin(&m[i], node[i].dir, node[1 - i].dir,
				       10000, i, i));
		mover_must(mover_move(&m[i], 3));
	}
	node_kill(&node[0]);
	mpib_close(m[0].tx);
	mpib_close(m[1].rx);
	node_again(&node[0]);
	assert_int_equal(conn_end(&m[0], m[0].rx, false), -ECONNRESET);
	assert_int_equal(conn_end(&m[1], m[1].tx, true), -ECONNRESET);
	for (unsigned i = 0; i < 2; i++) {
		*(i ? &m[i].rx : &m[i].tx) = NULL;
		mover_close(&m[i]);
	}
	for (unsigned i = 0; i < 2; i++)
		node_stop(&node[i]);
}

/* The process continues to run, but attaches no client to the next proxy. */
TEST(a_detach_without_a_proxy_reaches_the_peer)
{
	struct mover m;

	for (unsigned i = 0; i < 2; i++)
		node_start(&node[i], 5 + i, "--log-level", "error",
			   "--resume-grace", "600", NULL);
	mover_must(mover_begin(&m, node[0].dir, node[1].dir, 10000, 0, 0));
	mover_must(mover_move(&m, 3));
	node_kill(&node[0]);
	mpib_close(m.tx);
	mpib_detach(m.from);
	m.tx = NULL;
	m.from = NULL;
	node_again(&node[0]);
	assert_int_equal(conn_end(&m, m.rx, false), -ECONNRESET);
	mover_close(&m);
	for (unsigned i = 0; i < 2; i++)
		node_stop(&node[i]);
}

static pid_t started(const char *dir)
{
	char path[120];
	int pid = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%.90s/proxy.pid", dir);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%d", &pid), 1);
	fclose(f);
	return pid;
}

/* Write a script that runs mpib-proxy with the settings file of its run
 * directory. MPIB_START names the script. */
static void write_start(const char *base)
{
	char path[64], rail[2][32];
	FILE *f;

	snprintf(path, sizeof(path), "%s/start", base);
	f = fopen(path, "we");
	assert_non_null(f);
	fprintf(f,
		"#!/bin/sh\n"
		"exec %s --config \"$3.conf\" \"$@\"\n",
		MPIB_PROXY_PATH);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(path, 0700), 0);
	setenv("MPIB_START", path, 1);
	for (unsigned i = 0; i < 2; i++) {
		snprintf(node[i].dir, sizeof(node[i].dir), "%s/n%u", base, i);
		snprintf(path, sizeof(path), "%s.conf", node[i].dir);
		f = fopen(path, "we");
		assert_non_null(f);
		node_rail(rail[0], sizeof(rail[0]), 10 * (5 + i));
		node_rail(rail[1], sizeof(rail[1]), 10 * (5 + i) + 1);
		fprintf(f,
			"[hca]\nsout = %s\nsup = %s\n"
			"[resume]\ngrace = 300\n",
			rail[0], rail[1]);
		assert_int_equal(fclose(f), 0);
	}
}

/* All clients of both proxies are in this process. */
TEST(a_rank_restarts_the_proxy_that_it_started)
{
	char base[] = "/tmp/mpib-start-XXXXXX", text[64];
	struct mover m[MOVERS];

	assert_non_null(mkdtemp(base));
	write_start(base);
	for (unsigned i = 0; i < MOVERS; i++)
		open_mover(m, i);
	for (unsigned i = 0; i < MOVERS; i++)
		mover_must(mover_wait(&m[i]));
	for (unsigned k = 0; k < kills; k++) {
		pid_t pid = started(node[k & 1].dir);

		move(m, 3);
		step(m, 200);
		assert_int_equal(kill(pid, SIGKILL), 0);
		move(m, 3);
		assert_int_not_equal(started(node[k & 1].dir), pid);
	}
	unsetenv("MPIB_START");
	for (unsigned i = 0; i < MOVERS; i++)
		mover_close(&m[i]);
	for (unsigned i = 0; i < 2; i++) {
		pid_t pid = started(node[i].dir);

		/* The proxy has its own session. */
		assert_int_not_equal(getsid(pid), getsid(0));
		kill(pid, SIGTERM);
		while (kill(pid, 0) == 0)
			usleep(1000);
	}
	snprintf(text, sizeof(text), "rm -r %s", base);
	assert_int_equal(system(text), 0);
	printf("ranks started their proxies again %u times: 0 errors\n", kills);
}

unsigned *test_times = &kills;
