/* SPDX-License-Identifier: Apache-2.0 */
/* mpibctl doctor: ask the proxy, run all checks, print their findings. */
#include "doctor/doctor.h"

#include <limits.h>
#include <mpib/control.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/table.h"

#define WIDTH 80
#define INDENT 19 /* column of a finding's text */

static const char *const verdicts[] = { "OK", "NOTE", "WARN", "FAIL" };

static enum mpib_verdict doctor_verdict(const json_t *finding)
{
	const char *status = mpib_json_str(finding, "status");
	enum mpib_verdict v = MPIB_OK;

	while (v < MPIB_FAIL && strcmp(verdicts[v], status) != 0)
		v++;
	return v;
}

static void doctor_print(const json_t *finding, bool colour)
{
	static const char *const shade[] = { "32", "36", "33", "31" };
	enum mpib_verdict v = doctor_verdict(finding);
	const char *fix = json_string_value(json_object_get(finding, "fix"));
	const char *check = mpib_json_str(finding, "check");

	if (colour)
		printf("\033[%sm%-4s\033[0m", shade[v], verdicts[v]);
	else
		printf("%-4s", verdicts[v]);
	/* Long names, such as "rail gpu10.SOUT", get their own line. */
	if (strlen(check) > 12)
		printf("  %s\n%*s", check, INDENT, "");
	else
		printf("  %-12s ", check);
	mpib_wrap(mpib_json_str(finding, "what"), INDENT, INDENT, WIDTH,
		  stdout);
	if (fix) {
		printf("%*sfix:", INDENT, "");
		mpib_wrap(fix, INDENT + 4, INDENT, WIDTH, stdout);
	}
}

static void doctor_examine(struct mpib_doctor *d)
{
	static mpib_check_fn *const checks[] = {
		mpib_check_run_dir,	mpib_check_socket, mpib_check_settings,
		mpib_check_versions,	mpib_check_rails,  mpib_check_devices,
		mpib_check_lanes,	mpib_check_peers,  mpib_check_memlock,
		mpib_check_cpu,		mpib_check_numa,   mpib_check_plugin,
		mpib_check_environment,
	};
	const struct {
		const char *noun;
		json_t **answer;
	} ask[] = { { "info", &d->info },
		    { "rails", &d->rails },
		    { "lanes", &d->lanes },
		    { "peers", &d->peers } };
	struct mpib_dial dial;

	d->attach = mpib_dial_probe(&dial, d->run_dir);
	snprintf(d->attach_why, sizeof(d->attach_why), "%s", dial.why);
	mpib_dial_path(d->run_dir, MPIB_STATS_SOCK, d->socket,
		       sizeof(d->socket));
	/* If the proxy does not answer on one socket, do not try another. */
	d->reached =
		dial.silent ? d->attach : mpib_dial_open(&dial, d->run_dir);
	d->greeting = json_incref(dial.greeting);
	for (unsigned i = 0;
	     i < sizeof(ask) / sizeof(ask[0]) && d->reached == MPIB_EXIT_OK;
	     i++)
		d->reached = mpib_dial_ask(&dial, ask[i].noun, ask[i].answer);
	d->absent = dial.absent;
	snprintf(d->why, sizeof(d->why), "%s", dial.why);
	mpib_dial_close(&dial);
	for (unsigned i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
		checks[i](d);
}

static bool is_wrong(const json_t *finding)
{
	return doctor_verdict(finding) >= MPIB_WARN;
}

static int doctor_report(const struct mpib_doctor *d,
			 const struct mpib_ctl_call *call)
{
	const char *no_color = getenv("NO_COLOR");
	bool colour = isatty(STDOUT_FILENO) && (!no_color || !*no_color);
	char why[MPIB_DIAL_WHY];
	const json_t *f;
	size_t i;

	if (call->fields) {
		if (!mpib_fields_print(d->findings, call->fields, stdout, why,
				       sizeof(why)))
			return mpib_ctl_fail(MPIB_EXIT_USAGE, why);
	} else if (call->json) {
		json_dumpf(d->findings, stdout, JSON_INDENT(2));
		putchar('\n');
	} else {
		json_array_foreach(d->findings, i, f) doctor_print(f, colour);
		if (!call->quiet)
			printf("%u OK, %u NOTE, %u WARN, %u FAIL\n",
			       d->count[MPIB_OK], d->count[MPIB_NOTE],
			       d->count[MPIB_WARN], d->count[MPIB_FAIL]);
	}
	return mpib_ctl_finish(MPIB_EXIT_OK);
}

/* Find the mpib-proxy of this mpibctl's build or installation. It is in the
 * same directory, or in the sibling directory sbin. */
static void doctor_find_proxy(char *path, size_t len)
{
	static const char name[] = "mpib-proxy";
	char own[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);

	own[n > 0 ? n : 0] = '\0';
	if (strrchr(own, '/'))
		*strrchr(own, '/') = '\0';
	if (snprintf(path, len, "%s/%s", own, name) < (int)len &&
	    access(path, X_OK) == 0)
		return;
	if (snprintf(path, len, "%s/../sbin/%s", own, name) >= (int)len)
		snprintf(path, len, "%s", name);
}

int mpib_ctl_doctor(const struct mpib_ctl_call *call)
{
	char proxy[PATH_MAX];
	struct mpib_doctor d = { .run_dir = call->run_dir,
				 .sysfs = "/sys",
				 .proc = "/proc",
				 .proxy = proxy,
				 .findings = json_array() };
	int rc;

	doctor_find_proxy(proxy, sizeof(proxy));

	doctor_examine(&d);
	if (call->quiet)
		mpib_rows_keep(d.findings, is_wrong);
	rc = doctor_report(&d, call);
	if (rc == MPIB_EXIT_OK &&
	    d.count[MPIB_FAIL] + (call->strict ? d.count[MPIB_WARN] : 0))
		rc = MPIB_EXIT_FAILED;
	if (rc == MPIB_EXIT_FAILED && d.reached == MPIB_EXIT_NO_PROXY)
		rc = MPIB_EXIT_NO_PROXY;
	json_decref(d.findings);
	json_decref(d.greeting);
	json_decref(d.info);
	json_decref(d.rails);
	json_decref(d.lanes);
	json_decref(d.peers);
	return rc;
}
