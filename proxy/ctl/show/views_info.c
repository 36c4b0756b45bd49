/* SPDX-License-Identifier: Apache-2.0 */
/* mpibctl info: the proxy's version, settings of note and what it holds; upgrade
 * show: how the last hand-over ended. */
#include <inttypes.h>
#include <string.h>

#include "ctl/show/views.h"

static void print_usage(const json_t *usage, FILE *out)
{
	char registered[16], mapped[16];

	mpib_human_bytes(mpib_json_num(usage, "registered_bytes"), registered,
			 sizeof(registered));
	mpib_human_bytes(mpib_json_num(usage, "mapped_bytes"), mapped,
			 sizeof(mapped));
	fprintf(out,
		"held        %" PRIu64 " clients (%" PRIu64
		" leaving), %" PRIu64 " regions of %s, %s mapped\n",
		mpib_json_num(usage, "attached"),
		mpib_json_num(usage, "leaving"),
		mpib_json_num(usage, "regions"), registered, mapped);
}

static void print_shard(size_t i, const json_t *s, FILE *out)
{
	uint64_t turns = mpib_json_num(s, "turns");
	double busy = 0;
	char buf[16];

	if (turns)
		busy = (double)mpib_json_num(s, "busy_turns") * 100 /
		       (double)turns;
	fprintf(out,
		"shard %-5zu %s turns, %.1f %% busy, %" PRIu64
		" sleeps, %" PRIu64 " clients\n",
		i, mpib_human_count(turns, buf, sizeof(buf)), busy,
		mpib_json_num(s, "sleeps"), mpib_json_num(s, "clients"));
}

void mpib_ctl_print_info(const json_t *data, unsigned width, FILE *out)
{
	const json_t *item;
	size_t i;

	(void)width;
	fprintf(out,
		"mpib-proxy  %s, ABI %" PRIu64 ", pid %" PRIu64 ", up %.0f s\n",
		mpib_json_str(data, "version"), mpib_json_num(data, "abi"),
		mpib_json_num(data, "pid"),
		json_real_value(json_object_get(data, "uptime_s")));
	fprintf(out, "run dir     %s\n", mpib_json_str(data, "run_dir"));
	fprintf(out, "peer link   %s\n", mpib_json_str(data, "peer_link"));
	fprintf(out, "rails      ");
	json_array_foreach(json_object_get(data, "rails"), i, item)
		fprintf(out, " %s", json_string_value(item));
	fprintf(out, "\nlanes       %" PRIu64 ", %s\n",
		mpib_json_num(data, "lanes"),
		mpib_json_str(data, "lanes_mode"));
	fprintf(out, "split       %s", mpib_json_str(data, "mode"));
	if (!strcmp(mpib_json_str(data, "mode"), "static"))
		fprintf(out, ", %" PRIu64 "/1024 to SUP",
			mpib_json_num(data, "sup_bw"));
	fprintf(out, "\n");
	fprintf(out, "clients     %" PRIu64 ", %" PRIu64 " connections\n",
		mpib_json_num(data, "clients"),
		mpib_json_num(data, "connections"));
	print_usage(json_object_get(data, "usage"), out);
	json_array_foreach(json_object_get(data, "shards"), i, item)
		print_shard(i, item, out);
}

void mpib_ctl_print_upgrade(const json_t *data, unsigned width, FILE *out)
{
	const char *state = mpib_json_str(data, "state");
	const char *error = mpib_json_str(data, "error");

	(void)width;
	if (!strcmp(state, "none"))
		fprintf(out, "no upgrade is under way, and this process took "
			     "over from none\n");
	else
		fprintf(out, "the last upgrade: %s%s%s\n", state,
			error[0] ? ", " : "", error);
	fprintf(out, "pid         %" PRIu64 "\n", mpib_json_num(data, "pid"));
	fprintf(out,
		"upgrades    %" PRIu64 " since the start, %" PRIu64
		" of them to take a device back\n",
		mpib_json_num(data, "count"), mpib_json_num(data, "readopted"));
	if (!strcmp(state, "done"))
		fprintf(out, "traffic     stood still for %.1f ms\n",
			mpib_json_real(data, "blackout_s") * 1000);
}
