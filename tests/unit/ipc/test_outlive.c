/* SPDX-License-Identifier: Apache-2.0 */
/* A client outlives its proxy: the helper thread attaches to the next proxy and
 * requests the client's objects again. The threads of the connections then
 * continue at the next proxy. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipc/client.h"

/* ipc/client.h comes first, because its parameters named `c` would shadow the
 * global `c` of loop.h. */
#include "loop.h"
#include "test.h"

static bool is_over(struct mpib_request *r)
{
	int done;

	assert_int_equal(mpib_test(r, &done, NULL), 0);
	return done;
}

/* Wait until the helper has requested the connection with that number. */
static void until_asked(struct mpib_conn *conn, uint64_t number)
{
	bool asked = false;

	while (!asked) {
		mpib_client_hold(c);
		asked = conn->ask.number == number &&
			atomic_load(&conn->next_state) != MPIB_NEXT_NONE;
		mpib_client_unlock(c);
		sched_yield();
	}
}

static struct mpib_request *may_send(int rc_wanted)
{
	struct mpib_request *r;

	assert_int_equal(mpib_isend(tx, from, 100, 0, from_region, &r),
			 rc_wanted);
	return r;
}

/* Send, and try again while the helper holds the client's lock. */
static void sends(void)
{
	while (!may_send(0))
		sched_yield();
}

#define CASE(name) TEST_OF(name, loop_start_mortal, loop_stop)

/* The connection's thread makes no call while the second proxy runs. */
CASE(a_proxy_that_no_thread_used_changes_no_connection)
{
	struct mpib_request *first = recv_at(0, 1000), *r = recv_at(0, 1000);

	end_as(rx->index, first, 3);
	dies();
	fake_proxy_return(f);
	while (atomic_load(&rx->next_state) != MPIB_NEXT_READY)
		sched_yield();
	dies();
	fake_proxy_return(f);
	until_asked(rx, 3);
	goes_on(rx);
	assert_int_equal(f->resume.base, 1);
	assert_true(is_over(first));
	assert_false(is_over(r));
	end_as(rx->index, r, 5);
	while (!is_over(r))
		fake_turn(f, rx->index, rx->index, 0);
}

CASE(a_hang_up_without_an_exit_is_not_the_end_of_the_proxy)
{
	unsigned hellos = asked(MPIB_CTL_HELLO);
	struct mpib_request *r = recv_at(0, 1000);

	fake_proxy_die(f);
	stops(rx);
	for (unsigned i = 0; i < 1000; i++) {
		assert_int_equal(mpib_alive(c), 0);
		assert_false(is_over(r));
	}
	/* Until its process ends, the proxy may write completion words, which
	 * count. */
	end_as(1, r, 9);
	fake_proxy_end(f);
	fake_proxy_return(f);
	goes_on(rx);
	assert_int_equal(asked(MPIB_CTL_HELLO), hellos + 1);
	assert_int_equal(f->resume.base, 1);
	assert_true(is_over(r));
}

CASE(a_client_fails_if_its_proxy_hung_up_for_good)
{
	atomic_store(&f->reply->ended, 1);
	dies();
	while (mpib_alive(c) == 0)
		sched_yield();
	assert_int_equal(mpib_alive(c), -EPIPE);
	assert_non_null(strstr(mpib_strerror(), "has ended the session"));
	may_send(-EPIPE);
	assert_non_null(strstr(mpib_strerror(), f->dir));
}

static _Atomic bool refuse_poll;
enum {
	FREE,
	HOLD,
	HELD
};
/* state of the helper's last poll of the proxy's pidfd */
static _Atomic int look;

/* Return whether this is the helper's last poll of the proxy's pidfd. After
 * this poll, nothing else wakes the helper. */
static bool is_last_look(const struct pollfd *p, nfds_t n, int ms)
{
	struct pollfd wake = { .fd = c->helper.wake, .events = POLLIN };

	return n == 1 && ms == 0 && p->fd == c->at->pidfd && c->helper.until &&
	       poll(&wake, 1, 0) == 0;
}

/* Only the helper polls five descriptors, so only the helper's calls fail. */
WRAPS(int, poll, struct pollfd *p, nfds_t n, int ms)
{
	if (atomic_load(&look) == HOLD && is_last_look(p, n, ms)) {
		atomic_store(&look, HELD);
		while (atomic_load(&look) == HELD)
			sched_yield();
		return 0;
	}
	if (n == 5 && atomic_load(&refuse_poll)) {
		errno = ENOMEM;
		return -1;
	}
	return __real_poll(p, n, ms);
}

CASE(a_helper_that_cannot_wait_reports_the_reason)
{
	dies();
	stops(tx);
	atomic_store(&refuse_poll, true);
	while (mpib_alive(c) == 0)
		sched_yield();
	assert_int_equal(mpib_alive(c), -EPIPE);
	assert_non_null(strstr(mpib_strerror(), "Cannot allocate memory"));
	atomic_store(&refuse_poll, false);
	may_send(-EPIPE);
}

/* No call of the connections' thread wakes the helper. */
CASE(a_proxy_that_ends_just_after_the_helper_looked_is_noticed)
{
	unsigned hellos = asked(MPIB_CTL_HELLO);

	atomic_store(&look, HOLD);
	fake_proxy_die(f);
	while (atomic_load(&look) != HELD)
		sched_yield();
	fake_proxy_end(f);
	fake_proxy_return(f);
	atomic_store(&look, FREE);
	until(MPIB_CTL_HELLO, hellos + 1);
	goes_on(rx);
	goes_on(tx);
}

static int start_short(void **state)
{
	return loop_start_with(state, 1000, 10000);
}

TEST_OF(after_the_grace_period_the_error_names_what_was_missing, start_short,
	loop_stop)
{
	struct mpib_region *region;
	struct mpib_request *r;
	int done;

	assert_int_equal(mpib_reg(c, to, 100, &region), 0);
	for (r = NULL; !r; sched_yield())
		assert_int_equal(mpib_irecv(rx, 1, (void *[]){ to },
					    (size_t[]){ 100 }, NULL, &region,
					    &r),
				 0);
	dies();
	while (mpib_test(r, &done, NULL) == 0)
		assert_false(done);
	assert_non_null(strstr(mpib_strerror(), f->dir));
	assert_non_null(strstr(mpib_strerror(), "within 1 s"));
	assert_non_null(strstr(mpib_strerror(), "start mpib-proxy"));
	assert_int_equal(mpib_ready(rx), -EPIPE);
	assert_int_equal(mpib_alive(c), -EPIPE);
}

/* Write a program for MPIB_START that runs until the test has ended. */
static void write_endless_start(char *path)
{
	FILE *file = fdopen(mkstemp(path), "w");

	assert_non_null(file);
	fputs("#!/bin/sh\nexec tail --pid=$PPID -f /dev/null\n", file);
	assert_int_equal(fchmod(fileno(file), 0700), 0);
	assert_int_equal(fclose(file), 0);
}

TEST_OF(a_hanging_start_program_is_killed_after_the_grace_period, start_short,
	loop_stop)
{
	char path[] = "/tmp/mpib-start-XXXXXX", lock[64];

	write_endless_start(path);
	mpib_detach(c);
	setenv("MPIB_START", path, 1);
	assert_int_equal(fake_attach(f, &c), 0);
	unsetenv("MPIB_START");
	dies();
	while (mpib_alive(c) == 0)
		sched_yield();
	assert_int_equal(mpib_alive(c), -EPIPE);
	assert_non_null(strstr(mpib_strerror(), path));
	assert_non_null(strstr(mpib_strerror(), "is not ready"));
	unlink(path);
	snprintf(lock, sizeof(lock), "%s/starting", f->dir);
	unlink(lock);
}

CASE(a_socket_of_another_user_is_not_a_proxy)
{
	bool refused = false;

	if (geteuid() != 0) {
		print_message("SKIPPED: needs root to change its uid\n");
		skip();
	}
	dies();
	assert_int_equal(chmod(f->dir, 0777), 0);
	/* The system call changes the uid of this thread only. */
	assert_int_equal(syscall(SYS_setresuid, -1, 61001, -1), 0);
	fake_proxy_return(f);
	assert_int_equal(syscall(SYS_setresuid, -1, 0, -1), 0);
	while (!refused) {
		mpib_client_hold(c);
		refused = strstr(c->helper.tried, "has uid 61001");
		mpib_client_unlock(c);
		sched_yield();
	}
	assert_int_equal(mpib_conn_goes_on(tx), 0);
}

static void set_lost(uint32_t index)
{
	atomic_store(&f->reply->conn[index].broken, MPIB_BROKEN_LOST);
	fake_set_state(f, index, MPIB_CONN_LOST, 0);
}

static void lost(uint32_t index)
{
	struct mpib_ctl_header h = { .type = MPIB_CTL_LOST, .len = sizeof(h) };

	set_lost(index);
	assert_int_equal(mpib_message_send(f->sock, &h, NULL, 0), 0);
}

/* The connection is lost again at its new index, before its thread has
 * continued it at that index. */
CASE(a_connection_lost_while_it_is_requested_is_requested_again)
{
	atomic_store(&f->hold_pending, true);
	lost(0);
	until_asked(tx, 2);
	assert_null(may_send(0));
	lost(2);
	until_asked(tx, 3);
	fake_set_state(f, f->connect.conn, MPIB_CONN_READY, 0);
	goes_on(tx);
	assert_int_equal(f->connect.number, 3);
	assert_int_equal(tx->index, f->connect.conn);
}

/* A lost connection keeps its old index until its thread has continued at the
 * new index. */
CASE(a_lost_connection_waits_for_an_index)
{
	mpib_client_hold(c);
	c->at->used = MPIB_INDEXES_MAX;
	mpib_client_unlock(c);
	for (uint32_t i = 0; i < MPIB_INDEXES_MAX; i++) {
		if (i != rx->index && i != tx->index)
			fake_set_state(f, i, MPIB_CONN_CLOSING, 0);
	}
	lost(tx->index);
	for (unsigned i = 0; i < 20; i++) {
		assert_null(may_send(0));
		mpib_helper_wake(c);
		sched_yield();
	}
	mpib_client_hold(c);
	assert_int_equal(tx->ask.number, 1);
	mpib_client_unlock(c);
	fake_set_state(f, 7, MPIB_CONN_FREE, 0);
	goes_on(tx);
	assert_int_equal(tx->index, 7);
}

static unsigned connect_until_refused(void)
{
	struct mpib_handle h = { .magic = MPIB_HANDLE_MAGIC };
	struct mpib_conn *conn;
	unsigned n = 0;

	while (mpib_connect(c, &h, -1, &conn) == 0)
		n++;
	assert_non_null(strstr(mpib_strerror(), "1024 connections"));
	return n;
}

CASE(the_maximum_number_of_connections_resumes)
{
	struct mpib_conn *conn;
	unsigned n = 2;

	n += connect_until_refused();
	assert_int_equal(n, MPIB_CONNS_MAX);
	atomic_store(&f->hold_pending, true);
	LIST_FOREACH(conn, &c->conns, link)
	{
		set_lost(conn->index);
	}
	mpib_helper_wake(c);
	LIST_FOREACH(conn, &c->conns, link)
	{
		until_asked(conn, 2);
	}
	/* A refused connect must close no connection. */
	assert_int_equal(connect_until_refused(), 0);
	atomic_store(&f->hold_pending, false);
	LIST_FOREACH(conn, &c->conns, link)
	{
		fake_set_state(f, conn->next.index, MPIB_CONN_READY, 0);
	}
	LIST_FOREACH(conn, &c->conns, link)
	{
		while (mpib_conn_goes_on(conn) != 1)
			sched_yield();
	}
	assert_int_equal(connect_until_refused(), 0);
}

CASE(refusals_of_the_next_proxy_are_reported)
{
	dies();
	atomic_store(&f->refuse_conn, -ECONNREFUSED);
	fake_proxy_return(f);
	while (mpib_conn_goes_on(tx) == 0)
		sched_yield();
	may_send(-ECONNREFUSED);
	assert_string_equal(mpib_strerror(), "the peer has no such listener");
}

CASE(regions_are_registered_again_from_kept_descriptors)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	char *mem = mpib_mem_alloc(c, 4096);
	struct mpib_region *region, *other, *gone;
	unsigned was;

	assert_non_null(mem);
	assert_int_equal(ftruncate(fd, 8192), 0);
	assert_int_equal(
		mpib_reg_fd(c, to, 4096, 0, fd, MPIB_REG_MEMFD, &region), 0);
	assert_int_equal(
		mpib_reg_fd(c, from, 4096, 4096, fd, MPIB_REG_MEMFD, &gone), 0);
	close(fd);
	assert_int_equal(mpib_reg(c, mem, 4096, &other), 0);
	assert_int_equal(mpib_dereg(gone), 0);
	dies();
	was = asked(MPIB_CTL_REG_FD);
	fake_proxy_return(f);
	goes_on(tx);
	assert_int_equal(asked(MPIB_CTL_REG_FD), was + 2);
	assert_int_equal(mpib_region_mr(region), 999);
	assert_int_equal(mpib_region_mr(other), 999);
	mpib_mem_free(c, mem);
}

CASE(registrations_that_the_next_proxy_refuses_are_repeated)
{
	unsigned was = asked(MPIB_CTL_REG_FD);
	char *mem = mpib_mem_alloc(c, 4096);

	assert_non_null(mem);
	dies();
	atomic_store(&f->refuse_reg, -ENOMEM);
	fake_proxy_return(f);
	while (asked(MPIB_CTL_REG_FD) < was + 3) {
		assert_int_equal(mpib_alive(c), 0);
		sched_yield();
	}
	atomic_store(&f->refuse_reg, 0);
	goes_on(tx);
	mpib_mem_free(c, mem);
}

static _Atomic int refuse_lends;

/* Let messages of keep.c fail. Only these consist of a header and a
 * descriptor. */
WRAPS(ssize_t, sendmsg, int sock, const struct msghdr *msg, int flags)
{
	if (msg->msg_control &&
	    msg->msg_iov->iov_len == sizeof(struct mpib_ctl_header) &&
	    atomic_load(&refuse_lends) > 0) {
		atomic_fetch_sub(&refuse_lends, 1);
		errno = ETOOMANYREFS;
		return -1;
	}
	return __real_sendmsg(sock, msg, flags);
}

CASE(a_descriptor_that_could_not_be_sent_is_requested_again)
{
	char *mem = mpib_mem_alloc(c, 4096);

	assert_non_null(mem);
	dies();
	atomic_store(&refuse_lends, 2);
	fake_proxy_return(f);
	goes_on(tx);
	assert_int_equal(atomic_load(&refuse_lends), 0);
	mpib_mem_free(c, mem);
}

/* If a proxy has ended, the helper must not wait for the proxy's answers,
 * either. */
CASE(regions_are_registered_without_waiting_for_each_answer)
{
	unsigned was = asked(MPIB_CTL_REG_FD);
	char *mem[4];

	for (unsigned i = 0; i < 4; i++) {
		mem[i] = mpib_mem_alloc(c, 4096);
		assert_non_null(mem[i]);
	}
	dies();
	atomic_store(&f->slow, MPIB_CTL_REG_FD);
	fake_proxy_return(f);
	while (asked(MPIB_CTL_REG_FD) < was + 4) {
		assert_int_equal(mpib_alive(c), 0);
		sched_yield();
	}
	fake_proxy_die(f);
	fake_proxy_end(f);
	atomic_store(&f->slow, 0);
	fake_proxy_return(f);
	goes_on(tx);
	assert_int_equal(asked(MPIB_CTL_REG_FD), was + 8);
	for (unsigned i = 0; i < 4; i++)
		mpib_mem_free(c, mem[i]);
}

/* Announce an upgrade, and wait until the client has reported whether it could
 * prepare for it. */
static void upgrades(struct fake_proxy *old, uint32_t number)
{
	unsigned said = atomic_load(&old->asked[MPIB_CTL_NEXT]);

	fake_tell_next(old, number);
	while (atomic_load(&old->asked[MPIB_CTL_NEXT]) == said)
		sched_yield();
	assert_int_equal(old->next.number, number);
}

static struct mpib_region *register_page(unsigned i)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct mpib_region *region;

	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(mpib_reg_fd(c, to + 4096ul * i, 4096, 0, fd,
				     MPIB_REG_MEMFD, &region),
			 0);
	close(fd);
	return region;
}

CASE(memory_is_registered_at_a_successor_before_the_switch)
{
	struct mpib_request *r = recv_at(0, 1000);
	struct fake_proxy *old = f, *next;
	char *mem[5];

	for (unsigned i = 0; i < 4; i++) {
		mem[i] = mpib_mem_alloc(c, 4096);
		assert_non_null(mem[i]);
	}
	next = fake_proxy_beside(old);
	upgrades(old, 1);
	assert_int_equal(old->next.h.status, 0);
	assert_int_equal(atomic_load(&next->asked[MPIB_CTL_REG_FD]), 4);
	/* The old proxy still serves the connection. */
	end_as(rx->index, r, 7);
	assert_true(is_over(r));
	mpib_mem_free(c, mem[0]);
	mem[4] = mpib_mem_alloc(c, 4096);
	assert_non_null(mem[4]);
	fake_proxy_die(old);
	fake_proxy_end(old);
	f = next;
	stops(tx);
	until(MPIB_CTL_REG_FD, 5);
	assert_int_equal(asked(MPIB_CTL_DEREG), 1);
	assert_int_equal(asked(MPIB_CTL_CONNECT), 0);
	assert_int_equal(mpib_alive(c), 0);
	fake_tell_next(next, 0);
	goes_on(tx);
	goes_on(rx);
	assert_int_equal(f->resume.base, 1);
	assert_int_equal(asked(MPIB_CTL_REG_FD), 5);
	assert_int_equal(asked(MPIB_CTL_HELLO), 1);
	for (unsigned i = 1; i < 5; i++)
		mpib_mem_free(c, mem[i]);
	fake_proxy_stop(old);
}

static void until_hung_up_on(struct fake_proxy *by)
{
	while (!atomic_load(&by->reply->ended))
		sched_yield();
}

CASE(the_serving_proxy_learns_what_its_successor_refused)
{
	struct fake_proxy *next;
	char *mem = mpib_mem_alloc(c, 4096);

	assert_non_null(mem);
	next = fake_proxy_beside(f);
	atomic_store(&next->refuse_reg, -ENOMEM);
	upgrades(f, 1);
	assert_int_equal(f->next.h.status, -ENOMEM);
	assert_string_equal(f->next.why, "no such luck");
	until_hung_up_on(next);
	atomic_store(&next->refuse_reg, 0);
	upgrades(f, 2);
	assert_int_equal(f->next.h.status, 0);
	/* The upgrade is cancelled. The next upgrade fails for another
	 * reason. */
	fake_tell_next(f, 0);
	until_hung_up_on(next);
	next->refuse_hello = -EPROTO;
	upgrades(f, 3);
	assert_string_equal(f->next.why + strlen(f->dir),
			    "/proxy.sock: no room at the inn");
	sends();
	assert_int_equal(asked(MPIB_CTL_HELLO), 1);
	fake_proxy_stop(next);
	mpib_mem_free(c, mem);
}

/* After this, messages of the successor or its hang-up would wake the helper
 * again and again. */
CASE(a_client_that_cannot_keep_memory_leaves_the_successor)
{
	struct fake_proxy *next = fake_proxy_beside(f);
	struct mpib_region *region;
	bool left = false;

	upgrades(f, 1);
	assert_int_equal(f->next.h.status, 0);
	atomic_store(&refuse_lends, 1);
	region = register_page(0);
	while (!left) {
		mpib_client_hold(c);
		left = !c->successor;
		mpib_client_unlock(c);
		sched_yield();
	}
	assert_int_equal(mpib_dereg(region), 0);
	fake_proxy_stop(next);
}

static void on_signal(int sig)
{
	(void)sig;
}

/* Interrupt the thread at `arg`, and then kill the proxy's process. */
static void *interrupt(void *arg)
{
	for (unsigned i = 0; i < 20; i++) {
		pthread_kill(*(pthread_t *)arg, SIGUSR1);
		poll(NULL, 0, 5);
	}
	fake_proxy_end(f);
	return NULL;
}

/* The proxy has hung up, and its process ends a little later. */
CASE(a_signal_does_not_end_the_wait_for_the_process_of_the_proxy)
{
	struct sigaction act = { .sa_handler = on_signal };
	pthread_t self = pthread_self(), other;
	bool dead;

	assert_int_equal(sigaction(SIGUSR1, &act, NULL), 0);
	fake_proxy_die(f);
	pthread_create(&other, NULL, interrupt, &self);
	mpib_client_hold(c);
	dead = mpib_client_dead(c, 60000);
	mpib_client_unlock(c);
	assert_true(dead);
	pthread_join(other, NULL);
	fake_proxy_return(f);
	goes_on(rx);
}

static unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

#define PAGES 64
#define FEW 10 /* less than the client borrows at once */

/* A forked child must have no descriptors of the kept memory, either. */
CASE(kept_memory_uses_no_descriptor_of_the_process)
{
	struct mpib_region *region[PAGES + 1];
	struct rlimit all, few;
	unsigned before, was;
	int status;
	pid_t pid;

	region[PAGES] = register_page(PAGES);
	before = descriptors();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
	few = (struct rlimit){ before + PAGES, all.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	for (unsigned i = 0; i < PAGES; i++)
		region[i] = register_page(i);
	assert_true(atomic_load(&c->helper.resumes));
	assert_int_equal(descriptors(), before);
	pid = fork();
	if (pid == 0)
		_exit(descriptors() != before);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	dies();
	was = asked(MPIB_CTL_REG_FD);
	fake_proxy_return(f);
	goes_on(tx);
	assert_int_equal(asked(MPIB_CTL_REG_FD), was + PAGES + 1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
	for (unsigned i = 0; i <= PAGES; i++)
		assert_int_equal(mpib_dereg(region[i]), 0);
}

/* The process has enough free descriptors for the attach, but not for a copy of
 * each kept descriptor. The fake proxy runs in the same process. If it gets no
 * descriptor for a message, it hangs up, and the client retries. */
CASE(memory_is_registered_again_with_few_free_descriptors)
{
	struct mpib_region *region[PAGES];
	struct rlimit all, few;

	for (unsigned i = 0; i < PAGES; i++)
		region[i] = register_page(i);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
	few = (struct rlimit){ descriptors() + FEW, all.rlim_max };
	dies();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	fake_proxy_return(f);
	goes_on(tx);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
	for (unsigned i = 0; i < PAGES; i++) {
		assert_int_equal(region[i]->memory.at, c->at->number);
		assert_int_equal(mpib_dereg(region[i]), 0);
	}
}

/* The process continues without a descriptor for the memory, but does not
 * outlive its proxy any more. */
CASE(memory_that_cannot_be_kept_is_still_registered)
{
	struct rlimit all, few;
	unsigned n = 0;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
	few = (struct rlimit){ descriptors() + 4, all.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	while (atomic_load(&c->helper.resumes))
		register_page(n++ % 200);
	register_page(n);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
	assert_int_equal(mpib_alive(c), 0);
}

CASE(listeners_are_resumed_after_connections_and_accepts_last)
{
	struct mpib_handle handle;
	struct mpib_listener *l, *closed;
	struct mpib_conn *waits, *orphan, *known;

	assert_int_equal(mpib_listen(c, &handle, &closed), 0);
	assert_int_equal(mpib_listen(c, &handle, &l), 0);
	atomic_store(&f->hold_pending, true);
	/* The proxy has reported the peer, but the connection is not READY
	 * yet. */
	assert_int_equal(mpib_accept(l, &known), 0);
	atomic_store(&f->accept_key, 0);
	assert_int_equal(mpib_accept(l, &waits), 0);
	assert_int_equal(mpib_accept(closed, &orphan), 0);
	mpib_close_listen(closed);
	atomic_store(&f->hold_pending, false);
	dies();
	fake_proxy_return(f);
	while (mpib_ready(waits) != 1 || mpib_ready(known) != 1)
		sched_yield();
	assert_int_equal(f->relisten.nonce, handle.nonce);
	assert_true(f->came_before[MPIB_CTL_LISTEN] >
		    f->came_before[MPIB_CTL_RESUME]);
	assert_true(f->came_before[MPIB_CTL_LISTEN] >
		    f->came_before[MPIB_CTL_CONNECT]);
	assert_true(f->came_before[MPIB_CTL_LISTEN] <
		    f->came_before[MPIB_CTL_ACCEPT]);
	while (mpib_ready(orphan) == 0)
		sched_yield();
	assert_int_equal(mpib_ready(orphan), -ECONNABORTED);
}

CASE(closing_without_a_proxy_returns_at_once)
{
	unsigned closes = asked(MPIB_CTL_CLOSE);
	const struct mpib_conn *conn;
	struct mpib_listener *l;
	struct mpib_handle h;

	assert_int_equal(mpib_listen(c, &h, &l), 0);
	end_as(1, recv_at(0, 1000), 3);
	dies();
	stops(tx);
	mpib_close(tx);
	mpib_close(rx);
	mpib_close_listen(l);
	assert_int_equal(mpib_dereg(from_region), 0);
	fake_proxy_return(f);
	/* The connections are requested and closed at the next proxy, so that
	 * the peers learn of the close and of the messages that arrived. */
	until(MPIB_CTL_CLOSE, closes + 2);
	assert_int_equal(f->connect.number, 2);
	assert_int_equal(f->resume.base, 1);
	assert_int_equal(asked(MPIB_CTL_LISTEN), 2);
	connect_both();
	LIST_FOREACH(conn, &c->conns, link)
	{
		assert_int_equal(conn->closing, MPIB_CLOSING_NOT);
	}
	assert_int_equal(c->at->users, 3);
}

/* The close is repeated at the next proxy, because the peer may not know of it
 * yet. */
CASE(a_close_that_was_in_progress_is_repeated)
{
	unsigned closes = asked(MPIB_CTL_CLOSE);

	atomic_store(&f->hold_closing, true);
	mpib_close(tx);
	mpib_close(rx);
	fake_set_state(f, 1, MPIB_CONN_FREE, 0);
	dies();
	fake_proxy_return(f);
	until(MPIB_CTL_CLOSE, closes + 3);
	assert_int_equal(f->connect.number, 2);
	assert_int_equal(asked(MPIB_CTL_RESUME), 0);
	connect_both();
}

CASE(a_lost_connection_that_is_closed_is_closed_at_its_peer)
{
	unsigned closes = asked(MPIB_CTL_CLOSE);

	atomic_store(&f->hold_pending, true);
	lost(0);
	mpib_close(tx);
	until(MPIB_CTL_CONNECT, 2);
	assert_int_equal(asked(MPIB_CTL_CLOSE), closes);
	fake_set_state(f, f->connect.conn, MPIB_CONN_READY, 0);
	until(MPIB_CTL_CLOSE, closes + 2);
	atomic_store(&f->hold_pending, false);
	atomic_store(&f->reply->conn[0].broken, 0);
	connect_both();
}

/* The next proxy reports a connection that was resumed, but that the peer
 * closed before the thread saw READY. */
CASE(messages_count_if_the_peer_closed_after_the_resume)
{
	struct mpib_request *first = send_at(0, 1000, 0),
			    *second = send_at(1000, 1000, 0);
	int done;

	atomic_store(&f->reply->answers[0][mpib_request_index(first)],
		     (uint64_t)first->gen << 32);
	dies();
	atomic_store(&f->base, 1);
	atomic_store(&f->was_ready, true);
	atomic_store(&f->refuse_conn, -ECONNRESET);
	fake_proxy_return(f);
	while (mpib_conn_goes_on(tx) == 0)
		sched_yield();
	atomic_store(&f->reply->conn[tx->index].broken, -ECONNRESET);
	assert_true(is_over(first));
	while (mpib_test(second, &done, NULL) == 0)
		assert_false(done);
	assert_int_equal(mpib_test(second, &done, NULL), -ECONNRESET);
}

/* Detach while the helper waits for a new proxy, and while it waits for an
 * answer. */
CASE(a_client_detaches_while_it_resumes)
{
	dies();
	atomic_store(&f->hold, true);
	stops(tx);
	mpib_detach(c);
	assert_int_equal(fake_attach(f, &c), -ECONNREFUSED);
	atomic_store(&f->hold, false);
	fake_proxy_return(f);
	assert_int_equal(fake_attach(f, &c), 0);
	dies();
	atomic_store(&f->slow, MPIB_CTL_HELLO);
	fake_proxy_return(f);
	while (asked(MPIB_CTL_HELLO) != 3)
		sched_yield();
	mpib_detach(c);
	atomic_store(&f->slow, 0);
	c = NULL;
}

CASE(a_forked_child_leaves_the_resume_to_its_parent)
{
	struct mpib_request *r = recv_at(0, 1000);
	int status, done;
	pid_t pid;

	dies();
	stops(rx);
	pid = fork();
	if (pid == 0) {
		bool wrong = mpib_test(r, &done, NULL) != -EOWNERDEAD ||
			     mpib_alive(c) != -EOWNERDEAD ||
			     mpib_dereg(from_region) != -EOWNERDEAD;

		mpib_close(tx);
		mpib_detach(c);
		_exit(wrong);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	fake_proxy_return(f);
	goes_on(rx);
}
