/* SPDX-License-Identifier: Apache-2.0 */
/* Adding a finding, and reading an answer: used by all checks. */
#include <stdarg.h>
#include <string.h>

#include "doctor/doctor.h"
#include "verbs/explain.h"

void mpib_find(struct mpib_doctor *d, enum mpib_verdict verdict,
	       const char *check, const char *fix, const char *fmt, ...)
{
	static const char *const name[] = { "OK", "NOTE", "WARN", "FAIL" };
	char what[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	d->count[verdict]++;
	json_array_append_new(d->findings,
			      json_pack("{ss ss ss ss*}", "status",
					name[verdict], "check", check, "what",
					what, "fix", fix));
}

const char *mpib_doctor_label(const json_t *rail)
{
	const char *label = mpib_json_str(rail, "label");

	/* A proxy from before devices gives none. */
	return *label ? label : mpib_json_str(rail, "name");
}

bool mpib_doctor_new_port(const struct mpib_doctor *d, size_t i)
{
	const char *own = mpib_json_str(json_array_get(d->rails, i), "device");

	for (size_t j = 0; j < i; j++) {
		if (!strcmp(mpib_json_str(json_array_get(d->rails, j),
					  "device"),
			    own))
			return false;
	}
	return true;
}

void mpib_doctor_explain(struct mpib_doctor *d, const char *check,
			 const struct mpib_rail_spec *spec, const char *call,
			 int rc)
{
	char why[512], *remedy;

	/* "what: why (remedy)", the remedy only where one is known. */
	mpib_verbs_explain(spec, NULL, call, rc, why, sizeof(why));
	remedy = strstr(why, " (");
	if (remedy) {
		*remedy = '\0';
		remedy += 2;
		remedy[strlen(remedy) - 1] = '\0';
	}
	mpib_find(d, MPIB_FAIL, check, remedy ? remedy : "see dmesg(1)", "%s",
		  why);
}
