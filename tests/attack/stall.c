/* SPDX-License-Identifier: Apache-2.0 */
#include "stall.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096

/* Answer a request with `bytes` bytes from `data`. */
static void answer(int dev, const struct fuse_in_header *to, const void *data,
		   size_t bytes)
{
	char out[512];
	struct fuse_out_header h = { .len = (uint32_t)(sizeof(h) + bytes),
				     .unique = to->unique };

	memcpy(out, &h, sizeof(h));
	if (bytes)
		memcpy(out + sizeof(h), data, bytes);
	if (write(dev, out, h.len) != (ssize_t)h.len)
		_exit(1);
}

static _Bool is_process(pid_t task)
{
	char path[64], line[128];
	int of = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", task);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f) &&
	       sscanf(line, "Tgid: %d", &of) != 1)
		;
	if (f)
		fclose(f);
	return of == task;
}

/* Serve the file system, which has one file. */
static void serve(int dev, pid_t owner, _Bool closes)
{
	static char in[FUSE_MIN_READ_BUFFER + PAGE];
	const struct fuse_in_header *h = (const void *)in;
	const struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION,
					    .minor = FUSE_KERNEL_MINOR_VERSION,
					    .max_write = PAGE };
	const struct fuse_attr_out attr = {
		.attr_valid = 3600,
		.attr = { .ino = 1,
			  .size = PAGE,
			  .blocks = 8,
			  .mode = S_IFREG | 0666,
			  .nlink = 1,
			  .blksize = PAGE },
	};
	const struct fuse_open_out open = { .fh = 1 };

	while (read(dev, in, sizeof(in)) > 0) {
		if (h->opcode == FUSE_INIT)
			answer(dev, h, &init, sizeof(init));
		else if (h->opcode == FUSE_GETATTR)
			answer(dev, h, &attr, sizeof(attr));
		else if (h->opcode == FUSE_OPEN)
			answer(dev, h, &open, sizeof(open));
		else if (h->opcode == FUSE_FLUSH &&
			 (h->pid == (uint32_t)owner ||
			  (closes && !is_process((pid_t)h->pid))))
			answer(dev, h, NULL, 0);
	}
	_exit(0);
}

static _Bool put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	_Bool ok = fd >= 0 &&
		   write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

/* Become root in a new user namespace with its own mounts. */
static _Bool own_namespaces(void)
{
	char uids[32], gids[32];

	snprintf(uids, sizeof(uids), "0 %u 1", (unsigned)getuid());
	snprintf(gids, sizeof(gids), "0 %u 1", (unsigned)getgid());
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
	       put("/proc/self/setgroups", "deny") &&
	       put("/proc/self/uid_map", uids) &&
	       put("/proc/self/gid_map", gids);
}

/* Start the server. The server must not have a descriptor of the file, because
 * closing this descriptor would wait for the server itself. */
static void server_begin(int dev, _Bool closes)
{
	pid_t owner = getpid();

	if (fork() != 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == owner)
		serve(dev, owner, closes);
	_exit(0);
}

/* Mount the file system over the file at `path`. Open the device in the
 * namespace in which the file system is mounted, as the kernel requires. */
static int mount_at(const char *path)
{
	int dev = own_namespaces() ? open("/dev/fuse", O_RDWR | O_CLOEXEC) : -1;
	char options[96];

	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=100000,user_id=0,group_id=0", dev);
	if (dev < 0 ||
	    mount("stall", path, "fuse", MS_NOSUID | MS_NODEV, options) == 0)
		return dev;
	close(dev);
	return -1;
}

int stall_open(_Bool closes)
{
	char path[] = "/tmp/mpib-stall-XXXXXX";
	int place = mkstemp(path), fd = -1;
	int dev = place >= 0 ? mount_at(path) : -1;
	struct stat st;

	if (dev >= 0) {
		server_begin(dev, closes);
		close(dev);
		fd = open(path, O_RDWR | O_CLOEXEC);
		/* The kernel must know the file's size before it reads a
		 * page. */
		if (fd >= 0 && fstat(fd, &st) < 0)
			_exit(20);
		umount2(path, MNT_DETACH);
	}
	if (place >= 0)
		close(place);
	unlink(path);
	return fd;
}

struct stalled_write {
	const void *page;
	int to;
	_Atomic _Bool begun;
};

static void *write_page(void *arg)
{
	struct stalled_write *w = arg;

	atomic_store(&w->begun, 1);
	/* the write must not return while the test runs */
	_exit(write(w->to, w->page, PAGE) < 0 ? 21 : 22);
}

_Bool stall_write(int stalled, int fd)
{
	struct stalled_write *w = calloc(1, sizeof(*w));
	pthread_t thread;

	if (!w)
		return 0;
	w->page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, stalled, 0);
	w->to = fd;
	if (w->page == MAP_FAILED ||
	    pthread_create(&thread, NULL, write_page, w) != 0)
		return 0;
	while (!atomic_load(&w->begun))
		usleep(1000);
	usleep(50000); /* long enough for the thread to block in the write */
	return 1;
}

int stall_socket(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	const struct linger forever = { .l_onoff = 1, .l_linger = 3600 };
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;
	socklen_t len = sizeof(in);
	static char bytes[65536];

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(l, (struct sockaddr *)&in, sizeof(in)) ||
	    listen(l, 1) || getsockname(l, (struct sockaddr *)&in, &len) ||
	    connect(fd, (struct sockaddr *)&in, sizeof(in)) ||
	    accept(l, NULL, NULL) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_LINGER, &forever, sizeof(forever)))
		_exit(11);
	close(l);
	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	return fd;
}

static int send_with(int sock, void *bytes, size_t len, const int *fd,
		     unsigned fds, int flags)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {
		0
	};
	struct iovec iov = { .iov_base = bytes, .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = CMSG_SPACE(fds * sizeof(int)) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(fds * sizeof(int));
	memcpy(CMSG_DATA(c), fd, fds * sizeof(int));
	return (int)sendmsg(sock, &msg, MSG_NOSIGNAL | flags);
}

int stall_send(int sock, void *bytes, size_t len, const int *fd, unsigned fds)
{
	return send_with(sock, bytes, len, fd, fds, 0);
}

int stall_send_urgent(int sock, int fd)
{
	char byte = 'x';

	return send_with(sock, &byte, 1, &fd, 1, MSG_OOB);
}
