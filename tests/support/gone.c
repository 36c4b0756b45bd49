/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that go and come back, see gone.h. */
#include "gone.h"

#include <fcntl.h>
#include <unistd.h>

#include "test.h"

static char dir[] = "/tmp/mpib-gone-XXXXXX";

void gone_begin(void)
{
	assert_non_null(mkdtemp(dir));
	setenv("MPIB_SOFT_GONE", dir, 1);
}

void gone_end(void)
{
	assert_int_equal(rmdir(dir), 0);
}

static void path_of(const char *rail, char *path, size_t len)
{
	/* rail is "soft:127.24.1.50". */
	snprintf(path, len, "%s/%s", dir, strchr(rail, ':') + 1);
}

void gone_take(const char *rail)
{
	char path[80];

	path_of(rail, path, sizeof(path));
	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

void gone_return(const char *rail)
{
	char path[80];

	path_of(rail, path, sizeof(path));
	assert_int_equal(unlink(path), 0);
}

/* The output of mpibctl -j NOUN VERB; NULL when no proxy answered. */
static const char *say(struct moving *m, const struct node *n, const char *noun,
		       const char *verb)
{
	const char *argv[] = {
		"mpibctl", "-j", "-s", n->dir, noun, verb, NULL
	};
	static struct run run;

	if (m) {
		run_begin(&run, argv);
		moving_until(m, &run, 1);
	} else {
		run_wait(&run, argv);
	}
	return run.status ? NULL : run.out;
}

static json_t *ask(struct moving *m, const struct node *n, const char *noun,
		   const char *verb)
{
	const char *text = say(m, n, noun, verb);

	return text ? json_loads(text, 0, NULL) : NULL;
}

static bool is_down(struct moving *m, const struct node *n, unsigned rail)
{
	json_t *data = ask(m, n, "rails", NULL);
	const char *state = json_string_value(
		json_object_get(json_array_get(data, rail), "state"));
	bool down = state && !strcmp(state, "down");

	json_decref(data);
	return down;
}

static json_int_t sent(struct moving *m, const struct node *n, unsigned rail)
{
	json_t *data = ask(m, n, "rails", NULL);
	json_int_t bytes = json_integer_value(
		json_object_get(json_array_get(data, rail), "tx_bytes"));

	json_decref(data);
	return bytes;
}

static bool is_told(struct moving *m, const struct node *n, const char *text)
{
	const char *events = say(m, n, "events", NULL);

	return events && strstr(events, text);
}

void gone_until_down(struct moving *m, const struct node *n, unsigned rail)
{
	unsigned long long since = node_ms();

	while (!is_down(m, n, rail)) {
		if (node_ms() - since > MOVING_HANG_MS)
			fail_msg("the loss of a device is not noticed");
	}
}

void gone_until_used(struct moving *m, const struct node *n, unsigned rail)
{
	unsigned long long since = node_ms();
	json_int_t before = sent(m, n, rail);

	while (sent(m, n, rail) <= before) {
		if (node_ms() - since > MOVING_HANG_MS)
			fail_msg("the rail is not used again");
	}
}

void gone_until_told(struct moving *m, const struct node *n, const char *text)
{
	unsigned long long since = node_ms();

	while (!is_told(m, n, text)) {
		if (node_ms() - since <= MOVING_HANG_MS)
			continue;
		fprintf(stderr, "%s", say(m, n, "events", NULL));
		fail_msg("no event says: %s", text);
	}
}
