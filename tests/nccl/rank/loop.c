/* SPDX-License-Identifier: Apache-2.0 */
/* Repeat collectives while an event happens, see --during and --kill. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <nccl.h>

#include "rank.h"

/* Seconds within which NCCL must report a failure. Time in which the rank had
 * no CPU does not count. */
#define TELL 5.0

struct loop {
	float *in, *out;
	/* `stop`: 1 if this is rank 0 and the loop must stop, otherwise 0.
	 * `stopped`: the sum of `stop` over all ranks. */
	float *stop, *stopped;
	size_t count;
	double slowest;
	double starved; /* value of starved() when the current turn began */
};

/* Make an all-reduce. Then sum `stop` in another all-reduce, so that all ranks
 * stop in the same round. */
static int turn(struct rank *r, struct loop *l, unsigned round, bool stop)
{
	double begin = now();
	int error;

	l->starved = starved();
	for (size_t i = 0; i < l->count; i++)
		l->in[i] = number(i, r->rank, round);
	*l->stop = (float)stop;
	error = ncclAllReduce(l->in, l->out, l->count, ncclFloat, ncclSum,
			      r->comm, r->stream);
	/* If the communicator has broken before a call, the call returns the
	 * error. */
	if (!error)
		error = ncclAllReduce(l->stop, l->stopped, 1, ncclFloat,
				      ncclSum, r->comm, r->stream);
	if (!error)
		error = stream_poll(r, r->comm, r->stream);
	if (error)
		return error;
	verify_sum(r, "a loop's all-reduce", l->out, l->count, 0, r->n, round);
	if (now() - begin > l->slowest)
		l->slowest = now() - begin;
	return 0;
}

/* Handle the error that this rank got: check it, print how long it took, and
 * abort the communicator. */
static void told(struct rank *r, int error, const struct loop *l)
{
	double waited = now() - atomic_load(&r->world->begun);
	double idle = starved() - l->starved, begin, load = 0;
	char why[600];

	if (idle > waited) /* the turn began before the fault */
		idle = waited;
	getloadavg(&load, 1);
	snprintf(why, sizeof(why), "%s: %s", ncclGetErrorString(error),
		 ncclGetLastError(r->comm));
	for (char *c = why; *c; c++)
		if (*c == '\n')
			*c = ' ';
	begin = now();
	NCCL(r, ncclCommAbort(r->comm));
	r->comm = NULL;
	printf("rank %d: got the error after %.2f s, %.2f s without a CPU, load "
	       "%.1f, abort took %.2f s: %s\n",
	       r->rank, waited, idle, load, now() - begin, why);
	/* Only these two errors are accepted: users and frameworks restart a
	 * job only after one of them. */
	if (error != ncclRemoteError && error != ncclSystemError)
		fail(r, "got the error \"%s\"", ncclGetErrorString(error));
	if (waited - idle > TELL)
		fail(r, "got the error after %.2f s, more than %.0f", waited,
		     TELL);
	if (now() - begin > r->opt->limit)
		fail(r, "abort took %.1f s", now() - begin);
}

/* Return whether this is rank 0 and the loop must stop. The loop stops some
 * rounds after the event. */
static bool enough(struct rank *r, unsigned round)
{
	if (r->rank || r->opt->expect_error ||
	    atomic_load(&r->world->during) < 2)
		return false;
	return round >=
	       atomic_load(&r->world->during_rounds) + (unsigned)r->opt->times;
}

void test_loop(struct rank *r)
{
	struct loop l = { .count = r->opt->max / sizeof(float) };
	unsigned round = 0;

	l.in = device_alloc(r, r->opt->max);
	l.out = device_alloc(r, r->opt->max);
	l.stop = device_alloc(r, sizeof(float));
	l.stopped = device_alloc(r, sizeof(float));
	do {
		double begin = now();
		int error = turn(r, &l, round, enough(r, round));

		if (error > 0 && r->opt->expect_error) {
			told(r, error, &l);
			return;
		}
		if (error)
			fail(r, "round %u, after %.1f s: %s: %s", round,
			     now() - begin,
			     error < 0 ? "nothing" : ncclGetErrorString(error),
			     ncclGetLastError(r->comm));
		round++;
		if (!r->rank)
			atomic_store(&r->world->rounds, round);
	} while (*l.stopped == 0);
	say(r, "%u rounds, the slowest took %.0f ms", round, l.slowest * 1e3);
	device_free(r, l.in);
	device_free(r, l.out);
}
