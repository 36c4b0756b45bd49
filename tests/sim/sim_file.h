/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of the simulated kernel: their files, the processes that own
 * them, and the tasks that wait for them. Their numbers are above those of the
 * real kernel, whose descriptors stay unchanged: memfds and the files of the
 * run directories are real.
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
	bool changed; /* since the last epoll_wait() that reported it */
};

struct sim_file_ops {
	uint32_t (*ready)(struct sim_file *f); /* EPOLLIN... */
	/* -EAGAIN: the caller waits, unless the file does not block. */
	ssize_t (*read)(struct sim_file *f, void *buf, size_t len);
	ssize_t (*write)(struct sim_file *f, const void *buf, size_t len);
	void (*close)(struct sim_file *f); /* the last descriptor was closed */
};

/* An open file; the first member of each kind's struct. */
struct sim_file {
	const struct sim_file_ops *ops;
	unsigned refs;
	bool nonblock;
	unsigned waiters; /* tasks */
	LIST_HEAD(, sim_watch) watchers;
};

void *sim_file_new(const struct sim_file_ops *ops, size_t size);
void sim_file_hold(struct sim_file *f);
void sim_file_put(struct sim_file *f);
/* Call this when the file's readiness may have changed. */
void sim_file_changed(struct sim_file *f);

/* Make a descriptor of the current process. It takes over a reference. */
int sim_fd_new(struct sim_file *f);
/* Return NULL and set EBADF if fd is not a simulated descriptor. */
struct sim_file *sim_fd_file(int fd);
bool sim_fd_is(int fd);
/* Hold a descriptor in a message: the file, or a copy of a real descriptor. */
int sim_fd_hold(int fd);
/* Make the receiver's descriptor from what sim_fd_hold() returned. */
int sim_fd_give(int held);
void sim_fd_drop(int held);
/* Close this real descriptor when the process ends. Returns fd. */
int sim_fd_real(int fd);
void sim_files_close_all(const struct sim_proc *proc);
/* If the file blocks, wait until op() does not return -EAGAIN. */
ssize_t sim_file_block(struct sim_file *f, bool dontwait, uint64_t limit,
		       ssize_t (*op)(struct sim_file *f, void *arg), void *arg);

/* sim_epoll.c */
void sim_watch_end(struct sim_watch *w);

/* sim_event.c: an eventfd, as the HCA uses it. */
struct sim_file *sim_counter_new(bool semaphore);
void sim_counter_add(struct sim_file *f, uint64_t n);

#endif
