/* SPDX-License-Identifier: Apache-2.0 */
/* The three tabs: how rows are filled, sorted and printed. */
#include "top/tabs.h"

#include <stdlib.h>
#include <string.h>

#include "ctl/rates.h"
#include "ctl/show/table.h"

static void tabs_set_text(struct top_row *row, unsigned c, const char *text)
{
	snprintf(row->cell[c], sizeof(row->cell[c]), "%s", text);
}

static void set_int(struct top_row *row, unsigned c, double n)
{
	row->key[c] = n;
	snprintf(row->cell[c], sizeof(row->cell[c]), "%.0f", n);
}

static void tabs_set_bytes(struct top_row *row, unsigned c, double n)
{
	row->key[c] = n;
	mpib_human_bytes((uint64_t)n, row->cell[c], sizeof(row->cell[c]));
}

static void set_count(struct top_row *row, unsigned c, double n)
{
	row->key[c] = n;
	mpib_human_count((uint64_t)n, row->cell[c], sizeof(row->cell[c]));
}

/* Show part as a percentage of `of`, or "-" if `of` is 0. */
static void set_share(struct top_row *row, unsigned c, double part, double of)
{
	row->key[c] = of > 0 ? part * 100 / of : -1;
	if (of > 0)
		snprintf(row->cell[c], sizeof(row->cell[c]), "%.0f%%",
			 row->key[c]);
	else
		tabs_set_text(row, c, "-");
}

static const json_t *tabs_rails(const struct top_sample *s)
{
	return s->rails;
}

static const json_t *tabs_clients(const struct top_sample *s)
{
	return s->clients;
}

static const json_t *tabs_conns(const struct top_sample *s)
{
	return json_object_get(s->conns, "open");
}

static double tabs_total(const struct top_span *s, const char *key)
{
	size_t i, from = 0;
	const json_t *r;
	double sum = 0;

	json_array_foreach(s->now.rails, i, r) sum +=
		top_rate(s, mpib_rates_find(s->was.rails, r, &from), r, key);
	return sum;
}

static void fill_rail(const struct top_span *s, const json_t *r,
		      const json_t *was, struct top_row *row)
{
	double tx = top_rate(s, was, r, "tx_bytes");
	double rated = top_num(r, "speed_mbps") * 125000;

	tabs_set_text(row, 0,
		      mpib_json_str(r, json_object_get(r, "label") ? "label"
								   : "name"));
	tabs_set_text(row, 1, mpib_json_str(r, "device"));
	tabs_set_text(row, 2,
		      json_is_true(json_object_get(r, "drained"))
			      ? "drained"
			      : mpib_json_str(r, "state"));
	set_int(row, 3, top_num(r, "qps"));
	tabs_set_bytes(row, 4, tx);
	tabs_set_bytes(row, 5, top_rate(s, was, r, "rx_bytes"));
	set_share(row, 6, tx, tabs_total(s, "tx_bytes"));
	set_share(row, 7, tx, rated);
	set_count(row, 8, top_rate(s, was, r, "tx_wrs"));
	set_count(row, 9, top_num(r, "cqe_errors"));
}

static void fill_client(const struct top_span *s, const json_t *c,
			const json_t *was, struct top_row *row)
{
	double sout = top_rate(s, was, c, "tx_bytes.sout");
	double sup = top_rate(s, was, c, "tx_bytes.sup");

	set_int(row, 0, top_num(c, "id"));
	tabs_set_text(row, 1, mpib_json_str(c, "name"));
	set_int(row, 2, top_num(c, "pid"));
	set_int(row, 3, top_num(c, "uid"));
	set_int(row, 4, top_num(c, "connections"));
	tabs_set_bytes(row, 5, top_num(c, "registered_bytes"));
	tabs_set_bytes(row, 6, sout + sup);
	tabs_set_bytes(row, 7, top_rate(s, was, c, "rx_bytes"));
	set_share(row, 8, sup, sout + sup);
	tabs_set_bytes(row, 9, top_num(c, "tx_bytes"));
}

static void set_ranks(struct top_row *row, unsigned c, const json_t *conn)
{
	const json_t *from = json_object_get(conn, "local_rank");
	const json_t *to = json_object_get(conn, "remote_rank");

	char a[12] = "?", b[12] = "?";

	row->key[c] = json_is_integer(from) ? json_number_value(from) : -1;
	if (json_is_integer(from))
		snprintf(a, sizeof(a), "%.0f", json_number_value(from));
	if (json_is_integer(to))
		snprintf(b, sizeof(b), "%.0f", json_number_value(to));
	if (json_is_integer(from) || json_is_integer(to))
		snprintf(row->cell[c], sizeof(row->cell[c]), "%s>%s", a, b);
	else
		tabs_set_text(row, c, "-");
}

static void fill_conn(const struct top_span *s, const json_t *c,
		      const json_t *was, struct top_row *row)
{
	bool sends = !strcmp(mpib_json_str(c, "direction"), "send");

	set_int(row, 0, top_num(c, "client"));
	set_int(row, 1, top_num(c, "index"));
	tabs_set_text(row, 2, mpib_json_str(c, "direction"));
	tabs_set_text(row, 3, mpib_json_str(c, "peer"));
	set_ranks(row, 4, c);
	tabs_set_bytes(
		row, 5,
		top_rate(s, was, c, sends ? "tx_bytes.sout" : "rx_bytes.sout"));
	tabs_set_bytes(
		row, 6,
		top_rate(s, was, c, sends ? "tx_bytes.sup" : "rx_bytes.sup"));
	set_count(row, 7, top_rate(s, was, c, "messages"));
	set_int(row, 8, top_num(c, "outstanding"));
	set_count(row, 9, top_rate(s, was, c, "stalls"));
}

const struct top_tab top_tabs[TOP_TABS] = {
	{ "rails",
	  { "RAIL", "DEVICE", "STATE", "#QPS", "#TX/s", "#RX/s", "#SHARE",
	    "#RATED", "#WR/s", "#ERR" },
	  10,
	  0,
	  tabs_rails,
	  fill_rail },
	{ "clients",
	  { "#ID", "NAME", "#PID", "#UID", "#CONN", "#MEMORY", "#TX/s", "#RX/s",
	    "#SUP", "#SENT" },
	  10,
	  6,
	  tabs_clients,
	  fill_client },
	{ "connections",
	  { "#CL", "#NO", "DIR", "PEER", "RANKS", "#SOUT/s", "#SUP/s", "#MSG/s",
	    "#REQ", "#STALL/s" },
	  10,
	  5,
	  tabs_conns,
	  fill_conn },
};

struct top_order top_order(const struct top_tab *tab, unsigned column)
{
	return (struct top_order){ column, tab->head[column][0] != '#' };
}

struct sorting {
	const struct top_tab *tab;
	struct top_order order;
};

static int tabs_compare(const void *a, const void *b, void *arg)
{
	const struct top_row *x = a, *y = b;
	const struct sorting *s = arg;
	unsigned c = s->order.column;
	int diff;

	if (s->tab->head[c][0] == '#')
		diff = (x->key[c] > y->key[c]) - (x->key[c] < y->key[c]);
	else
		diff = strcmp(x->cell[c], y->cell[c]);
	if (!s->order.ascending)
		diff = -diff;
	/* Equal rows are ordered by their first two columns, so that they do
	 * not change places between samples. */
	if (diff == 0)
		diff = (x->key[0] > y->key[0]) - (x->key[0] < y->key[0]);
	if (diff == 0)
		diff = (x->key[1] > y->key[1]) - (x->key[1] < y->key[1]);
	return diff;
}

static void make_heads(const struct top_tab *tab, struct top_order order,
		       char text[][16], const char **head)
{
	for (unsigned c = 0; c < tab->columns; c++) {
		snprintf(text[c], sizeof(text[c]), "%s%s", tab->head[c],
			 c != order.column ? ""
			 : order.ascending ? "^"
					   : "v");
		head[c] = text[c];
	}
	head[tab->columns] = NULL;
}

void top_tab_print(const struct top_tab *tab, const struct top_span *s,
		   struct top_order order, unsigned width, FILE *out)
{
	struct sorting sorting = { tab, order };
	const json_t *list = tab->list(&s->now), *item;
	size_t count = json_array_size(list), i, from = 0;
	struct top_row *rows = calloc(count + 1, sizeof(*rows));
	const char *head[TOP_COLUMNS + 1];
	char text[TOP_COLUMNS][16];
	struct mpib_table t;

	if (!rows)
		return;
	json_array_foreach(list, i, item) tab->fill(
		s, item, mpib_rates_find(tab->list(&s->was), item, &from),
		&rows[i]);
	qsort_r(rows, count, sizeof(*rows), tabs_compare, &sorting);
	make_heads(tab, order, text, head);
	mpib_table_init(&t, head);
	for (i = 0; i < count; i++) {
		mpib_table_row(&t);
		for (unsigned c = 0; c < tab->columns; c++)
			mpib_table_set(&t, c, "%s", rows[i].cell[c]);
	}
	mpib_table_print(&t, width, out);
	mpib_table_fini(&t);
	free(rows);
}

/* The percentage of time that the shard threads were busy, averaged. */
static double tabs_busy(const struct top_span *s)
{
	const json_t *now = json_object_get(s->now.info, "shards");
	const json_t *was = json_object_get(s->was.info, "shards");
	double useful = 0;
	const json_t *shard;
	size_t i;

	json_array_foreach(now, i, shard) useful +=
		top_rate(s, json_array_get(was, i), shard, "busy_s");
	return json_array_size(now) > 0
		       ? useful * 100 / (double)json_array_size(now)
		       : 0;
}

void top_summary(const struct top_span *s, char *buf, size_t width)
{
	char tx[16], rx[16];
	unsigned up = (unsigned)top_num(s->now.info, "uptime_s");

	mpib_human_bytes((uint64_t)tabs_total(s, "tx_bytes"), tx, sizeof(tx));
	mpib_human_bytes((uint64_t)tabs_total(s, "rx_bytes"), rx, sizeof(rx));
	snprintf(
		buf, width + 1,
		"mpib %s up %u:%02u:%02u  %.0f clients %.0f conns  tx %s/s  rx "
		"%s/s  busy %.0f%%",
		mpib_json_str(s->now.info, "version"), up / 3600, up / 60 % 60,
		up % 60, top_num(s->now.info, "clients"),
		top_num(s->now.info, "connections"), tx, rx, tabs_busy(s));
}
