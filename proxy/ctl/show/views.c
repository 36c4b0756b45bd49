/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/show/views.h"

#include <inttypes.h>
#include <string.h>

#include "ctl/show/stuck.h"
#include "ctl/show/table.h"

#define BUF 16

static uint64_t num(const json_t *o, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(o, key));
}

static const char *str(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

/* Of one rail: {"sout": n, "sup": n}. */
static uint64_t rail_num(const json_t *o, const char *key, const char *rail)
{
	return num(json_object_get(o, key), rail);
}

static uint64_t both_num(const json_t *o, const char *key)
{
	return rail_num(o, key, "sout") + rail_num(o, key, "sup");
}

static void set_bytes(struct mpib_table *t, unsigned column, uint64_t n)
{
	char buf[BUF];

	mpib_table_set(t, column, "%s", mpib_human_bytes(n, buf, sizeof(buf)));
}

static void set_count(struct mpib_table *t, unsigned column, uint64_t n)
{
	char buf[BUF];

	mpib_table_set(t, column, "%s", mpib_human_count(n, buf, sizeof(buf)));
}

static void set_num(struct mpib_table *t, unsigned column, uint64_t n)
{
	mpib_table_set(t, column, "%" PRIu64, n);
}

/* "soft (io_uring)" in a word, as a line has no room for more. */
static const char *engine_of(const char *provider)
{
	static char word[32];
	const char *inner = strchr(provider, '(');

	snprintf(word, sizeof(word), "%s", inner ? inner + 1 : provider);
	word[strcspn(word, ")")] = '\0';
	return word;
}

static void print_rails(const json_t *data, unsigned width, FILE *out)
{
	static const char *const heads[] = { "RAIL", "DEVICE",	"STATE",
					     "#QPS", "#TX",	"#RX",
					     "#WRS", "#ERRORS", "PROVIDER",
					     NULL };
	struct mpib_table t;
	const json_t *r;
	size_t i;

	mpib_table_init(&t, heads);
	json_array_foreach(data, i, r)
	{
		mpib_table_row(&t);
		mpib_table_set(&t, 0, "%s", str(r, "name"));
		mpib_table_set(&t, 1, "%s", str(r, "device"));
		mpib_table_set(&t, 2, "%s",
			       json_is_true(json_object_get(r, "drained"))
				       ? "drained"
				       : str(r, "state"));
		set_num(&t, 3, num(r, "qps"));
		set_bytes(&t, 4, num(r, "tx_bytes"));
		set_bytes(&t, 5, num(r, "rx_bytes"));
		set_count(&t, 6, num(r, "tx_wrs"));
		set_count(&t, 7, num(r, "cqe_errors"));
		mpib_table_set(&t, 8, "%s", engine_of(str(r, "provider")));
	}
	mpib_table_print(&t, width, out);
	mpib_table_fini(&t);
}

static void print_clients(const json_t *data, unsigned width, FILE *out)
{
	static const char *const heads[] = { "#ID",	 "NAME",    "#PID",
					     "#UID",	 "#CONNS",  "#MEMORY",
					     "#TX SOUT", "#TX SUP", "#RX",
					     NULL };
	struct mpib_table t;
	const json_t *c;
	size_t i;

	mpib_table_init(&t, heads);
	json_array_foreach(data, i, c)
	{
		mpib_table_row(&t);
		set_num(&t, 0, num(c, "id"));
		mpib_table_set(&t, 1, "%s", str(c, "name"));
		set_num(&t, 2, num(c, "pid"));
		set_num(&t, 3, num(c, "uid"));
		set_num(&t, 4, num(c, "connections"));
		set_bytes(&t, 5, num(c, "registered_bytes"));
		set_bytes(&t, 6, rail_num(c, "tx_bytes", "sout"));
		set_bytes(&t, 7, rail_num(c, "tx_bytes", "sup"));
		set_bytes(&t, 8, both_num(c, "rx_bytes"));
	}
	mpib_table_print(&t, width, out);
	mpib_table_fini(&t);
}

static void set_rank(struct mpib_table *t, unsigned column, const json_t *rank)
{
	if (json_is_integer(rank))
		mpib_table_set(t, column, "%" JSON_INTEGER_FORMAT,
			       json_integer_value(rank));
	else
		mpib_table_set(t, column, "-");
}

static void add_conn(struct mpib_table *t, const json_t *c)
{
	bool sends = !strcmp(str(c, "direction"), "send");
	const char *bytes = sends ? "tx_bytes" : "rx_bytes";
	const json_t *stalls = json_object_get(c, "stalls");

	mpib_table_row(t);
	set_num(t, 0, num(c, "client"));
	set_num(t, 1, num(c, "index"));
	mpib_table_set(t, 2, "%s", str(c, "direction"));
	mpib_table_set(t, 3, "%s", str(c, "peer"));
	set_rank(t, 4, json_object_get(c, "local_rank"));
	set_rank(t, 5, json_object_get(c, "remote_rank"));
	set_bytes(t, 6, rail_num(c, bytes, "sout"));
	set_bytes(t, 7, rail_num(c, bytes, "sup"));
	set_count(t, 8, num(c, "messages"));
	set_count(t, 9,
		  num(stalls, "cts") + num(stalls, "slot") + num(stalls, "sq"));
}

static void print_conns(const json_t *data, unsigned width, FILE *out)
{
	static const char *const heads[] = { "#CLIENT", "#CONN", "DIR",
					     "PEER",	"#RANK", "#TO",
					     "#SOUT",	"#SUP",	 "#MSGS",
					     "#STALLS", NULL };
	const json_t *closed = json_object_get(data, "closed");
	const json_t *c;
	struct mpib_table t;
	size_t i;

	mpib_table_init(&t, heads);
	json_array_foreach(json_object_get(data, "open"), i, c) add_conn(&t, c);
	for (i = 0; i < 2; i++) {
		const char *bytes = i ? "rx_bytes" : "tx_bytes";

		mpib_table_row(&t);
		mpib_table_set(&t, 0, "-");
		mpib_table_set(&t, 1, "-");
		mpib_table_set(&t, 2, "%s", i ? "recv" : "send");
		mpib_table_set(&t, 3, "(closed)");
		set_bytes(&t, 6, rail_num(closed, bytes, "sout"));
		set_bytes(&t, 7, rail_num(closed, bytes, "sup"));
	}
	mpib_table_print(&t, width, out);
	mpib_table_fini(&t);
}

static void set_spread(struct mpib_table *t, unsigned column, const json_t *o)
{
	mpib_table_set(t, column, "%s",
		       str(json_object_get(o, "spread"), "mode"));
}

static void print_lanes(const json_t *data, unsigned width, FILE *out)
{
	static const char *const heads[] = { "PEER",  "#UID",	  "#SHARD",
					     "#IMM",  "#CONNS",	  "#QPS",
					     "STATE", "#TX SOUT", "#TX SUP",
					     "#RX",   NULL };
	struct mpib_table t;
	const json_t *l;
	size_t i;

	mpib_table_init(&t, heads);
	json_array_foreach(data, i, l)
	{
		const json_t *broken = json_object_get(l, "broken");

		mpib_table_row(&t);
		mpib_table_set(&t, 0, "%s", str(l, "peer"));
		set_num(&t, 1, num(l, "uid"));
		set_num(&t, 2, num(l, "shard"));
		mpib_table_set(&t, 3, "v%" PRIu64, num(l, "imm"));
		set_num(&t, 4, num(l, "connections"));
		mpib_table_set(&t, 5, "%" PRIu64 "+%" PRIu64,
			       rail_num(l, "qps", "sout"),
			       rail_num(l, "qps", "sup"));
		/* Up, it is of more use how. */
		if (json_is_true(broken))
			mpib_table_set(&t, 6, "broken");
		else
			set_spread(&t, 6, l);
		set_bytes(&t, 7, rail_num(l, "tx_bytes", "sout"));
		set_bytes(&t, 8, rail_num(l, "tx_bytes", "sup"));
		set_bytes(&t, 9, both_num(l, "rx_bytes"));
	}
	mpib_table_print(&t, width, out);
	mpib_table_fini(&t);
}

static void print_peers(const json_t *data, unsigned width, FILE *out)
{
	static const char *const heads[] = { "PEER", "#LANES", "#CONNS", "#QPS",
					     "#TX",  "#RX",    NULL };
	struct mpib_table t;
	const json_t *p;
	size_t i;

	mpib_table_init(&t, heads);
	json_array_foreach(data, i, p)
	{
		mpib_table_row(&t);
		mpib_table_set(&t, 0, "%s", str(p, "peer"));
		set_num(&t, 1, num(p, "lanes"));
		set_num(&t, 2, num(p, "connections"));
		set_num(&t, 3, both_num(p, "qps"));
		set_bytes(&t, 4, both_num(p, "tx_bytes"));
		set_bytes(&t, 5, both_num(p, "rx_bytes"));
	}
	mpib_table_print(&t, width, out);
	mpib_table_fini(&t);
}

static void set_age(struct mpib_table *t, unsigned column, double s)
{
	if (s < 100)
		mpib_table_set(t, column, "%.1f s", s);
	else if (s < 6000)
		mpib_table_set(t, column, "%.0f min", s / 60);
	else
		mpib_table_set(t, column, "%.0f h", s / 3600);
}

/* SOUT's and SUP's. */
static void set_rtt(struct mpib_table *t, unsigned column, const json_t *c)
{
	static const char *const rail[] = { "sout", "sup" };
	const json_t *rails = json_object_get(c, "rails");
	char us[2][24] = { "-", "-" };

	for (unsigned r = 0; r < 2; r++) {
		uint64_t ns = num(json_object_get(rails, rail[r]), "rtt_ns");

		if (ns)
			snprintf(us[r], sizeof(us[r]), "%" PRIu64,
				 (ns + 500) / 1000);
	}
	mpib_table_set(t, column, "%s/%s", us[0], us[1]);
}

static void print_why(const json_t *data, unsigned width, FILE *out)
{
	static const char *const heads[] = { "CONN",	"PEER",	  "#SUP/1024",
					     "SOURCE",	"#FOR",	  "PATH",
					     "#RTT US", "SPREAD", NULL };
	struct mpib_table t;
	const json_t *c;
	size_t i;

	mpib_table_init(&t, heads);
	json_array_foreach(data, i, c)
	{
		bool waits = !strcmp(str(c, "source"), "hint") &&
			     !json_is_integer(json_object_get(c, "hint_slot"));

		mpib_table_row(&t);
		mpib_table_set(&t, 0, "%" PRIu64 ".%" PRIu64, num(c, "client"),
			       num(c, "index"));
		mpib_table_set(&t, 1, "%s", str(c, "peer"));
		set_num(&t, 2, num(c, "sup_bw"));
		mpib_table_set(&t, 3, "%s",
			       waits ? "no hint" : str(c, "source"));
		set_age(&t, 4, json_number_value(json_object_get(c, "age_s")));
		mpib_table_set(&t, 5, "%s", str(c, "path"));
		set_rtt(&t, 6, c);
		set_spread(&t, 7, c);
	}
	mpib_table_print(&t, width, out);
	mpib_table_fini(&t);
}

static void print_ledger(const json_t *ledger, FILE *out)
{
	char registered[BUF], mapped[BUF];

	mpib_human_bytes(num(ledger, "registered_bytes"), registered,
			 sizeof(registered));
	mpib_human_bytes(num(ledger, "mapped_bytes"), mapped, sizeof(mapped));
	fprintf(out,
		"held        %" PRIu64 " clients (%" PRIu64
		" leaving), %" PRIu64 " regions of %s, %s mapped\n",
		num(ledger, "attached"), num(ledger, "leaving"),
		num(ledger, "regions"), registered, mapped);
}

static void print_shard(size_t i, const json_t *s, FILE *out)
{
	uint64_t turns = num(s, "turns");
	double busy = 0;
	char buf[BUF];

	if (turns)
		busy = (double)num(s, "busy_turns") * 100 / (double)turns;
	fprintf(out,
		"shard %-5zu %s turns, %.1f %% busy, %" PRIu64
		" sleeps, %" PRIu64 " clients\n",
		i, mpib_human_count(turns, buf, sizeof(buf)), busy,
		num(s, "sleeps"), num(s, "clients"));
}

static void print_info(const json_t *data, unsigned width, FILE *out)
{
	const json_t *item;
	size_t i;

	(void)width;
	fprintf(out,
		"mpib-proxy  %s, ABI %" PRIu64 ", pid %" PRIu64 ", up %.0f s\n",
		str(data, "version"), num(data, "abi"), num(data, "pid"),
		json_real_value(json_object_get(data, "uptime_s")));
	fprintf(out, "run dir     %s\n", str(data, "run_dir"));
	fprintf(out, "peer link   %s\n", str(data, "peer_link"));
	fprintf(out, "rails      ");
	json_array_foreach(json_object_get(data, "rails"), i, item)
		fprintf(out, " %s", json_string_value(item));
	fprintf(out, "\nlanes       %" PRIu64 ", %s\n", num(data, "lanes"),
		str(data, "lanes_mode"));
	fprintf(out, "split       %s", str(data, "mode"));
	if (!strcmp(str(data, "mode"), "static"))
		fprintf(out, ", %" PRIu64 "/1024 to SUP", num(data, "sup_bw"));
	fprintf(out, "\n");
	fprintf(out, "clients     %" PRIu64 ", %" PRIu64 " connections\n",
		num(data, "clients"), num(data, "connections"));
	print_ledger(json_object_get(data, "ledger"), out);
	json_array_foreach(json_object_get(data, "shards"), i, item)
		print_shard(i, item, out);
}

static void print_config(const json_t *data, unsigned width, FILE *out)
{
	static const char *const heads[] = { "SETTING", "VALUE", "ORIGIN",
					     NULL };
	struct mpib_table t;
	const json_t *s;
	size_t i;

	mpib_table_init(&t, heads);
	json_array_foreach(data, i, s)
	{
		mpib_table_row(&t);
		mpib_table_set(&t, 0, "%s.%s", str(s, "section"),
			       str(s, "key"));
		mpib_table_set(&t, 1, "%s", str(s, "value"));
		mpib_table_set(&t, 2, "%s", str(s, "origin"));
	}
	mpib_table_print(&t, width, out);
	mpib_table_fini(&t);
}

const struct mpib_ctl_view mpib_ctl_views[] = {
	{ "rails", NULL, print_rails },
	{ "clients", NULL, print_clients },
	{ "conns", "open", print_conns },
	{ "lanes", NULL, print_lanes },
	{ "peers", NULL, print_peers },
	{ "info", NULL, print_info },
	{ "config", NULL, print_config },
	{ "hist", NULL, mpib_ctl_print_hist },
	{ "stuck", "requests", mpib_ctl_print_stuck },
	{ "why", NULL, print_why },
	{ "events", "events", mpib_ctl_print_events },
};

const unsigned mpib_ctl_view_count =
	sizeof(mpib_ctl_views) / sizeof(mpib_ctl_views[0]);

const struct mpib_ctl_view *mpib_ctl_view(const char *noun)
{
	for (unsigned i = 0; i < mpib_ctl_view_count; i++) {
		if (!strcmp(mpib_ctl_views[i].noun, noun))
			return &mpib_ctl_views[i];
	}
	return NULL;
}
