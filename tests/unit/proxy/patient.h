/* SPDX-License-Identifier: Apache-2.0 */
/* A machine of files and a proxy's answers, for mpibctl doctor to look at. */
#ifndef MPIB_TESTS_PATIENT_H
#define MPIB_TESTS_PATIENT_H

#include "doctor/doctor.h"

#define RAIL(name, dev, state, mtu, gid, errors)                               \
	"{\"name\":\"" name "\",\"label\":\"" name "\",\"device\":\"" dev      \
	"\",\"state\":\"" state "\",\"mtu\":" mtu ",\"gid\":\"" gid            \
	"\",\"cqe_errors\":" errors "}"

/* cmocka's setup: a scratch directory that is sysfs of a machine with two HCAs,
 * mlx5_0 and, with faults, mlx5_1. */
int patient_machine(void **state);

/* On that machine, with a proxy that answers with these rails. */
struct mpib_doctor patient_of(const char *rails);
/* Its end; nothing was told without the remedy. */
void patient_release(struct mpib_doctor *d);

bool patient_has(const struct mpib_doctor *d, const char *status,
		 const char *check, const char *part);
void assert_found(const struct mpib_doctor *d, const char *status,
		  const char *check, const char *part);

#endif
