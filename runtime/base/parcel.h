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
#ifndef MPIB_BASE_PARCEL_H
#define MPIB_BASE_PARCEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Raised whenever what any object packs changes: older and newer programs then
 * refuse each other in words. */
#define MPIB_PARCEL_VERSION 6u

struct mpib_parcel {
	bool packing, failed;
	uint8_t *bytes;
	size_t len, room, at;
	/* Descriptors: those packed stay their owner's; those of an unpacking
	 * parcel are its own until they are taken, each but once. */
	int *fd;
	size_t fds, fd_room, fd_at;
	char why[160]; /* of the first failure */
};

void mpib_parcel_pack(struct mpib_parcel *p);
/* Of len bytes and fds descriptors, both taken over (malloc). */
void mpib_parcel_unpack(struct mpib_parcel *p, uint8_t *bytes, size_t len,
			int *fd, size_t fds);
/* Closes what was not taken. */
void mpib_parcel_fini(struct mpib_parcel *p);

void mpib_parcel_fail(struct mpib_parcel *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* "lane" or so: where we are. */
void mpib_parcel_mark(struct mpib_parcel *p, const char *what);
void mpib_parcel_u8(struct mpib_parcel *p, uint8_t *v);
void mpib_parcel_u16(struct mpib_parcel *p, uint16_t *v);
void mpib_parcel_u32(struct mpib_parcel *p, uint32_t *v);
void mpib_parcel_u64(struct mpib_parcel *p, uint64_t *v);
void mpib_parcel_i32(struct mpib_parcel *p, int32_t *v);
void mpib_parcel_bool(struct mpib_parcel *p, bool *v);
void mpib_parcel_raw(struct mpib_parcel *p, void *v, size_t n);
/* A number that is an index or a count: unpacking one above max fails, and
 * gives 0. */
void mpib_parcel_count(struct mpib_parcel *p, uint32_t *v, uint32_t max);
/* A string in an array of size bytes. */
void mpib_parcel_text(struct mpib_parcel *p, char *v, size_t size);
/* -1 stays -1. Unpacked, it is the caller's. */
void mpib_parcel_fd(struct mpib_parcel *p, int *fd);

#endif
