/* SPDX-License-Identifier: Apache-2.0 */
#include "base/serial.h"

#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/xalloc.h"

void mpib_serial_pack(struct mpib_serial *p)
{
	*p = (struct mpib_serial){ .packing = true };
}

void mpib_serial_unpack(struct mpib_serial *p, uint8_t *bytes, size_t len,
			int *fd, size_t fds)
{
	*p = (struct mpib_serial){
		.bytes = bytes, .len = len, .fd = fd, .fds = fds
	};
}

void mpib_serial_fini(struct mpib_serial *p)
{
	while (!p->packing && p->fd_at < p->fds)
		close(p->fd[p->fd_at++]);
	free(p->bytes);
	free(p->fd);
	*p = (struct mpib_serial){ 0 };
}

void mpib_serial_fail(struct mpib_serial *p, const char *fmt, ...)
{
	va_list ap;

	if (p->failed)
		return;
	p->failed = true;
	va_start(ap, fmt);
	vsnprintf(p->why, sizeof(p->why), fmt, ap);
	va_end(ap);
}

static void serial_append(struct mpib_serial *p, const void *v, size_t n)
{
	if (p->len + n > p->room) {
		p->room = 2 * p->room + n + 4096;
		p->bytes = mpib_xrealloc(p->bytes, p->room);
	}
	memcpy(p->bytes + p->len, v, n);
	p->len += n;
}

void mpib_serial_raw(struct mpib_serial *p, void *v, size_t n)
{
	if (p->packing) {
		serial_append(p, v, n);
		return;
	}
	if (p->len - p->at < n)
		mpib_serial_fail(p, "it ends too early");
	if (p->failed) {
		memset(v, 0, n);
		return;
	}
	memcpy(v, p->bytes + p->at, n);
	p->at += n;
}

void mpib_serial_mark(struct mpib_serial *p, const char *what)
{
	char mark[8] = "", found[8];

	memcpy(mark, what, strnlen(what, sizeof(mark)));
	memcpy(found, mark, sizeof(found));
	mpib_serial_raw(p, found, sizeof(found));
	if (memcmp(mark, found, sizeof(mark)))
		mpib_serial_fail(p, "%.8s expected, %.8s found", mark, found);
}

void mpib_serial_u8(struct mpib_serial *p, uint8_t *v)
{
	mpib_serial_raw(p, v, sizeof(*v));
}

void mpib_serial_u16(struct mpib_serial *p, uint16_t *v)
{
	uint16_t le = htole16(*v);

	mpib_serial_raw(p, &le, sizeof(le));
	*v = le16toh(le);
}

void mpib_serial_u32(struct mpib_serial *p, uint32_t *v)
{
	uint32_t le = htole32(*v);

	mpib_serial_raw(p, &le, sizeof(le));
	*v = le32toh(le);
}

void mpib_serial_u64(struct mpib_serial *p, uint64_t *v)
{
	uint64_t le = htole64(*v);

	mpib_serial_raw(p, &le, sizeof(le));
	*v = le64toh(le);
}

void mpib_serial_i32(struct mpib_serial *p, int32_t *v)
{
	uint32_t u = (uint32_t)*v;

	mpib_serial_u32(p, &u);
	*v = (int32_t)u;
}

void mpib_serial_bool(struct mpib_serial *p, bool *v)
{
	uint8_t b = *v;

	mpib_serial_u8(p, &b);
	*v = b != 0;
}

void mpib_serial_count(struct mpib_serial *p, uint32_t *v, uint32_t max)
{
	mpib_serial_u32(p, v);
	if (*v <= max)
		return;
	mpib_serial_fail(p, "%u where %u is the most", *v, max);
	*v = 0;
}

void mpib_serial_text(struct mpib_serial *p, char *v, size_t size)
{
	uint32_t n = p->packing ? (uint32_t)strnlen(v, size - 1) : 0;

	mpib_serial_count(p, &n, (uint32_t)size - 1);
	mpib_serial_raw(p, v, n);
	v[n] = '\0';
}

static void add_fd(struct mpib_serial *p, int fd)
{
	if (p->fds == p->fd_room) {
		p->fd_room = 2 * p->fd_room + 64;
		p->fd = mpib_xrealloc(p->fd, p->fd_room * sizeof(*p->fd));
	}
	p->fd[p->fds++] = fd;
}

void mpib_serial_fd(struct mpib_serial *p, int *fd)
{
	bool there = p->packing && *fd >= 0;

	mpib_serial_bool(p, &there);
	if (p->packing) {
		if (there)
			add_fd(p, *fd);
		return;
	}
	*fd = -1;
	if (!there)
		return;
	if (p->fd_at < p->fds)
		*fd = p->fd[p->fd_at++];
	else
		mpib_serial_fail(p, "a descriptor is missing");
}
