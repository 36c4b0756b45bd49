/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limits [POINTS]: a proxy that starts with little of what it needs, for POINTS
 * values of each resource limit and of each size of its own, spread over those
 * in reach; 0: for every one. It refuses to start in one line, or it serves: a
 * client gets what it asks for or is refused in words, and gets it once there
 * is room. tests/integration/test_runout.c takes the room from proxies and
 * clients that run. MPIB_TEST_TALK=1 prints what was said.
 */
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mover.h"
#include "node.h"
#include "test.h"
#include "trial.h"
#include "user.h"

#define CROWD 4
#define FIRST_USER 61100
#define NOGROUP 65534
#define MESSAGES 12

static struct trial trial;
static unsigned points = 4;
static unsigned tally[3]; /* refused to start, told a client, did no harm */

static const struct limit {
	const char *name;
	int resource;
	rlim_t first, last, step;
} limits[] = {
	{ "descriptors", RLIMIT_NOFILE, 3, 80, 1 },
	{ "address space", RLIMIT_AS, 4u << 20, 260u << 20, 1u << 20 },
	{ "size of files", RLIMIT_FSIZE, 0, 16u << 20, 512u << 10 },
};

static const struct own {
	const char *flag, *with, *value;
	unsigned first, last, step;
} owns[] = {
	{ "--qp-sq-depth", "--cts-signal-interval", "1", 32, 96, 1 },
	{ "--qp-sq-depth", NULL, NULL, 32, 128, 1 },
	{ "--cts-signal-interval", "--qp-sq-depth", "64", 1, 64, 1 },
	{ "--srq-high", "--srq-low", "1", 32, 160, 1 },
	{ "--srq-low", "--srq-high", "64", 1, 65, 1 },
	{ "--srq-high", "--threads", "2", 1024, 32768, 1024 },
	{ "--sout-qp", "--lane-spread", "spray", 1, 16, 1 },
	{ "--sup-qp", "--lane-spread", "dqplb", 1, 16, 1 },
	{ "--threads", "--qp-sq-depth", "16384", 1, 16, 1 },
	{ "--lane-window", NULL, NULL, 4096, 65536, 1024 },
	{ "--quota-lanes", "--lanes", "private", 1, 4, 1 },
};

struct at {
	const struct limit *l;
	rlim_t value;
};

static void set_limit(const void *arg)
{
	const struct at *at = arg;
	struct rlimit r = { at->value, at->value };

	if (setrlimit(at->l->resource, &r) < 0)
		_exit(126);
}

/* False: a hard limit that this user may not raise. */
static bool give_room(const struct limit *l)
{
	struct rlimit r;

	if (getrlimit(l->resource, &r) < 0)
		abort();
	return prlimit(trial.pid, l->resource, &r, NULL) == 0;
}

static int crowd_open(struct mover *m, unsigned i, const char *what)
{
	int rc = mover_begin(m, trial.dir, trial.dir, 200000, i & 1, i);

	if (rc == -ETIME)
		fail_msg("%s: a connect hangs", what);
	return rc;
}

static int crowd_move(struct mover *m, const char *what)
{
	unsigned long long since = node_ms();
	unsigned done = 0;
	int rc = 0;

	while (rc >= 0 && done < CROWD) {
		done = 0;
		for (unsigned i = 0; i < CROWD && rc >= 0; i++) {
			if (m[i].messages < MESSAGES)
				rc = mover_step(&m[i]);
			done += m[i].messages >= MESSAGES;
		}
		if (node_ms() - since > TRIAL_HANG_MS)
			fail_msg("%s: a message hangs", what);
	}
	return rc < 0 ? rc : 0;
}

/* Many messages under way at once, of memory that is copied and that is not. */
static int crowd(const char *what)
{
	struct mover m[CROWD];
	int rc = 0;

	memset(m, 0, sizeof(m));
	for (unsigned i = 0; i < CROWD && rc == 0; i++)
		rc = crowd_open(&m[i], i, what);
	if (rc == 0)
		rc = crowd_move(m, what);
	for (unsigned i = 0; i < CROWD; i++) {
		assert_int_equal(m[i].wrong, 0);
		mover_close(&m[i]);
	}
	return rc;
}

static void judge(const char *what, const struct outcome *o)
{
	const char *bad = user_wrong(o);

	/* Descriptors may come back: the ends of a link to a peer wait. */
	if (o->rc == -ETIMEDOUT && !strcmp(o->step, "ready") &&
	    strstr(o->text, "not connected within"))
		bad = NULL;
	if (o->rc && getenv("MPIB_TEST_TALK"))
		printf("  %s: %s: %d %s\n", what, o->step, o->rc, o->text);
	if (bad)
		fail_msg("%s: %s: %d %s: %s", what, o->step, o->rc, o->text,
			 bad);
	tally[o->rc ? 1 : 2]++;
}

static void start_with_little_of(const struct limit *l, rlim_t value)
{
	const char *none[] = { NULL };
	struct at at = { l, value };
	struct outcome o;
	char what[96];

	snprintf(what, sizeof(what), "%s limited to %llu", l->name,
		 (unsigned long long)value);
	if (!trial_loads(set_limit, &at))
		return;
	trial_start(&trial, none, set_limit, &at);
	if (!trial.ready) {
		tally[0]++;
		trial_end(&trial, what);
		return;
	}
	user_new(trial.dir, &o);
	judge(what, &o);
	if (give_room(l)) {
		user_new(trial.dir, &o);
		if (o.rc)
			fail_msg("%s and then no more: %s: %d %s", what, o.step,
				 o.rc, o.text);
	}
	trial_end(&trial, what);
}

static void start_with_own(const struct own *w, unsigned value)
{
	char text[16], what[96];
	const char *args[] = { w->flag, text, w->with, w->value, NULL };
	struct outcome o;

	snprintf(text, sizeof(text), "%u", value);
	snprintf(what, sizeof(what), "%s %u%s%s%s%s", w->flag, value,
		 w->with ? " " : "", w->with ? w->with : "", w->with ? " " : "",
		 w->with ? w->value : "");
	trial_start(&trial, args, NULL, NULL);
	if (!trial.ready) {
		tally[0]++;
		trial_end(&trial, what);
		return;
	}
	user_new(trial.dir, &o);
	judge(what, &o);
	if (o.rc == 0) {
		o.rc = crowd(what);
		snprintf(o.step, sizeof(o.step), "crowd");
		snprintf(o.text, sizeof(o.text), "%s", mpib_strerror());
		judge(what, &o);
	}
	/* Whoever was refused has left all as it was. */
	user_new(trial.dir, &o);
	judge(what, &o);
	trial_end(&trial, what);
}

/* Of n values the first is drawn, so that all are met some day. */
static unsigned long begin_at(unsigned long n, unsigned long *step)
{
	*step = points ? n / points + 1 : 1;
	return points ? (unsigned long)getpid() % *step : 0;
}

/* What a user of that number gets, in a process of its own. */
static struct outcome as_user(uid_t uid)
{
	struct outcome *seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct outcome o;
	pid_t pid;
	int status;

	assert_true(seen != MAP_FAILED);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (setgroups(0, NULL) || setgid(NOGROUP) || setuid(uid))
			_exit(1);
		user_new(trial.dir, seen);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	o = *seen;
	munmap(seen, sizeof(*seen));
	return o;
}

/* Three quarters of a CQ hold the receives of one user or two. */
static void a_user_too_many_for_the_cq(void **state)
{
	const char *args[] = { "--srq-high",
			       "32768",
			       "--lanes",
			       "private",
			       "--run-group",
			       "nogroup",
			       "--client-own-memory",
			       "all",
			       NULL };
	unsigned long long since = node_ms();
	struct mpib_client *c;
	struct outcome o;
	struct user u;

	if (geteuid() != 0)
		skip_as("other users, as only root can be");
	/* A run directory that is there already keeps its group. */
	trial_fini(&trial);
	trial_init(&trial);
	trial_start(&trial, args, NULL, NULL);
	assert_true(trial.ready);
	assert_int_equal(user_attach(trial.dir, &c, &o), 0);
	assert_int_equal(user_open(&u, c, &o), 0);
	for (uid_t uid = FIRST_USER; uid < FIRST_USER + 3; uid++) {
		o = as_user(uid);
		judge("a second user", &o);
		if (o.rc != -ENOSPC)
			fail_msg("%d: %s", o.rc, o.text);
		assert_non_null(strstr(o.text, "lower srq.high)"));
		assert_null(strstr(o.text, "Limit"));
		assert_int_equal(user_move(&u, &o), 0);
	}
	user_close(&u);
	mpib_detach(c);
	/* Its lane is closed soon after. */
	do {
		o = as_user(FIRST_USER);
		judge("a second user, alone", &o);
	} while (o.rc && node_ms() - since < TRIAL_HANG_MS);
	assert_int_equal(o.rc, 0);
	trial_end(&trial, "a user too many");
}

static void report(const char *name)
{
	printf("%s: %u refused to start, %u told a client, %u did no harm\n",
	       name, tally[0], tally[1], tally[2]);
	memset(tally, 0, sizeof(tally));
}

static void with_little_from_the_start(void **state)
{
	for (unsigned k = 0; k < sizeof(limits) / sizeof(limits[0]); k++) {
		const struct limit *l = &limits[k];
		unsigned long n = (l->last - l->first) / l->step + 1, step;

		for (unsigned long i = begin_at(n, &step); i < n; i += step)
			start_with_little_of(l, l->first + i * l->step);
		report(l->name);
	}
}

static void with_small_sizes_of_its_own(void **state)
{
	for (unsigned k = 0; k < sizeof(owns) / sizeof(owns[0]); k++) {
		const struct own *w = &owns[k];
		unsigned long n = (w->last - w->first) / w->step + 1, step;

		for (unsigned long i = begin_at(n, &step); i < n; i += step)
			start_with_own(w, w->first + (unsigned)i * w->step);
		report(w->flag);
	}
}

/* The next test has its addresses. */
static int kill_it(void **state)
{
	trial_kill(&trial);
	return 0;
}

static int begin(void **state)
{
	trial_init(&trial);
	return 0;
}

static int end(void **state)
{
	trial_fini(&trial);
	return 0;
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test_teardown(with_little_from_the_start, kill_it),
	cmocka_unit_test_teardown(with_small_sizes_of_its_own, kill_it),
	cmocka_unit_test_teardown(a_user_too_many_for_the_cq, kill_it),
	{ 0 },
};
struct test_group test_group = { begin, end };
unsigned *test_times = &points;
