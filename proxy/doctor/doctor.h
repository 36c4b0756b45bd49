/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpibctl doctor: what is wrong on this node, and what helps. Each check tells
 * one or more findings; it never changes anything. Between the files of
 * doctor/.
 */
#ifndef MPIB_DOCTOR_DOCTOR_H
#define MPIB_DOCTOR_DOCTOR_H

#include "ctl/commands.h"

enum mpib_verdict {
	MPIB_OK,
	MPIB_WARN,
	MPIB_FAIL,
};

struct mpib_doctor {
	const char *run_dir; /* -s, or NULL */
	const char *sysfs; /* "/sys", but in tests */
	json_t *findings; /* {"status", "check", "what", "fix"} each */
	unsigned count[MPIB_FAIL + 1];
	/* What the proxy says, NULL when it does not. */
	json_t *greeting, *info, *rails, *lanes;
	char socket[128]; /* where it was looked for */
	int reached; /* exit status of asking it */
	char why[MPIB_DIAL_WHY];
};

/* fix is NULL where nothing needs one. */
void mpib_find(struct mpib_doctor *d, enum mpib_verdict verdict,
	       const char *check, const char *fix, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* The first line of a file without its end; false when it cannot be read. */
bool mpib_read_line(char *buf, size_t len, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

typedef void mpib_check_fn(struct mpib_doctor *d);
/* node.c: what the proxy says of itself. */
mpib_check_fn mpib_check_socket, mpib_check_versions, mpib_check_rails,
	mpib_check_lanes, mpib_check_memlock;
/* host.c: what the machine allows, and what a rank would find. */
mpib_check_fn mpib_check_run_dir, mpib_check_io_uring, mpib_check_numa,
	mpib_check_plugin, mpib_check_environment;

#endif
