/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of the simulated kernel: their files, their owners, and the tasks
 * that wait for the files. The numbers of simulated descriptors are above those
 * of the real kernel. The real kernel provides memfds and the files of the run
 * directories, so these files have real descriptors.
 */
#ifndef SIM_FILE_H
#define SIM_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/types.h>

#define SIM_FD_FIRST 65536
#define SIM_FDS 65536

struct sim_proc;
struct sim_file;

/* An entry of an epoll set. */
struct sim_watch {
	LIST_ENTRY(sim_watch) of_set, of_file;
	struct sim_file *set, *file;
	int fd;
	struct epoll_event event;
	/* the file's readiness has changed since epoll_wait() last reported the
	 * file */
	bool changed;
};

struct sim_file_ops {
	/* returns the events that are ready, such as EPOLLIN */
	uint32_t (*ready)(struct sim_file *f);
	/* Returns -EAGAIN if there is nothing to read. */
	ssize_t (*read)(struct sim_file *f, void *buf, size_t len);
	ssize_t (*write)(struct sim_file *f, const void *buf, size_t len);
	/* called when the last reference has been released */
	void (*close)(struct sim_file *f);
};

/* An open file. Each kind of file has a larger struct, which begins with this
 * one. */
struct sim_file {
	const struct sim_file_ops *ops;
	unsigned refs;
	bool nonblock;
	unsigned waiters; /* number of tasks that wait for the file */
	LIST_HEAD(, sim_watch) watchers;
};

void *sim_file_new(const struct sim_file_ops *ops, size_t size);
void sim_file_hold(struct sim_file *f);
void sim_file_put(struct sim_file *f);
/* Call this if the file's readiness may have changed. */
void sim_file_changed(struct sim_file *f);

/* Make a descriptor of the current process for the file. The descriptor takes
 * over the caller's reference to the file. */
int sim_fd_new(struct sim_file *f);
/* Return the file. If `fd` is not a simulated descriptor, set EBADF and return
 * NULL. */
struct sim_file *sim_fd_file(int fd);
bool sim_fd_is(int fd);
/* Take a reference to the file of `fd` for a message that carries this
 * descriptor. Return a descriptor that belongs to no process. */
int sim_fd_hold(int fd);
/* Give a descriptor that sim_fd_hold() returned to the current process, which
 * receives the message. */
int sim_fd_give(int held);
void sim_fd_drop(int held);
/* Close the real descriptor `fd` when the process ends. Return `fd`. */
int sim_fd_real(int fd);
void sim_files_close_all(const struct sim_proc *proc);
/* Call op() until its result is not -EAGAIN. Between two calls, wait until the
 * file changes. If the file is non-blocking or `dontwait` is set, call op()
 * only once. */
ssize_t sim_file_block(struct sim_file *f, bool dontwait, uint64_t limit,
		       ssize_t (*op)(struct sim_file *f, void *arg), void *arg);

/* sim_epoll.c */
void sim_watch_end(struct sim_watch *w);

/* sim_counter.c: make the file of an eventfd. The simulated HCA calls this. */
struct sim_file *sim_counter_new(bool semaphore);
void sim_counter_add(struct sim_file *f, uint64_t n);

#endif
