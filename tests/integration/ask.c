/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>

#include "ask.h"
#include "test.h"

struct node ask_a, ask_b;

int ask_start(void **state)
{
	node_start(&ask_a, 3, "--limit-readers", "12", "--sup-bw", "512",
		   "--sout-qp", "2", "--sup-qp", "4", NULL);
	node_start(&ask_b, 4, "--sout-qp", "2", "--sup-qp", "4", NULL);
	return 0;
}

int ask_stop(void **state)
{
	node_stop(&ask_a);
	node_stop(&ask_b);
	return 0;
}

FILE *ask_reader(const struct node *n)
{
	FILE *f = fdopen(node_dial(n, MPIB_STATS_SOCK, SOCK_STREAM), "r");

	assert_non_null(f);
	return f;
}

FILE *ask_admin(const struct node *n)
{
	FILE *f = fdopen(node_dial_admin(n), "r");

	assert_non_null(f);
	return f;
}

/* Return the next line as JSON, or NULL at the end of the stream. */
json_t *ask_next(FILE *f)
{
	char *line = NULL;
	size_t room = 0;
	json_t *v = NULL;

	if (getline(&line, &room, f) > 0) {
		v = json_loads(line, 0, NULL);
		assert_non_null(v);
	}
	free(line);
	return v;
}

const char *ask_text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

void ask_pass(FILE *f)
{
	json_t *v = ask_next(f);

	assert_non_null(v);
	json_decref(v);
}

/* Send a command that must succeed. Return the `data` member of the answer. */
json_t *ask_data(FILE *f, const char *command)
{
	json_t *v, *data;

	dprintf(fileno(f), "%s\n", command);
	v = ask_next(f);
	if (!json_is_true(json_object_get(v, "ok")))
		fail_msg("%s: %s", command, ask_text(v, "error"));
	data = json_incref(json_object_get(v, "data"));
	json_decref(v);
	return data;
}

json_int_t ask_num(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

json_int_t ask_rail(const json_t *o, const char *key, const char *name)
{
	return json_integer_value(
		json_object_get(json_object_get(o, key), name));
}
