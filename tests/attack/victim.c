/* SPDX-License-Identifier: Apache-2.0 */
#include "victim.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "mover.h"

#define ROOM (64u << 10)
#define HANG_MS 60000
#define EVERY 64 /* messages between two attaches */

static int victim_say(struct victim *v, const char *step, int rc)
{
	snprintf(v->why, sizeof(v->why), "%s: %s", step, mpib_strerror());
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

/* A newcomer of the same user: attach, connect, be ready, go. */
static void attach_anew(struct victim *v)
{
	struct mover m;
	int rc = mover_open(&m, v->from, v->to, 4096, true, 7);

	rc = rc < 0 ? victim_say(v, "attach", rc) : until_ready(v, &m);
	mover_close(&m);
	atomic_fetch_add(rc < 0 ? &v->refused : &v->attached, 1);
}

static int victim_main(void *arg)
{
	struct victim *v = arg;
	unsigned long long moved = node_ms();
	struct mover m;
	int rc = mover_open(&m, v->from, v->to, ROOM, true, 1);

	rc = rc < 0 ? victim_say(v, "open", rc) : until_ready(v, &m);
	while (rc >= 0 && !atomic_load(&v->stop)) {
		uint64_t before = m.messages;

		rc = mover_step(&m);
		if (m.messages != before) {
			moved = node_ms();
			atomic_store(&v->messages, m.messages);
			atomic_store(&v->wrong, m.wrong);
			if (m.messages % EVERY == 0)
				attach_anew(v);
		} else if (rc == 0) {
			sched_yield();
			if (node_ms() - moved > HANG_MS)
				rc = -ETIMEDOUT;
		}
	}
	if (rc < 0) {
		victim_say(v, "move", rc);
		atomic_store(&v->error, rc);
	}
	mover_close(&m);
	return 0;
}

struct victim *victim_start(const struct node *from, const struct node *to)
{
	struct victim *v = mmap(NULL, sizeof(*v), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(v != MAP_FAILED);
	snprintf(v->from, sizeof(v->from), "%s", from->dir);
	snprintf(v->to, sizeof(v->to), "%s", to->dir);
	v->pid = tenant_begin(VICTIM, victim_main, v);
	victim_goes_on(v, 1);
	return v;
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
			fail_msg("the victim: error %d, %llu refused, %llu "
				 "moved: %s",
				 v->error, (unsigned long long)v->refused,
				 (unsigned long long)v->messages, v->why);
		usleep(1000);
	}
}

void victim_end(struct victim *v)
{
	atomic_store(&v->stop, true);
	assert_int_equal(tenant_end(v->pid), 0);
	if (v->error || v->wrong || v->refused)
		fail_msg("the victim: error %d, %llu wrong, %llu refused: %s",
			 v->error, (unsigned long long)v->wrong,
			 (unsigned long long)v->refused, v->why);
	print_message("the victim: %llu messages, %llu attaches, 0 wrong, "
		      "0 refused\n",
		      (unsigned long long)v->messages,
		      (unsigned long long)v->attached);
	munmap(v, sizeof(*v));
}

struct victim *victim_between(struct node node[2], const char *const *args)
{
	if (geteuid() != 0)
		return NULL;
	attack_start(&node[0], 1, args);
	attack_start(&node[1], 2, args);
	return victim_start(&node[0], &node[1]);
}

void victim_leave(struct victim *v, struct node node[2])
{
	if (!v)
		return;
	victim_goes_on(v, 64);
	victim_end(v);
	node_stop(&node[0]);
	node_stop(&node[1]);
}
