/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/ctl/views.h: every noun fits 80 columns, whatever the numbers, and
 * bears an answer without a field. */
#include "ctl/table.h"
#include "ctl/views.h"

#include "test.h"

#define LONG_TEXT "a-name-that-somebody-has-found-worth-being-so-long"
#define BYTES "{\"sout\": 1152921504606846976, \"sup\": 1099511627776}"

/* All fields of all nouns at once. */
static const char *const entry =
	"{\"name\": \"" LONG_TEXT "\", \"device\": \"" LONG_TEXT "\","
	"\"state\": \"active\", \"provider\": \"soft (io_uring)\","
	"\"qps\": 65536, \"tx_bytes\": 1152921504606846976,"
	"\"rx_bytes\": 1152921504606846976, \"tx_wrs\": 123456789,"
	"\"cqe_errors\": 123456789}";
static const char *const peer_entry =
	"{\"id\": 12345, \"client\": 12345, \"name\": \"" LONG_TEXT "\","
	"\"index\": 1023, \"direction\": \"send\","
	"\"peer\": \"255.255.255.255:65535\", \"pid\": 4194304, \"uid\": 65534,"
	"\"shard\": 15, \"imm\": 2, \"connections\": 1024, \"lanes\": 1024,"
	"\"registered_bytes\": 1152921504606846976, \"local_rank\": 1023,"
	"\"remote_rank\": 1023, \"messages\": 123456789, \"broken\": true,"
	"\"stalls\": {\"cts\": 123456000, \"window\": 789},"
	"\"qps\": {\"sout\": 16, \"sup\": 16},"
	"\"tx_bytes\": " BYTES ", \"rx_bytes\": " BYTES "}";

static char *print(const char *noun, const json_t *data)
{
	const struct mpib_ctl_view *view = mpib_ctl_view(noun);
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(view);
	mpib_ctl_view_print(view, data, 80, f);
	fclose(f);
	return text;
}

static void assert_fits(const char *noun, json_t *data)
{
	char *text = print(noun, data), *line, *rest;

	json_decref(data);
	for (line = strtok_r(text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		if (strlen(line) > 80)
			fail_msg("%s is too wide: %s", noun, line);
	}
	free(text);
}

static json_t *list(const char *text)
{
	json_t *o = json_loads(text, 0, NULL);

	assert_non_null(o);
	return json_pack("[oO]", o, o);
}

static void every_noun_fits_80_columns(void **state)
{
	assert_fits("rails", list(entry));
	assert_fits("clients", list(peer_entry));
	assert_fits("lanes", list(peer_entry));
	assert_fits("peers", list(peer_entry));
	assert_fits("conns",
		    json_pack("{so s{}}", "open", list(peer_entry), "closed"));
	assert_fits("why",
		    list("{\"client\": 12345, \"index\": 1023,"
			 "\"peer\": \"255.255.255.255:65535\","
			 "\"sup_bw\": 1024, \"source\": \"isolation\","
			 "\"path\": \"intra-island\", \"age_s\": 5999.0,"
			 "\"rails\": {\"sout\": {\"rtt_ns\": 1234567890},"
			 "\"sup\": {\"rtt_ns\": 1234567890}}}"));
	assert_fits("info", json_pack("{ss}", "run_dir", "/run/mpib"));
	assert_fits("config",
		    json_pack("[{ss ss ss ss}]", "section", "hca", "key",
			      "sout", "value", LONG_TEXT, "origin", LONG_TEXT));
}

#define TIMES                                                                  \
	"\"count\":123456789012,\"sum_ns\":1,\"p50_ns\":999499,"               \
	"\"p90_ns\":123456789,\"p99_ns\":9999999999,\"p999_ns\":99999999999,"  \
	"\"max_ns\":17179869184"

static void histograms_and_events_fit_80_columns(void **state)
{
	json_t *one = json_loads(
		"{\"name\":\"send.post_cqe.sout\"," TIMES ",\"buckets\":"
		"[[256,1],[1024,123456789],[null,7]],\"connections\":["
		"{\"client\":12345,\"index\":1023,"
		"\"peer\":\"255.255.255.255:65535\"," TIMES "}]}",
		0, NULL);
	json_t *event = json_pack(
		"{sI sf ss ss}", "seq", (json_int_t)99999, "time", 1e9, "level",
		"error", "text",
		LONG_TEXT " " LONG_TEXT " and something that is " LONG_TEXT);

	assert_non_null(one);
	assert_fits("hist", json_pack("[O]", one));
	assert_fits("hist", one);
	assert_fits("events", json_pack("{sI s[oO]}", "lost", (json_int_t)3,
					"events", event, event));
}

static void an_answer_without_fields_is_borne(void **state)
{
	for (unsigned i = 0; i < mpib_ctl_view_count; i++) {
		json_t *empty = json_pack("[{}]"), *none = json_null();

		free(print(mpib_ctl_views[i].noun, empty));
		free(print(mpib_ctl_views[i].noun, none));
		json_decref(empty);
	}
}

/* Whatever an agent says. */
static void an_agent_commands_no_terminal(void **state)
{
	json_t *data = json_pack("{ss ss s[{ss}] s[{ss}]}", "config",
				 "/\x1b[2J", "fault", "\x1b]0;x\x07", "rails",
				 "why", "\x1b[1m", "steered", "peer",
				 "\xc2\x9b"
				 "1m");
	char *text = print("agent", data);
	size_t len;
	FILE *f;

	assert_null(strchr(text, '\x1b'));
	assert_null(strchr(text, '\x07'));
	assert_null(strstr(text, "\xc2\x9b"));
	assert_non_null(strstr(text, "by /?[2J"));
	assert_non_null(strstr(text, "not reloaded: ?]0;x?"));
	free(text);
	f = open_memstream(&text, &len);
	assert_true(mpib_fields_print(data, "config", f, NULL, 0));
	fclose(f);
	assert_string_equal(text, "/?[2J\n");
	free(text);
	f = open_memstream(&text, &len);
	assert_true(mpib_fields_print(data, "fault,steered", f, NULL, 0));
	fclose(f);
	assert_null(strchr(text, '\x1b'));
	assert_null(strchr(text, '\x07'));
	assert_null(strstr(text, "\xc2\x9b"));
	free(text);
	json_decref(data);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(an_agent_commands_no_terminal),
	cmocka_unit_test(every_noun_fits_80_columns),
	cmocka_unit_test(histograms_and_events_fit_80_columns),
	cmocka_unit_test(an_answer_without_fields_is_borne),
	{ 0 },
};
