/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpibctl doctor: find the faults of this node, and their remedies. Each check
 * adds findings with mpib_find(); no check changes anything. Private to
 * doctor/.
 */
#ifndef MPIB_DOCTOR_DOCTOR_H
#define MPIB_DOCTOR_DOCTOR_H

#include "ctl/commands.h"

enum mpib_verdict {
	MPIB_OK,
	MPIB_NOTE, /* a fact that does not harm jobs */
	MPIB_WARN,
	MPIB_FAIL,
};

struct mpib_doctor {
	const char *run_dir; /* -s, or NULL */
	const char *sysfs; /* "/sys"; tests use a copy */
	const char *proc; /* "/proc"; tests use a copy */
	const char *proxy; /* the program mpib-proxy; tests use another */
	json_t *findings; /* list of {"status", "check", "what", "fix"} */
	unsigned count[MPIB_FAIL + 1];
	/* The proxy's answers; NULL: no answer. */
	json_t *greeting, *info, *rails, *lanes, *peers;
	char socket[128]; /* path of the stats socket */
	int reached; /* exit status of connecting to the proxy */
	char why[MPIB_DIAL_WHY];
	bool absent; /* no proxy listens at the socket */
	int attach; /* exit status of mpib_dial_probe() */
	char attach_why[MPIB_DIAL_WHY];
};

/* Add a finding. `fix` is the remedy for the user, or NULL. */
void mpib_find(struct mpib_doctor *d, enum mpib_verdict verdict,
	       const char *check, const char *fix, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* Add a finding. `why` has the form "what: reason (remedy)". `other` is the
 * remedy if `why` has none; it may be NULL. */
void mpib_find_why(struct mpib_doctor *d, enum mpib_verdict verdict,
		   const char *check, char *why, const char *other);

/* Return whether the i-th rail is the first one on its port. Devices may share
 * HCAs; the faults of a port are reported once. */
bool mpib_doctor_new_port(const struct mpib_doctor *d, size_t i);

typedef void mpib_check_fn(struct mpib_doctor *d);
/* node.c: checks of the proxy's answers. If the proxy does not answer:
 * check whether a proxy would start. */
mpib_check_fn mpib_check_socket, mpib_check_versions, mpib_check_rails,
	mpib_check_lanes, mpib_check_memlock, mpib_check_peers,
	mpib_check_settings;
/* port.c: checks of one rail's RDMA port. */
void mpib_check_port(struct mpib_doctor *d, const json_t *rail);
/* host.c: checks of the machine, and of the environment of a rank. */
mpib_check_fn mpib_check_run_dir, mpib_check_numa, mpib_check_cpu,
	mpib_check_devices, mpib_check_plugin, mpib_check_environment;

#endif
