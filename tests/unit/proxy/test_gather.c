/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/metrics/gather.h over an engine played here: who gets which snapshot. */
#include "metrics/gather.h"
#include "test.h"

static struct mpib_loop loop;
static struct mpib_gather gather;
static mpib_snapshot_fn *taken; /* of the one under way; NULL: none is */
static unsigned asked;
static uint64_t older;

int __wrap_mpib_engine_snapshot_requests(struct mpib_engine *engine,
					 uint64_t older_ns,
					 mpib_snapshot_fn *fn, void *arg);
int __wrap_mpib_engine_snapshot(struct mpib_engine *engine,
				mpib_snapshot_fn *fn, void *arg);

int __wrap_mpib_engine_snapshot_requests(struct mpib_engine *engine,
					 uint64_t older_ns,
					 mpib_snapshot_fn *fn, void *arg)
{
	assert_null(taken); /* one at a time */
	assert_ptr_equal(arg, &gather);
	taken = fn;
	older = older_ns;
	asked++;
	return 0;
}

int __wrap_mpib_engine_snapshot(struct mpib_engine *engine,
				mpib_snapshot_fn *fn, void *arg)
{
	return __wrap_mpib_engine_snapshot_requests(engine, UINT64_MAX, fn,
						    arg);
}

/* A reader: the snapshot it got, and whether it is to keep it. */
struct asker {
	struct mpib_gather_wait wait;
	const struct mpib_snapshot *got;
	unsigned calls;
	bool keeps;
};

/* A test that fails leaves them on the gatherer's list. */
static struct asker a, b, c;

static void on_view(void *arg, const struct mpib_view *v)
{
	struct asker *self = arg;

	self->calls++;
	self->got = v ? v->snap : NULL;
	if (v && self->keeps)
		mpib_gather_keep(&gather);
}

static void turns(void)
{
	for (unsigned i = 0; i < 4; i++)
		mpib_loop_turn(&loop, 0);
}

static struct mpib_snapshot *latest; /* what arrived last */

static void arrives(void)
{
	mpib_snapshot_fn *fn = taken;

	latest = calloc(1, sizeof(*latest));
	assert_non_null(fn);
	taken = NULL;
	fn(&gather, latest);
	turns();
}

static int setup(void **state)
{
	static const struct mpib_view view;

	taken = NULL;
	asked = 0;
	a = b = c = (struct asker){ 0 };
	assert_int_equal(mpib_loop_init(&loop), 0);
	mpib_gather_init(&gather, &loop, NULL, &view);
	return 0;
}

static int teardown(void **state)
{
	mpib_gather_stop(&gather);
	mpib_loop_fini(&loop);
	return 0;
}

fixture_test(askers_at_once_share_one_and_a_later_one_gets_the_next)
{
	struct mpib_snapshot *snap;

	mpib_gather_ask(&gather, &a.wait, on_view, &a);
	mpib_gather_ask(&gather, &b.wait, on_view, &b);
	turns();
	/* The one under way may have left a shard already. */
	mpib_gather_ask(&gather, &c.wait, on_view, &c);
	turns();
	assert_int_equal(asked, 1);
	arrives();
	snap = latest;
	assert_ptr_equal(a.got, snap);
	assert_ptr_equal(b.got, snap);
	assert_int_equal(c.calls, 0);
	assert_int_equal(asked, 2);
	arrives();
	assert_int_equal(c.calls, 1);
	assert_int_equal(a.calls + b.calls, 2);
}

fixture_test(nobody_gets_the_next_while_the_last_is_kept)
{
	struct mpib_snapshot *snap;

	a.keeps = b.keeps = true;
	mpib_gather_ask(&gather, &a.wait, on_view, &a);
	mpib_gather_ask(&gather, &b.wait, on_view, &b);
	turns();
	arrives();
	snap = latest;
	mpib_gather_ask(&gather, &c.wait, on_view, &c);
	turns();
	assert_ptr_equal(gather.snap, snap);
	mpib_gather_release(&gather);
	turns();
	assert_int_equal(asked, 1);
	mpib_gather_release(&gather);
	assert_null(gather.snap);
	turns();
	assert_int_equal(asked, 2);
	arrives();
	assert_int_equal(c.calls, 1);
}

fixture_test(the_youngest_age_that_is_asked_for_counts)
{
	mpib_gather_ask_requests(&gather, &a.wait, 5000, on_view, &a);
	mpib_gather_ask_requests(&gather, &b.wait, 300, on_view, &b);
	mpib_gather_ask(&gather, &c.wait, on_view, &c);
	turns();
	assert_int_equal(older, 300);
	arrives();
	mpib_gather_ask(&gather, &c.wait, on_view, &c);
	turns();
	assert_true(older == UINT64_MAX);
	mpib_gather_forget(&gather, &c.wait);
	arrives();
	assert_int_equal(c.calls, 1);
}

fixture_test(without_memory_each_is_told)
{
	mpib_snapshot_fn *fn;

	a.keeps = true;
	mpib_gather_ask(&gather, &a.wait, on_view, &a);
	turns();
	fn = taken;
	taken = NULL;
	fn(&gather, NULL);
	assert_int_equal(a.calls, 1);
	assert_null(a.got);
	assert_int_equal(gather.kept, 0);
}
