/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of a process on its way to the one that takes over from it: bytes, and
 * descriptors beside them. One function says for each object what there is of
 * it, and runs in both directions: packing appends, unpacking fills in the same
 * fields in the same order. So the two cannot differ, and a field is named once.
 *
 * Numbers are little-endian. Marks, which every object begins with, show that
 * both sides stand at the same place. What does not fit fails for good, and
 * gives zeros from then on; the caller looks once, at the end. Any thread.
 */
#ifndef MPIB_BASE_SERIAL_H
#define MPIB_BASE_SERIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Raised whenever what any object packs changes: older and newer programs then
 * refuse each other in words. */
#define MPIB_HANDOVER_VERSION 6u

struct mpib_serial {
	bool packing, failed;
	uint8_t *bytes;
	size_t len, room, at;
	/* Descriptors: those packed stay their owner's; those of an unpacking
	 * serialized state are its own until they are taken, each but once. */
	int *fd;
	size_t fds, fd_room, fd_at;
	char why[160]; /* of the first failure */
};

void mpib_serial_pack(struct mpib_serial *p);
/* Of len bytes and fds descriptors, both taken over (malloc). */
void mpib_serial_unpack(struct mpib_serial *p, uint8_t *bytes, size_t len,
			int *fd, size_t fds);
/* Closes what was not taken. */
void mpib_serial_fini(struct mpib_serial *p);

void mpib_serial_fail(struct mpib_serial *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* "lane" or so: where we are. */
void mpib_serial_mark(struct mpib_serial *p, const char *what);
void mpib_serial_u8(struct mpib_serial *p, uint8_t *v);
void mpib_serial_u16(struct mpib_serial *p, uint16_t *v);
void mpib_serial_u32(struct mpib_serial *p, uint32_t *v);
void mpib_serial_u64(struct mpib_serial *p, uint64_t *v);
void mpib_serial_i32(struct mpib_serial *p, int32_t *v);
void mpib_serial_bool(struct mpib_serial *p, bool *v);
void mpib_serial_raw(struct mpib_serial *p, void *v, size_t n);
/* A number that is an index or a count: unpacking one above max fails, and
 * gives 0. */
void mpib_serial_count(struct mpib_serial *p, uint32_t *v, uint32_t max);
/* A string in an array of size bytes. */
void mpib_serial_text(struct mpib_serial *p, char *v, size_t size);
/* -1 stays -1. Unpacked, it is the caller's. */
void mpib_serial_fd(struct mpib_serial *p, int *fd);

#endif
