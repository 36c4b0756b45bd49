/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/top/tabs.h: rates of two samples made by hand, their order, and 80
 * columns whatever the numbers. */
#include "top/tabs.h"

#include "test.h"

static json_t *parse(const char *text)
{
	json_t *v = json_loads(text, 0, NULL);

	assert_non_null(v);
	return v;
}

/* Two seconds apart; client 2 was not there at first. */
static struct top_span make_span(void)
{
	return (struct top_span){
		.was = { .time = 10,
			 .info = parse("{}"),
			 .rails =
				 parse("[{\"name\":\"SOUT\",\"tx_bytes\":1000},"
				       "{\"name\":\"SUP\",\"tx_bytes\":500}]"),
			 .clients =
				 parse("[{\"id\":1,\"name\":\"a\",\"tx_bytes\""
				       ":{\"sout\":100,\"sup\":0}}]"),
			 .conns = parse("{\"open\":[]}") },
		.now = { .time = 12,
			 .info = parse("{\"version\":\"1\",\"uptime_s\":3723}"),
			 .rails =
				 parse("[{\"name\":\"SOUT\",\"tx_bytes\":1300},"
				       "{\"name\":\"SUP\",\"tx_bytes\":600}]"),
			 .clients =
				 parse("[{\"id\":1,\"name\":\"a\",\"tx_bytes\""
				       ":{\"sout\":120,\"sup\":60}},"
				       "{\"id\":2,\"name\":\"b\",\"tx_bytes\""
				       ":{\"sout\":400,\"sup\":0}}]"),
			 .conns = parse("{\"open\":[]}") },
	};
}

static void free_span(struct top_span *s)
{
	top_sample_free(&s->was);
	top_sample_free(&s->now);
}

static char *print(unsigned tab, const struct top_span *s,
		   struct top_order order)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	top_tab_print(&top_tabs[tab], s, order, 80, f);
	fclose(f);
	return text;
}

static void a_rate_is_growth_by_time(void **state)
{
	struct top_span s = make_span();
	const json_t *was = json_array_get(s.was.rails, 0);
	const json_t *now = json_array_get(s.now.rails, 0);

	assert_true(top_rate(&s, was, now, "tx_bytes") == 150);
	/* What was not there began at nothing; what shrank began anew. */
	assert_true(top_rate(&s, NULL, now, "tx_bytes") == 650);
	assert_true(top_rate(&s, now, was, "tx_bytes") == 0);
	s.was.time = 0;
	assert_true(top_rate(&s, was, now, "tx_bytes") == 0);
	free_span(&s);
}

static void rails_show_rate_and_share(void **state)
{
	struct top_span s = make_span();
	char *text = print(0, &s, top_order(&top_tabs[0], 0));

	assert_non_null(strstr(text, "150 B"));
	assert_non_null(strstr(text, "75%"));
	assert_non_null(strstr(text, "50 B"));
	assert_non_null(strstr(text, "25%"));
	free(text);
	free_span(&s);
}

static void the_largest_come_first_and_the_order_turns(void **state)
{
	struct top_span s = make_span();
	struct top_order order = top_order(&top_tabs[1], 6);
	char *text = print(1, &s, order);

	assert_non_null(strstr(text, "TX/sv"));
	assert_true(strstr(text, " b ") < strstr(text, " a "));
	free(text);
	order.ascending = true;
	text = print(1, &s, order);
	assert_non_null(strstr(text, "TX/s^"));
	assert_true(strstr(text, " a ") < strstr(text, " b "));
	free(text);
	free_span(&s);
}

#define LONG "a-name-that-somebody-has-found-worth-being-so-long"
#define HUGE_BYTES "{\"sout\":1125899906842624,\"sup\":1125899906842624}"

static const char *const large =
	"{\"name\":\"" LONG "\",\"device\":\"" LONG "\",\"state\":\"active\","
	"\"qps\":65536,\"tx_bytes\":" HUGE_BYTES ",\"rx_bytes\":" HUGE_BYTES ","
	"\"tx_wrs\":1e12,\"cqe_errors\":1e12,\"id\":99999,\"pid\":4194304,"
	"\"uid\":65534,\"connections\":1024,\"registered_bytes\":1e18,"
	"\"client\":99999,\"index\":1023,\"direction\":\"send\","
	"\"peer\":\"255.255.255.255:65535\",\"local_rank\":1023,"
	"\"remote_rank\":1022,\"messages\":1e12,\"outstanding\":256,"
	"\"stalls\":{\"cts\":1e12}}";

static void every_tab_fits_80_columns(void **state)
{
	struct top_span s = { .was = { .time = 1 }, .now = { .time = 2 } };
	char line[81];

	s.now.info = parse("{\"version\":\"10.20.30\",\"uptime_s\":1e8,"
			   "\"clients\":1024,\"connections\":65536}");
	s.now.rails = json_pack("[o]", parse(large));
	s.now.clients = json_pack("[o]", parse(large));
	s.now.conns = json_pack("{s[o]}", "open", parse(large));
	json_object_set_new(json_array_get(s.now.rails, 0), "tx_bytes",
			    json_integer(INT64_C(1) << 60));
	for (unsigned i = 0; i < TOP_TABS; i++) {
		char *text = print(i, &s, top_order(&top_tabs[i], 0)), *rest;

		for (char *l = strtok_r(text, "\n", &rest); l;
		     l = strtok_r(NULL, "\n", &rest)) {
			if (strlen(l) > 80)
				fail_msg("%s: %s", top_tabs[i].name, l);
		}
		free(text);
	}
	top_summary(&s, line, 80);
	assert_true(strlen(line) <= 80);
	free_span(&s);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(a_rate_is_growth_by_time),
	cmocka_unit_test(rails_show_rate_and_share),
	cmocka_unit_test(the_largest_come_first_and_the_order_turns),
	cmocka_unit_test(every_tab_fits_80_columns),
	{ 0 },
};
