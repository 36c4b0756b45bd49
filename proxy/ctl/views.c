/* SPDX-License-Identifier: Apache-2.0 */
/* mpibctl's tables: one view per noun, each a list of columns. */
#include "ctl/views.h"

#include <string.h>

#include "base/clock.h"
#include "ctl/commands.h"

static const struct mpib_column rails[] = {
	SHOWN("RAIL", "{label|name}"),
	SHOWN("DEVICE", "{device}"),
	SHOWN("STATE", "{drained|state}[ ({standby})][: {drain_why}]"),
	RATES("#TX Gb/s", "{tx_gbps:rate}"),
	RATES("#RX Gb/s", "{rx_gbps:rate}"),
	SHOWN("#QPS", "{qps}"),
	SHOWN("#TX", "{tx_bytes:bytes}"),
	SHOWN("#RX", "{rx_bytes:bytes}"),
	NO_RATES("#WRS", "{tx_wrs:count}"),
	SHOWN("#ERRORS", "{cqe_errors:count}"),
	NO_RATES("PROVIDER", "{provider:inner}"),
	WIDE("#Gb/s", "{speed_mbps:gbps}[ of {expected_mbps:gbps}]"),
	WIDE("#MTU", "{mtu}"),
	WIDE("GID", "{gid}"),
	WIDE("#DOWNS", "{downs}"),
	WIDE("#FAILOVERS", "{failovers}"),
	WIDE("#REPLAYED", "{replayed_bytes:bytes}"),
	WIDE("#RETRIES", "{retries}"),
	{ 0 },
};

static const struct mpib_column devices[] = {
	SHOWN("#NO", "{index}"),
	SHOWN("NAME", "{net}"),
	/* The state first: the end of a long device name is cut. */
	SHOWN("SOUT", "[{rails.0.state}{?rails.0.down} ]{rails.0.device}"),
	SHOWN("SUP", "[{rails.1.state}{?rails.1.down} ][{rails.1.standby} ]"
		     "{rails.1.device}"),
	SHOWN("PCI", "{rails.0.pci|=-}"),
	SHOWN("#CLIENTS", "{clients}"),
	SHOWN("!BECAUSE", "{why}"),
	{ 0 },
};

/* A job's name is the label from the launcher, else NCCL's number. */
static const struct mpib_column jobs[] = {
	SHOWN("JOB", "{label|job_id}"),
	SHOWN("#UID", "{uid}"),
	SHOWN("#CLIENTS", "{attached}/{clients}"),
	SHOWN("#BEGAN", "{began:date}"),
	SHOWN("#ENDED", "{ended:date}"),
	SHOWN("#TX", "{tx_bytes:bytes}"),
	SHOWN("#RX", "{rx_bytes:bytes}"),
	WIDE("#AGAIN", "{replayed_bytes:bytes}"),
	WIDE("#MESSAGES", "{messages:count}"),
	{ 0 },
};

static const struct mpib_column clients[] = {
	SHOWN("#ID", "{id}"),
	SHOWN("NAME", "{name}"),
	SHOWN("#PID", "{pid}"),
	SHOWN("#UID", "{uid}"),
	SHOWN("#CONNS", "{connections}"),
	RATES("#TX Gb/s", "{tx_gbps:rate}"),
	RATES("#RX Gb/s", "{rx_gbps:rate}"),
	NO_RATES("#MEMORY", "{registered_bytes:bytes}"),
	SHOWN("#TX SOUT", "{tx_bytes.sout:bytes}"),
	SHOWN("#TX SUP", "{tx_bytes.sup:bytes}"),
	NO_RATES("#RX", "{rx_bytes:bytes}"),
	WIDE("NET", "{net}"),
	WIDE("STATE", "{state}"),
	WIDE("JOB", "{label|job_id}"),
	WIDE("#REGIONS", "{regions}"),
	WIDE("#MESSAGES", "{messages:count}"),
	WIDE("#COPIED", "{copied_bytes:bytes}"),
	WIDE("#STALLS", "{stalls:count}"),
	{ 0 },
};

/* A connection has bytes in one direction only. */
static const struct mpib_column conns[] = {
	SHOWN("#CLIENT", "{client}"),
	SHOWN("#CONN", "{index}"),
	SHOWN("DIR", "{direction}"),
	SHOWN("PEER", "{peer}"),
	SHOWN("#RANK", "{local_rank}"),
	SHOWN("#TO", "{remote_rank}"),
	NO_RATES("#SOUT", "{tx_bytes.sout|rx_bytes.sout:bytes}"),
	NO_RATES("#SUP", "{tx_bytes.sup|rx_bytes.sup:bytes}"),
	SHOWN("#MSGS", "{messages:count}"),
	SHOWN("#STALLS", "{stalls:count}"),
	RATES("#TX Gb/s", "{tx_gbps:rate}"),
	RATES("#RX Gb/s", "{rx_gbps:rate}"),
	WIDE("NET", "{net}"),
	WIDE("#WAITING", "{outstanding}"),
	{ 0 },
};

static const char *const conns_below[] = {
	"[closed connections sent {closed.tx_bytes:bytes}]"
	"[, {closed.tx_bytes.sup:bytes} of it over SUP]",
	"[closed connections received {closed.rx_bytes:bytes}]"
	"[, {closed.rx_bytes.sup:bytes} of it over SUP]",
	NULL,
};

static const struct mpib_column lanes[] = {
	SHOWN("PEER", "{peer}"),
	SHOWN("NET", "{net}"),
	WIDE("TO SOUT", "{to.sout}"),
	WIDE("TO SUP", "{to.sup}"),
	WIDE("#UID", "{uid}"),
	WIDE("#SHARD", "{shard}"),
	WIDE("#IMM", "v{imm}"),
	SHOWN("#CONNS", "{connections}"),
	SHOWN("#QPS", "{qps.sout}+{qps.sup}"),
	SHOWN("STATE", "{broken|spread.mode}"),
	SHOWN("#TX SOUT", "{tx_bytes.sout:bytes}"),
	SHOWN("#TX SUP", "{tx_bytes.sup:bytes}"),
	SHOWN("#RX", "{rx_bytes:bytes}"),
	{ 0 },
};

static const struct mpib_column peers[] = {
	SHOWN("PEER", "{peer}"),
	SHOWN("#LANES", "{lanes}"),
	SHOWN("#CONNS", "{connections}"),
	SHOWN("#QPS", "{qps}"),
	SHOWN("#TX", "{tx_bytes:bytes}"),
	SHOWN("#RX", "{rx_bytes:bytes}"),
	RATES("#TX Gb/s", "{tx_gbps:rate}"),
	RATES("#RX Gb/s", "{rx_gbps:rate}"),
	SHOWN("!STATE", "[refused {refused.count} times: {refused.why}]"),
	{ 0 },
};

static const struct mpib_column cluster[] = {
	SHOWN("PEER", "{peer}"),
	SHOWN("HOST", "{host}"),
	WIDE("VERSION", "{version}"),
	SHOWN("#UP", "{rails_up}/{rails_all}"),
	SHOWN("#Gb/s", "{speed_mbps:gbps}[/{expected_mbps:gbps}]"),
	WIDE("#CONNS", "{connections:count}"),
	SHOWN("#ERRORS", "{errors:count}"),
	WIDE("#FAILOVERS", "{failovers:count}"),
	SHOWN("#STUCK", "{stuck:count}"),
	SHOWN("#AGE", "{age_s:s}"),
	SHOWN("!STATE", "{faults|notes|=well}[ ({differs})]"
			"[ ({notes}{?faults})]"),
	{ 0 },
};

static const char *const cluster_below[] = {
	"nodes: {well} well, {faulty} faulty; answers took {took_s:ms}",
	NULL,
};

static const struct mpib_column cluster_jobs[] = {
	SHOWN("JOB", "{name}"),		  SHOWN("#UID", "{uid}"),
	SHOWN("#NODES", "{nodes}"),	  SHOWN("#CLIENTS", "{clients}"),
	SHOWN("#TX", "{tx_bytes:bytes}"), SHOWN("#RX", "{rx_bytes:bytes}"),
	SHOWN("!ON", "{hosts}"),	  { 0 },
};

static const struct mpib_column cluster_stuck[] = {
	SHOWN("HOST", "{host}"),	SHOWN("#AGE", "{age_s:s}"),
	SHOWN("DIR", "{direction}"),	SHOWN("#PID", "{pid}"),
	SHOWN("#RANK", "{local_rank}"), SHOWN("#TO", "{remote_rank}"),
	SHOWN("PEER", "{peer}"),	SHOWN("LAST", "{last}"),
	SHOWN("JOB", "{job}"),		{ 0 },
};

/* Return the name of a node's host. */
static json_t *node_host(const json_t *node)
{
	const char *host = mpib_json_str(node, "host");

	return json_string(*host ? host : mpib_json_str(node, "peer"));
}

static int older_first(const void *a, const void *b)
{
	double x = mpib_json_real(*(json_t *const *)a, "age_s");
	double y = mpib_json_real(*(json_t *const *)b, "age_s");

	return (x < y) - (x > y);
}

static json_t *make_cluster_stuck(const json_t *answer)
{
	json_t *rows = json_array(), *node, *wait;
	size_t i, k;

	json_array_foreach(json_object_get(answer, "nodes"), i, node)
	{
		json_array_foreach(json_object_get(node, "waiting"), k, wait)
		{
			json_object_set_new(wait, "host", node_host(node));
			json_array_append(rows, wait);
		}
	}
	mpib_rows_sort(rows, older_first);
	return rows;
}

/* Return the row of the job; add one if there is none. */
static json_t *job_row(json_t *rows, const json_t *job)
{
	json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		if (!strcmp(mpib_json_str(row, "name"),
			    mpib_json_str(job, "name")) &&
		    mpib_json_num(row, "uid") == mpib_json_num(job, "uid"))
			return row;
	}
	row = json_pack("{ss sI s[]}", "name", mpib_json_str(job, "name"),
			"uid", (json_int_t)mpib_json_num(job, "uid"), "hosts");
	json_array_append_new(rows, row);
	return row;
}

static void add_to(json_t *row, const json_t *job, const char *key)
{
	uint64_t sum = mpib_json_num(row, key) + mpib_json_num(job, key);

	json_object_set_new(row, key, json_integer((json_int_t)sum));
}

static json_t *make_cluster_jobs(const json_t *answer)
{
	static const char *const sums[] = { "clients", "tx_bytes", "rx_bytes" };
	json_t *rows = json_array(), *node, *job;
	size_t i, k;

	json_array_foreach(json_object_get(answer, "nodes"), i, node)
	{
		json_array_foreach(json_object_get(node, "jobs"), k, job)
		{
			json_t *row = job_row(rows, job);
			json_t *hosts = json_object_get(row, "hosts");

			json_array_append_new(hosts, node_host(node));
			json_object_set_new(
				row, "nodes",
				json_integer(
					(json_int_t)json_array_size(hosts)));
			for (unsigned n = 0; n < 3; n++)
				add_to(row, job, sums[n]);
		}
	}
	return rows;
}

static const struct mpib_column shards[] = {
	SHOWN("#SHARD", "{shard}"),
	SHOWN("NET", "{net}"),
	SHOWN("#TURNS", "{turns:count}"),
	SHOWN("#BUSY", "{busy:percent}"),
	SHOWN("#SLEEPS", "{sleeps:count}"),
	SHOWN("#CLIENTS", "{clients}"),
	{ 0 },
};

static const char *const summary_above[] = {
	("mpib-proxy {version} on {host}, pid {pid}, up {uptime_s:age}: {clients} clients, "
	 "{connections} connections, {lanes} lanes"),
	"[{waiting} requests hang (see mpibctl stuck)]",
	NULL,
};

static const char *const info_above[] = {
	"mpib-proxy  {version}, ABI {abi}, pid {pid}, up {uptime_s:age}",
	"run dir     {run_dir}",
	"peer link   {peer_link}",
	"rails       {rails: }",
	"lanes       {lanes}, {lanes_mode}",
	"split       {mode}[, {sup_bw}/1024 to SUP]",
	"clients     {clients}, {connections} connections",
	("held        {usage.attached} clients ({usage.leaving} leaving), "
	 "{usage.regions} regions of {usage.registered_bytes:bytes}, "
	 "{usage.mapped_bytes:bytes} mapped"),
	NULL,
};

static const struct mpib_column config[] = {
	SHOWN("SETTING", "{section}.{key}"),
	SHOWN("VALUE", "{value}"),
	SHOWN("ORIGIN", "{origin}"),
	{ 0 },
};

static const struct mpib_column counters[] = {
	SHOWN("RAIL", "{rail}"),
	SHOWN("COUNTER", "{counter}"),
	SHOWN("#VALUE", "{value}"),
	{ 0 },
};

static const struct mpib_column history[] = {
	SHOWN("#TIME", "{time:time}"),
	SHOWN("#TX SOUT", "{sout.tx_gbps:rate}"),
	SHOWN("#RX SOUT", "{sout.rx_gbps:rate}"),
	SHOWN("#TX SUP", "{sup.tx_gbps:rate}"),
	SHOWN("#RX SUP", "{sup.rx_gbps:rate}"),
	SHOWN("#ERRORS", "{errors}"),
	SHOWN("#OLDEST", "{oldest_s:age}"),
	WIDE("#CLIENTS", "{clients}"),
	SHOWN("!DOWN, JOBS", "[{down: } down  ][{jobs}]"),
	{ 0 },
};

/* The table has requests first, then connections that are still being set
 * up. */
static const struct mpib_column stuck[] = {
	SHOWN("#AGE", "{age_s:s}"),	SHOWN("DIR", "{direction}"),
	SHOWN("#PID", "{pid}"),		SHOWN("#RANK", "{local_rank}"),
	SHOWN("#TO", "{remote_rank}"),	SHOWN("PEER", "{peer}"),
	SHOWN("RAILS", "{rails|=-:+}"), SHOWN("LAST", "{last|=not connected}"),
	SHOWN("JOB", "{job_id}"),	{ 0 },
};

static const char *const and_more[] = { "[and {more} more]", NULL };

static const struct mpib_column why[] = {
	SHOWN("CONN", "{client}.{index}"),
	SHOWN("PEER", "{peer}"),
	SHOWN("#SUP/1024", "{sup_bw}"),
	SHOWN("SOURCE", "{source}"),
	SHOWN("#FOR", "{age_s:age}"),
	SHOWN("PATH", "{path}"),
	SHOWN("#RTT US", "{rails.sout.rtt_ns:us}/{rails.sup.rtt_ns:us}"),
	WIDE("SPREAD", "{spread.mode}"),
	SHOWN("!AGENT", "{agent.why}"),
	{ 0 },
};

static const struct mpib_column agent_rails[] = {
	SHOWN("RAIL", "{rail}"),
	SHOWN("STATE", "{state}"),
	SHOWN("#FOR", "{since:since}"),
	SHOWN("!WHY", "{why}"),
	{ 0 },
};

static const char *const agent_above[] = {
	"pid {pid}, by {config|=its command line}",
	"[dry run: nothing is steered{?dry_run}]",
	"[not reloaded: {fault}]",
	"[timed drains: {windows}]",
	NULL,
};

static const char *const events_above[] = {
	"[({lost} older events were discarded)]",
	NULL,
};

static const struct mpib_column events[] = {
	SHOWN("#NO", "{seq}"),
	SHOWN("#TIME", "{time:time}"),
	SHOWN("LEVEL", "{level}"),
	SHOWN("!EVENT", "{text}"),
	{ 0 },
};

static void print_lines(const char *const *line, const json_t *data, FILE *out)
{
	for (; line && *line; line++) {
		char text[1024];

		mpib_fill_in(text, sizeof(text), *line, data);
		if (text[0])
			fprintf(out, "%s\n", text);
	}
}

static void print_hist(const json_t *data, unsigned width, FILE *out);

static const struct mpib_ctl_view views[] = {
	{ "summary", .above = summary_above },
	{ "rails", .columns = rails },
	{ "devices", .columns = devices },
	{ "jobs", .columns = jobs },
	{ "clients", .columns = clients },
	{ "conns", .rows = "open", .columns = conns, .below = conns_below },
	{ "lanes", .columns = lanes },
	{ "peers", .columns = peers },
	{ "cluster", .rows = "nodes", .faulty = "faulty", .columns = cluster,
	  .below = cluster_below },
	{ "cluster jobs", .make = make_cluster_jobs, .columns = cluster_jobs },
	{ "cluster stuck", .make = make_cluster_stuck,
	  .columns = cluster_stuck },
	{ "info", .table = "shards", .above = info_above, .columns = shards },
	{ "config", .columns = config },
	{ "hist", .print = print_hist },
	{ "counters", .but = "value", .columns = counters },
	{ "history", .rows = "samples", .columns = history },
	{ "stuck", .rows = "requests", .more = "connecting", .columns = stuck,
	  .below = and_more },
	{ "why", .columns = why },
	{ "agent", .rows = "rails", .above = agent_above,
	  .columns = agent_rails },
	{ "events", .rows = "events", .above = events_above,
	  .columns = events },
};

const struct mpib_ctl_view *
mpib_ctl_view_of(const struct mpib_ctl_command *command)
{
	char name[64];

	snprintf(name, sizeof(name), "%s%s%s", command->noun,
		 command->bare ? "" : " ", command->bare ? "" : command->verb);
	return mpib_ctl_view(name);
}

const struct mpib_ctl_view *mpib_ctl_view(const char *noun)
{
	for (unsigned i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
		if (!strcmp(views[i].noun, noun))
			return &views[i];
	}
	return NULL;
}

bool mpib_ctl_view_rates(const struct mpib_ctl_view *view)
{
	const struct mpib_column *c = view ? view->columns : NULL;

	while (c && c->head && c->when != MPIB_WHEN_RATES)
		c++;
	return c && c->head;
}

void mpib_ctl_view_print(const struct mpib_ctl_view *view, const json_t *data,
			 unsigned width, FILE *out)
{
	const char *rows = view->table ? view->table : view->rows;

	print_lines(view->above, data, out);
	if (view->columns)
		mpib_rows_print(view->columns,
				rows ? json_object_get(data, rows) : data,
				view->more ? json_object_get(data, view->more)
					   : NULL,
				view->but, width, out);
	print_lines(view->below, data, out);
	if (view->print)
		view->print(data, width, out);
}

/* Output of mpibctl that is not a table: histograms as bars. */

#define BAR 40

#define TIMES                                                                  \
	SHOWN("#COUNT", "{count:count}"), SHOWN("#P50", "{p50_ns:ns}"),        \
		SHOWN("#P90", "{p90_ns:ns}"), SHOWN("#P99", "{p99_ns:ns}"),    \
		SHOWN("#P99.9", "{p999_ns:ns}"), SHOWN("#MAX", "{max_ns:ns}")

static const struct mpib_column hists[] = {
	SHOWN("HISTOGRAM", "{name}"),
	TIMES,
	{ 0 },
};

static const struct mpib_column hist_conns[] = {
	SHOWN("CONNECTION", "{client}/{index} {peer}"),
	TIMES,
	{ 0 },
};

static void print_bars(const json_t *buckets, FILE *out)
{
	const json_t *b;
	double most = 1;
	size_t i;

	json_array_foreach(buckets, i, b)
	{
		double n = json_number_value(json_array_get(b, 1));

		most = n > most ? n : most;
	}
	json_array_foreach(buckets, i, b)
	{
		const json_t *above = json_array_get(b, 0);
		double n = json_number_value(json_array_get(b, 1));
		int len = (int)(n * BAR / most + 0.5);
		char text[16] = "more", count[16];

		if (json_is_number(above))
			mpib_human_duration(json_number_value(above), text,
					    sizeof(text));
		fprintf(out, "< %8s  %7s  %.*s\n", text,
			mpib_human_count((uint64_t)n, count, sizeof(count)),
			len < 1 ? 1 : len,
			"########################################");
	}
}

static void print_hist(const json_t *data, unsigned width, FILE *out)
{
	const json_t *list = json_object_get(data, "connections");
	json_t *one;

	if (json_is_array(data)) {
		mpib_rows_print(hists, data, NULL, NULL, width, out);
		return;
	}
	one = json_pack("[O]", data);
	mpib_rows_print(hists, one, NULL, NULL, width, out);
	json_decref(one);
	fputc('\n', out);
	print_bars(json_object_get(data, "buckets"), out);
	if (json_array_size(list) > 0) {
		fputc('\n', out);
		mpib_rows_print(hist_conns, list, NULL, NULL, width, out);
	}
}

/* Compute rates of rails, clients, connections and peers from two answers. */

/* Return whether both rows are about the same object. */
static bool rates_same(const json_t *a, const json_t *b)
{
	static const char *const keys[] = { "label", "name",	 "id",
					    "pid",   "client",	 "index",
					    "peer",  "direction" };

	for (unsigned i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const json_t *x = json_object_get(a, keys[i]);
		const json_t *y = json_object_get(b, keys[i]);

		if (x != y && !json_equal(x, y))
			return false;
	}
	return true;
}

/* Return the row in `was` that is about the same object as `row`, or NULL. Rows
 * keep their order between answers, so the search starts at *from: 0 at first,
 * then the index after the last row that was found. */
static const json_t *rates_find(const json_t *was, const json_t *row,
				size_t *from)
{
	size_t n = json_array_size(was);

	for (size_t i = 0; i < n; i++) {
		size_t at = (*from + i) % n;

		if (rates_same(json_array_get(was, at), row)) {
			*from = at + 1;
			return json_array_get(was, at);
		}
	}
	return NULL;
}

static json_t *rates_one(const json_t *now, const json_t *was, const char *key,
			 double seconds)
{
	double more = mpib_json_real(now, key) - mpib_json_real(was, key);

	if (seconds <= 0 || more < 0)
		return json_null();
	return json_real(more * 8 / 1e9 / seconds);
}

json_t *mpib_ctl_view_rows(const struct mpib_ctl_view *view, json_t *data)
{
	return view && view->rows ? json_object_get(data, view->rows) : data;
}

void mpib_answer_put(struct mpib_answer *a, const struct mpib_ctl_view *view,
		     json_t *data)
{
	const json_t *was = a->data ? mpib_ctl_view_rows(view, a->data) : NULL;
	uint64_t now = mpib_now_ns();
	double seconds = was ? (double)(now - a->at) / 1e9 : 0;
	json_t *row;
	size_t i, from = 0;

	json_array_foreach(mpib_ctl_view_rows(view, data), i, row)
	{
		const json_t *old = rates_find(was, row, &from);

		json_object_set_new(row, "tx_gbps",
				    rates_one(row, old, "tx_bytes", seconds));
		json_object_set_new(row, "rx_gbps",
				    rates_one(row, old, "rx_bytes", seconds));
	}
	json_decref(a->data);
	*a = (struct mpib_answer){ data, now };
}
