/* SPDX-License-Identifier: Apache-2.0 */
/* client/quota.h: the clients of a job, and the record of a job that has
 * ended. */
#include "client/quota.h"

#include "base/event.h"
#include "client/client.h"
#include "test.h"

static struct mpib_jobs jobs;
static struct proxy_client client[MPIB_JOBS + 2];

static void quiet(enum mpib_log_level level, const char *line)
{
}

static int empty(void **state)
{
	mpib_log_set_sink(quiet);
	memset(&jobs, 0, sizeof(jobs));
	memset(client, 0, sizeof(client));
	return 0;
}

static void join(unsigned i, uid_t uid, const char *label, uint64_t number)
{
	client[i].uid = uid;
	client[i].job = number;
	snprintf(client[i].label, sizeof(client[i].label), "%s", label);
	mpib_job_join(&jobs, &client[i]);
}

static void leave(unsigned i, uint64_t bytes)
{
	client[i].moved = (struct engine_client_moved){ .tx_bytes = bytes,
							.rx_bytes = 2 * bytes,
							.messages = 3 };
	mpib_job_leave(&jobs, &client[i]);
}

static const struct mpib_job *job_of(unsigned i)
{
	assert_int_not_equal(client[i].job_at, 0);
	return &jobs.job[client[i].job_at - 1];
}

static unsigned ends(struct mpib_event *e)
{
	static struct mpib_event got[MPIB_EVENTS];
	uint64_t last;
	unsigned n = mpib_events_after(0, got, MPIB_EVENTS, &last), found = 0;

	for (unsigned i = 0; i < n; i++) {
		if (strcmp(got[i].kind, "job_ends") != 0)
			continue;
		*e = got[i];
		found++;
	}
	return found;
}

#define CASE(name) TEST_OF(name, empty, NULL)

CASE(clients_of_a_user_with_the_same_job_name_are_one_job)
{
	join(0, 1, "slurm 7.0", 11);
	join(1, 1, "slurm 7.0", 12); /* another communicator of the same job */
	join(2, 2, "slurm 7.0", 11); /* another user with the same label */
	join(3, 1, "", 11);
	join(4, 1, "", 12);
	join(5, 1, "", 0);
	assert_ptr_equal(job_of(0), job_of(1));
	assert_ptr_not_equal(job_of(0), job_of(2));
	assert_ptr_not_equal(job_of(0), job_of(3));
	assert_ptr_not_equal(job_of(3), job_of(4));
	assert_int_equal(client[5].job_at, 0);
	leave(5, 1); /* no effect, since the client is in no job */
}

CASE(the_end_of_a_job_is_reported_as_an_event_with_its_sums)
{
	const struct mpib_job *j;
	struct mpib_event e;
	unsigned before = ends(&e);

	join(0, 1, "pod train-0", 0);
	join(1, 1, "pod train-0", 0);
	j = job_of(0);
	leave(0, 1000000000);
	assert_int_equal(j->ended_ns, 0);
	assert_int_equal(ends(&e), before);
	leave(1, 500000000);
	assert_true(j->ended_ns >= j->began_ns);
	assert_int_equal(j->clients, 2);
	assert_int_equal(j->attached, 0);
	assert_int_equal(j->tx_bytes, 1500000000);
	assert_int_equal(j->rx_bytes, 3000000000);
	assert_int_equal(j->messages, 6);
	assert_int_equal(ends(&e), before + 1);
	assert_int_equal(e.bytes, 1500000000);
	assert_non_null(strstr(e.text, "pod train-0"));
	assert_non_null(strstr(e.text, "clients here (2) sent 1.397 GiB"));
	/* A later client with the same job name starts a new job. */
	join(2, 1, "pod train-0", 0);
	assert_ptr_not_equal(job_of(2), j);
}

CASE(the_job_that_ended_first_is_replaced)
{
	for (unsigned i = 0; i < MPIB_JOBS; i++)
		join(i, 1 + i % 4, "", i + 1);
	join(MPIB_JOBS, 9, "", 1000);
	/* All jobs are running, so no job can be replaced. */
	assert_int_equal(client[MPIB_JOBS].job_at, 0);
	leave(5, 1);
	leave(3, 1);
	jobs.job[3].ended_ns = jobs.job[5].ended_ns + 1;
	join(MPIB_JOBS, 9, "", 1001);
	assert_ptr_equal(job_of(MPIB_JOBS), &jobs.job[5]);
	assert_int_equal(job_of(MPIB_JOBS)->tx_bytes, 0);
	join(MPIB_JOBS + 1, 9, "", 1002);
	assert_ptr_equal(job_of(MPIB_JOBS + 1), &jobs.job[3]);
}

CASE(a_user_gets_at_most_a_quarter_of_the_job_entries)
{
	const unsigned share = MPIB_JOBS / 4, others = MPIB_JOBS - share;

	join(0, 2, "slurm 1.0", 0);
	leave(0, 77);
	for (unsigned i = 0; i < share; i++)
		join(1 + i, 1, "", i + 1);
	/* All jobs of the user are running, and the free entries are for other
	 * users. */
	join(share + 1, 1, "", 1000);
	assert_int_equal(client[share + 1].job_at, 0);
	/* The user's own oldest ended job is replaced, not the oldest ended job
	 * of all users. */
	leave(9, 1);
	jobs.job[0].ended_ns = 1;
	join(share + 1, 1, "", 1001);
	assert_int_equal(job_of(share + 1)->number, 1001);
	assert_int_equal(jobs.job[0].tx_bytes, 77);
	/* A client of an existing job needs no new entry. */
	join(share + 2, 1, "", 1);
	assert_ptr_equal(job_of(share + 2), job_of(1));
	/* Root has no limit, because it starts jobs for other users. */
	for (unsigned i = 0; i < others - 1; i++)
		join(share + 3 + i, 0, "", i + 1);
	assert_int_not_equal(client[MPIB_JOBS + 1].job_at, 0);
	join(MPIB_JOBS + 1, 0, "slurm 9.0", 0);
	assert_ptr_equal(job_of(MPIB_JOBS + 1), &jobs.job[0]);
}
