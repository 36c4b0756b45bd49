/* SPDX-License-Identifier: Apache-2.0 */
/* Which client belongs to which job, and the sum of a job at its end. */
#include "client/jobs.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/event.h"
#include "client/client.h"

/* Whether s is of job j. Where a launcher names the job, its label decides alone:
 * the processes of a job may have several comms. */
static bool job_is(const struct mpib_job *j, const struct proxy_client *s)
{
	return j->attached && j->uid == s->uid && !strcmp(j->label, s->label) &&
	       (s->label[0] || j->number == s->job);
}

/* Whether the user has as many jobs as one may have. Root has no limit: it
 * starts what others ask it to. */
static bool job_share_is_full(const struct mpib_jobs *jobs, uid_t uid)
{
	unsigned n = 0;

	for (unsigned i = 0; i < MPIB_JOBS; i++)
		n += jobs->job[i].clients > 0 && jobs->job[i].uid == uid;
	return uid != 0 && n >= MPIB_JOBS_OF_A_USER;
}

/* A free place, else the one of the job that is over for longest, of the user's
 * own where it has its share; NULL: all run. */
static struct mpib_job *job_place(struct mpib_jobs *jobs, uid_t uid)
{
	bool own = job_share_is_full(jobs, uid);
	struct mpib_job *best = NULL;

	for (unsigned i = 0; i < MPIB_JOBS; i++) {
		struct mpib_job *j = &jobs->job[i];

		if (own && (j->clients == 0 || j->uid != uid))
			continue;
		if (j->clients == 0)
			return j;
		if (j->ended_ns && (!best || j->ended_ns < best->ended_ns))
			best = j;
	}
	return best;
}

void mpib_job_join(struct mpib_jobs *jobs, struct proxy_client *s)
{
	struct mpib_job *j = NULL;

	s->job_at = 0;
	if (!s->label[0] && !s->job)
		return;
	for (unsigned i = 0; !j && i < MPIB_JOBS; i++) {
		if (job_is(&jobs->job[i], s))
			j = &jobs->job[i];
	}
	if (!j) {
		j = job_place(jobs, s->uid);
		if (!j)
			return;
		*j = (struct mpib_job){ .uid = s->uid,
					.number = s->label[0] ? 0 : s->job,
					.began_ns =
						mpib_clock_ns(CLOCK_REALTIME) };
		memcpy(j->label, s->label, sizeof(j->label));
	}
	j->clients++;
	j->attached++;
	s->job_at = (uint32_t)(j - jobs->job) + 1;
}

static void job_end(struct mpib_job *j)
{
	char name[MPIB_JOB_LABEL + 8];
	double seconds;

	j->ended_ns = mpib_clock_ns(CLOCK_REALTIME);
	/* The clock may have been set back meanwhile. */
	if (j->ended_ns < j->began_ns)
		j->ended_ns = j->began_ns;
	seconds = (double)(j->ended_ns - j->began_ns) / 1e9;
	if (j->label[0])
		snprintf(name, sizeof(name), "%s", j->label);
	else
		snprintf(name, sizeof(name), "0x%" PRIx64, j->number);
	mpib_event(MPIB_LOG_INFO, "job_ends",
		   &(struct mpib_event_about){ .ns = j->ended_ns - j->began_ns,
					       .bytes = j->tx_bytes,
					       .of_user = true,
					       .uid = j->uid },
		   "job %s of uid %u is over after %.1f s: its %u clients here "
		   "sent %.3f GB and received %.3f GB, %.2f Gb/s sent; their "
		   "connections waited for %.1f s, %.3f GB were sent again",
		   name, j->uid, seconds, j->clients, (double)j->tx_bytes / 1e9,
		   (double)j->rx_bytes / 1e9,
		   seconds > 0 ? (double)j->tx_bytes * 8e-9 / seconds : 0,
		   (double)j->stall_ns / 1e9, (double)j->replayed_bytes / 1e9);
}

void mpib_job_leave(struct mpib_jobs *jobs, struct proxy_client *s)
{
	struct mpib_job *j;

	if (!s->job_at)
		return;
	j = &jobs->job[s->job_at - 1];
	j->tx_bytes += s->moved.tx_bytes;
	j->rx_bytes += s->moved.rx_bytes;
	j->replayed_bytes += s->moved.replayed_bytes;
	j->messages += s->moved.messages;
	j->stall_ns += s->moved.stall_ns;
	s->job_at = 0;
	if (--j->attached == 0)
		job_end(j);
}
