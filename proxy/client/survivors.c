/* SPDX-License-Identifier: Apache-2.0 */
#include "client/survivors.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crash.h"
#include "base/log.h"

/* After these records, the file has one more record. If the state of that
 * record is not FREE, the proxy had a client without a record of its own. */
#define RECORDS 4096u
#define BYTES ((RECORDS + 1) * sizeof(struct mpib_survivor))
/* If the proxy crashes twice within this time while it works for a process, the
 * process is refused. */
#define CRASHES_NS 60000000000u
#define PIDFS_MAGIC 0x50494446 /* linux/magic.h */

static uint64_t boot_ns(void)
{
	return mpib_clock_ns(CLOCK_BOOTTIME);
}

/* Return whether p is the process and device of the record. The thread may
 * differ. */
static bool is_process(const struct mpib_survivor *r,
		       const struct mpib_process *p)
{
	const struct mpib_process *of = &r->process;

	return of->uid == p->uid && of->pid == p->pid &&
	       of->device == p->device && of->inode == p->inode;
}

/* Return whether the process may have this thread. In another pid namespace the
 * thread has another id, or none. */
static bool has_thread(uint32_t pid, uint32_t thread)
{
	return syscall(SYS_tgkill, pid, thread, 0) == 0 || errno != ESRCH;
}

void mpib_process_thread(struct mpib_process *p, uint32_t thread)
{
	p->thread = thread && p->pid && has_thread(p->pid, thread) ? thread : 0;
}

struct mpib_process mpib_process_of(uid_t uid, uint32_t pid, int pidfd,
				    uint32_t device)
{
	struct mpib_process p = { .uid = uid, .pid = pid, .device = device };
	struct statfs fs;
	struct stat st;

	/* Before Linux 6.9, all pidfds have the same inode. */
	if (pidfd >= 0 && fstatfs(pidfd, &fs) == 0 &&
	    fs.f_type == PIDFS_MAGIC && fstat(pidfd, &st) == 0)
		p.inode = st.st_ino;
	return p;
}

/* Return whether the client may come back: its process and its thread may be
 * alive. Processes of another pid namespace always count as alive. */
static bool is_alive(const struct mpib_survivor *r)
{
	const struct mpib_process *p = &r->process;
	struct pollfd gone = { .events = POLLIN };
	struct mpib_process there;

	if (!p->pid)
		return true;
	gone.fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	if (gone.fd < 0)
		return errno != ESRCH;
	there = mpib_process_of(p->uid, p->pid, gone.fd, p->device);
	if (poll(&gone, 1, 0) > 0)
		there.pid = 0;
	close(gone.fd);
	return is_process(r, &there) &&
	       (!p->thread || has_thread(p->pid, p->thread));
}

/* Record that the proxy crashed while it worked for the client with the id
 * `client`. Async-signal-safe. */
static void note_crash(void *arg, uint32_t client)
{
	struct mpib_survivor *r = arg;

	for (unsigned i = 0; i < RECORDS; i++) {
		/* Relaxed: the id was written before the thread began to work
		 * for the client. */
		if (atomic_load_explicit(&r[i].client, memory_order_relaxed) !=
		    client)
			continue;
		r[i].crashed[1] = r[i].crashed[0];
		r[i].crashed[0] = boot_ns();
		return;
	}
}

/* Adopt a record of the last proxy. */
static void survivor_inherit(struct mpib_survivor *r, bool expected,
			     uint64_t now)
{
	if (r->state == MPIB_SURVIVOR_FREE && !r->crashed[0])
		return;
	/* Clear the record if it is from another boot, or if its process has
	 * ended. */
	if (r->crashed[0] > now || !is_alive(r)) {
		*r = (struct mpib_survivor){ 0 };
		return;
	}
	if (r->client && r->crashed[0])
		mpib_warn("the last proxy crashed while it worked for pid %u "
			  "of uid %u, which is not served after two crashes "
			  "in a minute",
			  r->process.pid, r->process.uid);
	atomic_store_explicit(&r->client, 0, memory_order_relaxed);
	r->state = r->state != MPIB_SURVIVOR_FREE && expected
			   ? MPIB_SURVIVOR_EXPECTED
			   : MPIB_SURVIVOR_FREE;
}

int mpib_survivors_open(struct mpib_survivors *v, int dir, uint64_t grace_ns)
{
	int fd = openat(dir, MPIB_SURVIVORS_FILE,
			O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	uint64_t now = boot_ns();
	struct stat st;
	void *map;

	*v = (struct mpib_survivors){ .until = now + grace_ns };
	if (fd < 0)
		return -errno;
	/* A new file has no data of the last proxy. */
	v->blind = fstat(fd, &st) < 0 || st.st_size < (off_t)BYTES;
	map = fchmod(fd, 0600) < 0 || posix_fallocate(fd, 0, BYTES)
		      ? MAP_FAILED
		      : mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			     fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return -ENOSPC;
	v->record = map;
	for (unsigned i = 0; i < RECORDS; i++)
		survivor_inherit(&v->record[i], grace_ns > 0, now);
	v->blind |= v->record[RECORDS].state != MPIB_SURVIVOR_FREE;
	v->record[RECORDS].state = MPIB_SURVIVOR_FREE;
	mpib_crash_catch(note_crash, map);
	return 0;
}

/* Return whether the proxy crashed twice within CRASHES_NS while it worked for
 * the process. All records of the process count, for any device. */
static bool crashes_often(const struct mpib_survivors *v,
			  const struct mpib_process *p)
{
	struct mpib_process any = *p;
	uint64_t last[2] = { 0 };

	for (unsigned i = 0; i < RECORDS; i++) {
		const struct mpib_survivor *r = &v->record[i];

		any.device = r->process.device;
		for (unsigned k = 0; k < 2 && is_process(r, &any); k++) {
			if (r->crashed[k] > last[0]) {
				last[1] = last[0];
				last[0] = r->crashed[k];
			} else if (r->crashed[k] > last[1]) {
				last[1] = r->crashed[k];
			}
		}
	}
	return last[1] && last[0] - last[1] <= CRASHES_NS;
}

/* Return 0 if p is expected, else the number of expected processes. */
static unsigned expected(const struct mpib_survivors *v,
			 const struct mpib_process *p)
{
	unsigned n = 0;

	for (unsigned i = 0; i < RECORDS; i++) {
		struct mpib_survivor *r = &v->record[i];

		if (r->state != MPIB_SURVIVOR_EXPECTED)
			continue;
		if (is_process(r, p))
			return 0;
		if (is_alive(r))
			n++;
		else
			*r = (struct mpib_survivor){ 0 };
	}
	return n;
}

bool mpib_survivors_are_back(struct mpib_survivors *v)
{
	const struct mpib_process nobody = { 0 };

	if (!v->record || v->blind)
		return false;
	for (unsigned i = 0; i < RECORDS; i++) {
		if (v->record[i].state == MPIB_SURVIVOR_RESUMING)
			return false;
	}
	return expected(v, &nobody) == 0;
}

int mpib_survivors_admit(struct mpib_survivors *v, const struct mpib_process *p,
			 unsigned *others, unsigned *ms)
{
	uint64_t now = boot_ns();

	if (!v->record)
		return 0;
	if (crashes_often(v, p))
		return -EPERM;
	if (now >= v->until)
		return 0;
	*others = expected(v, p);
	if (*others == 0)
		return 0;
	*ms = (unsigned)((v->until - now) / 1000000) + 1;
	return -EINPROGRESS;
}

/* Return the record of this client, else one of its process, else a free one. */
static struct mpib_survivor *record_for(const struct mpib_survivors *v,
					const struct mpib_process *p)
{
	struct mpib_survivor *none = NULL, *same = NULL;

	for (unsigned i = 0; i < RECORDS; i++) {
		struct mpib_survivor *r = &v->record[i];

		if (r->state == MPIB_SURVIVOR_ATTACHED ||
		    r->state == MPIB_SURVIVOR_RESUMING)
			continue;
		if (is_process(r, p) && r->process.thread == p->thread)
			return r;
		/* Keep the record of another client that may come back. */
		if (is_process(r, p) &&
		    (r->state == MPIB_SURVIVOR_FREE || !r->process.thread))
			same = r;
		if (!none && r->state == MPIB_SURVIVOR_FREE && !r->crashed[0])
			none = r;
	}
	return same ? same : none;
}

struct mpib_survivor *mpib_survivors_take(struct mpib_survivors *v,
					  const struct mpib_process *p,
					  uint32_t client)
{
	/* A process without a pid and an inode gets no record, because it
	 * cannot be distinguished from other processes of its user. */
	struct mpib_survivor *r =
		v->record && (p->pid || p->inode) ? record_for(v, p) : NULL;

	if (!r && v->record)
		v->record[RECORDS].state = MPIB_SURVIVOR_ATTACHED;
	if (!r)
		return NULL;
	r->process = *p;
	r->state = r->state == MPIB_SURVIVOR_EXPECTED ? MPIB_SURVIVOR_RESUMING
						      : MPIB_SURVIVOR_ATTACHED;
	atomic_store_explicit(&r->client, client, memory_order_relaxed);
	return r;
}

void mpib_survivors_resumed(struct mpib_survivor *r, uint32_t thread,
			    bool returned)
{
	if (!r)
		return;
	/* A new client may have the record of an older one of its process. */
	if (returned)
		r->state = MPIB_SURVIVOR_ATTACHED;
	mpib_process_thread(&r->process, thread);
}

void mpib_survivors_leave(struct mpib_survivor *r)
{
	if (!r)
		return;
	atomic_store_explicit(&r->client, 0, memory_order_relaxed);
	r->state = r->state == MPIB_SURVIVOR_RESUMING ? MPIB_SURVIVOR_EXPECTED
						      : MPIB_SURVIVOR_FREE;
	if (r->state == MPIB_SURVIVOR_FREE && !r->crashed[0])
		*r = (struct mpib_survivor){ 0 };
}
