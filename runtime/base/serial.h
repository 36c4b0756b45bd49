/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The serializer of a hand-over: carries the state of a process to the one that
 * takes over from it, as bytes with file descriptors beside them. For each kind
 * of object one function names its fields and runs in both directions: packing
 * appends the fields, unpacking fills the same fields in the same order. So the
 * two directions cannot differ, and each field is named once.
 *
 * Numbers are little-endian. Every object begins with a mark, which shows that
 * both sides are at the same place. After the first failure all further
 * unpacking gives zeros; the caller checks failed once, at the end. Any thread.
 */
#ifndef MPIB_BASE_SERIAL_H
#define MPIB_BASE_SERIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Raised whenever the packed fields of any object change, so that an older and
 * a newer program refuse each other with a clear message. */
#define MPIB_HANDOVER_VERSION 22u

/* Beside the function that names the fields of type: fails to compile when the
 * size of type changes, as a reminder. A new field that fits into padding does not
 * change the size. */
#define MPIB_SERIAL_SIZE(type, size)                                           \
	_Static_assert(sizeof(type) == (size),                                 \
		       #type ": name its new field here, then its size")

struct mpib_serial {
	bool packing, failed;
	uint8_t *bytes;
	size_t len, room, at;
	/* Packing: the descriptors stay their owners'. Unpacking: they belong
	 * to the serializer until mpib_serial_fd() takes them, each once. */
	int *fd;
	size_t fds, fd_room, fd_at;
	char why[160]; /* the first failure */
};

void mpib_serial_pack(struct mpib_serial *p);
/* Unpack len bytes and fds descriptors. Both arrays come from malloc() and
 * become the serializer's. */
void mpib_serial_unpack(struct mpib_serial *p, uint8_t *bytes, size_t len,
			int *fd, size_t fds);
/* Frees the serializer's memory and closes descriptors that were not taken. */
void mpib_serial_fini(struct mpib_serial *p);

void mpib_serial_fail(struct mpib_serial *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Marks the beginning of an object of the kind what, such as "lane". */
void mpib_serial_mark(struct mpib_serial *p, const char *what);
void mpib_serial_u8(struct mpib_serial *p, uint8_t *v);
void mpib_serial_u16(struct mpib_serial *p, uint16_t *v);
void mpib_serial_u32(struct mpib_serial *p, uint32_t *v);
void mpib_serial_u64(struct mpib_serial *p, uint64_t *v);
void mpib_serial_i32(struct mpib_serial *p, int32_t *v);
void mpib_serial_bool(struct mpib_serial *p, bool *v);
void mpib_serial_raw(struct mpib_serial *p, void *v, size_t n);
/* An index or a count: unpacking a number above max fails and gives 0. */
void mpib_serial_count(struct mpib_serial *p, uint32_t *v, uint32_t max);
/* A string in an array of size bytes, NUL included. */
void mpib_serial_text(struct mpib_serial *p, char *v, size_t size);
/* A descriptor, or -1 for none. An unpacked descriptor is the caller's. */
void mpib_serial_fd(struct mpib_serial *p, int *fd);

#endif
