/* SPDX-License-Identifier: Apache-2.0 */
#include "victim.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "mover.h"
#include "test.h"

#define ROOM (64u << 10)
#define HANG_MS 60000
#define EVERY 64 /* messages between two attaches */
/* number of the first node that is not attacked, for VICTIM_ELSEWHERE */
#define ELSEWHERE 11u

static int victim_say(struct victim *v, const char *step, int rc)
{
	if (!atomic_exchange(&v->said, true))
		snprintf(v->why, sizeof(v->why), "%s: %s", step,
			 mpib_strerror());
	return rc;
}

static int until_ready(struct victim *v, struct mover *m)
{
	unsigned long long until = node_ms() + HANG_MS;
	int rc;

	while ((rc = mover_ready(m)) == 0 && node_ms() < until)
		sched_yield();
	return rc > 0 ? 0 : victim_say(v, "ready", rc ? rc : -ETIMEDOUT);
}

/* Return whether `rc`, the error of mpib_attach(), means that no proxy is
 * running. */
static bool found_none(int rc)
{
	return rc == -ENOENT || rc == -ECONNREFUSED || rc == -ECONNRESET;
}

/* Attach, connect, wait until the connection is ready, and detach, as a new
 * process of the same user would. */
static void attach_anew(struct victim *v)
{
	struct mover m;
	int rc = mover_open(&m, v->from, v->to, 4096, true, 7);

	if (found_none(rc) && atomic_load(&v->killed)) {
		mover_close(&m);
		return;
	}
	rc = rc < 0 ? victim_say(v, "attach", rc) : until_ready(v, &m);
	mover_close(&m);
	atomic_fetch_add(rc < 0 ? &v->refused : &v->attached, 1);
}

/* Attach repeatedly. This is a separate thread, so that the messages do not
 * wait for the attaches. */
static void *newcomers(void *arg)
{
	struct victim *v = arg;

	for (uint64_t next = EVERY; !atomic_load(&v->stop);) {
		if (atomic_load(&v->messages) < next) {
			usleep(1000);
			continue;
		}
		attach_anew(v);
		next = atomic_load(&v->messages) + EVERY;
	}
	return NULL;
}

/* Make a step. If the step completes a message, record the message's time. */
static int victim_step(struct victim *v, struct mover *m, uint64_t *sent)
{
	uint64_t before = m->messages;
	bool flew = m->stage == MOVER_FLYING;
	int rc = mover_step(m);

	if (!flew && m->stage == MOVER_FLYING)
		*sent = mpib_now_ns();
	if (m->messages != before && *sent)
		mpib_hist_record(&v->took, mpib_now_ns() - *sent);
	return rc;
}

static int victim_main(void *arg)
{
	struct victim *v = arg;
	uint64_t sent = 0;
	unsigned long long moved = node_ms();
	struct mover m;
	pthread_t thread;
	int rc = mover_open(&m, v->from, v->to, ROOM, true, 1);

	if (pthread_create(&thread, NULL, newcomers, v))
		return 1;
	rc = rc < 0 ? victim_say(v, "open", rc) : until_ready(v, &m);
	while (rc >= 0 && !atomic_load(&v->stop)) {
		uint64_t before = m.messages;

		rc = victim_step(v, &m, &sent);
		if (m.messages != before) {
			moved = node_ms();
			atomic_store(&v->messages, m.messages);
			atomic_store(&v->wrong, m.wrong);
		} else if (rc == 0) {
			sched_yield();
			if (node_ms() - moved > HANG_MS)
				rc = -ETIMEDOUT;
		}
	}
	if (rc < 0) {
		victim_say(v, "move", rc);
		atomic_store(&v->error, rc);
		atomic_store(&v->stop, true);
	}
	pthread_join(thread, NULL);
	mover_close(&m);
	return 0;
}

static unsigned elsewhere; /* number of running nodes that are not attacked */

/* Choose the two nodes between which the victim moves messages: the attacked
 * nodes, or other nodes. */
static void victim_place(struct victim *v, const struct node *from,
			 const struct node *to)
{
	if (getenv("VICTIM_ELSEWHERE")) {
		for (unsigned i = 0; i < 2; i++)
			attack_start(&v->elsewhere[i], ELSEWHERE + elsewhere++,
				     NULL);
		from = &v->elsewhere[0];
		to = &v->elsewhere[1];
	}
	snprintf(v->from, sizeof(v->from), "%s", from->dir);
	snprintf(v->to, sizeof(v->to), "%s", to->dir);
}

struct victim *victim_start(const struct node *from, const struct node *to)
{
	struct victim *v = mmap(NULL, sizeof(*v), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(v != MAP_FAILED);
	victim_place(v, from, to);
	v->pid = tenant_begin(VICTIM, victim_main, v);
	victim_goes_on(v, 1);
	return v;
}

bool victim_is_here(const struct victim *v)
{
	return v->elsewhere[0].pid == 0;
}

void victim_goes_on(struct victim *v, uint64_t messages)
{
	uint64_t from = atomic_load(&v->messages);
	uint64_t attached = atomic_load(&v->attached);
	unsigned long long until = node_ms() + 2 * HANG_MS;

	while (atomic_load(&v->messages) < from + messages ||
	       atomic_load(&v->attached) == attached) {
		if (atomic_load(&v->error) || atomic_load(&v->refused) ||
		    node_ms() > until)
			fail_msg("the victim: error %d, %llu refused attaches, "
				 "%llu messages moved: %s",
				 v->error, (unsigned long long)v->refused,
				 (unsigned long long)v->messages, v->why);
		usleep(1000);
	}
}

static void victim_stop(struct victim *v)
{
	atomic_store(&v->stop, true);
	assert_int_equal(child_end(v->pid), 0);
	if (v->error || v->wrong || v->refused)
		fail_msg("the victim: error %d, %llu wrong messages, "
			 "%llu refused attaches: %s",
			 v->error, (unsigned long long)v->wrong,
			 (unsigned long long)v->refused, v->why);
	print_message("the victim: %llu messages, %llu attaches, 0 wrong, "
		      "0 refused\n",
		      (unsigned long long)v->messages,
		      (unsigned long long)v->attached);
	for (unsigned i = 0; i < 2 && !victim_is_here(v); i++) {
		node_stop(&v->elsewhere[i]);
		elsewhere--;
	}
}

void victim_end(struct victim *v)
{
	struct mpib_hist_counts n = { 0 };

	mpib_hist_read(&v->took, &n);
	print_message("the victim: p99 %.0f us\n",
		      (double)mpib_hist_quantile(&n, 0.99) / 1000);
	victim_stop(v);
	munmap(v, sizeof(*v));
}

void victim_newcomer(const struct node *from, const struct node *to,
		     uint64_t messages)
{
	struct victim *v = victim_start(from, to);

	victim_goes_on(v, messages);
	victim_stop(v);
	munmap(v, sizeof(*v));
}

/* The victim and nodes of the last victim_between(), for victim_teardown(). */
static struct victim *left_with;
static struct node *between;

struct victim *victim_between(struct node node[2], const char *const *args)
{
	if (geteuid() != 0)
		return NULL;
	attack_start(&node[0], 1, args);
	attack_start(&node[1], 2, args);
	between = node;
	left_with = victim_start(&node[0], &node[1]);
	return left_with;
}

int victim_teardown(void **state)
{
	victim_leave(left_with, between);
	return 0;
}

void victim_leave(struct victim *v, struct node node[2])
{
	if (!v)
		return;
	attackers_end();
	victim_end(v);
	node_stop(&node[0]);
	node_stop(&node[1]);
}
