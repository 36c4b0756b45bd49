/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the devices beside each other: NCCL takes them for equals. */
#include <inttypes.h>
#include <string.h>

#include "doctor/doctor.h"

static bool is_sout(const json_t *rail)
{
	return !strcmp(mpib_json_str(rail, "name"), "SOUT");
}

/* The first SOUT before the i-th rail that is on the same port. NULL: none. */
static const json_t *sout_twice(const struct mpib_doctor *d, size_t i)
{
	const char *dev = mpib_json_str(json_array_get(d->rails, i), "device");

	for (size_t j = 0; j < i; j++) {
		const json_t *other = json_array_get(d->rails, j);

		if (is_sout(other) &&
		    !strcmp(mpib_json_str(other, "device"), dev))
			return other;
	}
	return NULL;
}

/* The speed of a port that is down says nothing. */
static uint64_t devices_speed(const json_t *rail)
{
	return is_sout(rail) && !strcmp(mpib_json_str(rail, "state"), "active")
		       ? mpib_json_num(rail, "speed_mbps")
		       : 0;
}

static void check_speeds(struct mpib_doctor *d)
{
	const json_t *rail, *slow = NULL, *fast = NULL;
	size_t i;

	json_array_foreach(d->rails, i, rail)
	{
		uint64_t speed = devices_speed(rail);

		if (speed && (!slow || speed < devices_speed(slow)))
			slow = rail;
		if (speed && (!fast || speed > devices_speed(fast)))
			fast = rail;
	}
	if (slow && devices_speed(slow) < devices_speed(fast))
		mpib_find(
			d, MPIB_WARN, "devices",
			"mend the slower port, or leave the device out: a job "
			"over all of them is as fast as the slowest",
			"%s has %" PRIu64 " Gb/s and %s %" PRIu64,
			mpib_doctor_label(slow), devices_speed(slow) / 1000,
			mpib_doctor_label(fast), devices_speed(fast) / 1000);
}

void mpib_check_devices(struct mpib_doctor *d)
{
	const json_t *rail;
	unsigned souts = 0;
	size_t i;

	json_array_foreach(d->rails, i, rail)
	{
		const json_t *other = is_sout(rail) ? sout_twice(d, i) : NULL;

		souts += is_sout(rail);
		if (other)
			mpib_find(d, MPIB_WARN, "devices",
				  "give each device an HCA of its own as sout",
				  "%s and %s are both %s",
				  mpib_doctor_label(other),
				  mpib_doctor_label(rail),
				  mpib_json_str(rail, "device"));
	}
	check_speeds(d);
	if (souts > 1)
		mpib_find(d, MPIB_OK, "devices", NULL, "there are %u", souts);
}
