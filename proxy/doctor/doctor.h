/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpibctl doctor: what is wrong on this node, and how to mend it. Each check
 * adds findings by mpib_find(); no check changes anything. Private to doctor/.
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
	const char *sysfs; /* "/sys"; tests give another */
	json_t *findings; /* {"status", "check", "what", "fix"} each */
	unsigned count[MPIB_FAIL + 1];
	/* The proxy's answers; NULL where it gave none. */
	json_t *greeting, *info, *rails, *lanes;
	char socket[128]; /* path of the stats socket */
	int reached; /* exit status of asking the proxy */
	char why[MPIB_DIAL_WHY];
};

/* Add a finding. fix is what the user can do, or NULL. */
void mpib_find(struct mpib_doctor *d, enum mpib_verdict verdict,
	       const char *check, const char *fix, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* Read the first line of the file that fmt names, without its newline. False
 * when the file cannot be read. */
bool mpib_read_line(char *buf, size_t len, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

typedef void mpib_check_fn(struct mpib_doctor *d);
/* node.c: checks of the proxy's answers. */
mpib_check_fn mpib_check_socket, mpib_check_versions, mpib_check_rails,
	mpib_check_lanes, mpib_check_memlock;
/* host.c: checks of the machine, and of what a rank would find. */
mpib_check_fn mpib_check_run_dir, mpib_check_io_uring, mpib_check_numa,
	mpib_check_plugin, mpib_check_environment;

#endif
