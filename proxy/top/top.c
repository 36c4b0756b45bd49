/* SPDX-License-Identifier: Apache-2.0 */
/* mpib-top: mpibctl's tables with rates on a terminal, updated periodically. */
#include <ctype.h>
#include <curses.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "ctl/dial.h"
#include "ctl/options.h"
#include "ctl/views.h"

#define HEAD 2 /* lines above the table */
#define NOUNS 8
#define FIRST_S 0.1 /* first interval: short, so that rates appear soon */

/* The tables, named by the mpibctl commands that print them. */
static const char *const nouns[NOUNS] = {
	"rails", "clients", "conns", "jobs", "peers", "lanes", "stuck", "events"
};

struct screen {
	const char *run_dir;
	struct mpib_dial dial;
	bool connected;
	struct mpib_answer answer;
	unsigned noun, scroll;
	double seconds;
	bool paused, help, over;
	bool unsorted; /* show the rows in the proxy's order */
};

static const struct mpib_ctl_view *screen_view(const struct screen *s)
{
	return mpib_ctl_view(nouns[s->noun]);
}

static double screen_now(void)
{
	return (double)mpib_now_ns() / 1e9;
}

/* Ask the proxy. While no proxy runs, each call tries to connect again. */
static void screen_take(struct screen *s)
{
	json_t *data;

	if (!s->connected)
		s->connected =
			mpib_dial_open(&s->dial, s->run_dir) == MPIB_EXIT_OK;
	if (!s->connected)
		return;
	if (mpib_dial_ask(&s->dial, nouns[s->noun], &data) == MPIB_EXIT_OK) {
		mpib_answer_put(&s->answer, screen_view(s), data);
		return;
	}
	mpib_dial_close(&s->dial);
	s->connected = false;
}

static void draw_nouns(const struct screen *s)
{
	move(0, 0);
	for (unsigned i = 0; i < NOUNS; i++) {
		if (i == s->noun)
			attron(A_REVERSE);
		printw(" %s ", nouns[i]);
		attroff(A_REVERSE);
	}
	printw("  every %.3g s%s", s->seconds, s->paused ? "  PAUSED" : "");
}

static int by_rate(const void *a, const void *b)
{
	const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
	double rx = mpib_json_real(x, "tx_gbps") + mpib_json_real(x, "rx_gbps");
	double ry = mpib_json_real(y, "tx_gbps") + mpib_json_real(y, "rx_gbps");

	return (rx < ry) - (rx > ry);
}

static void put_newest_first(json_t *events)
{
	for (size_t i = 1; i < json_array_size(events); i++) {
		json_t *event = json_incref(json_array_get(events, i));

		json_array_remove(events, i);
		json_array_insert_new(events, 0, event);
	}
}

/* Print mpibctl's table, with the highest rates first. */
static void print_sorted(const struct screen *s, unsigned width, FILE *out)
{
	const struct mpib_ctl_view *view = screen_view(s);
	json_t *data = json_deep_copy(s->answer.data);

	if (mpib_ctl_view_rates(view) && !s->unsorted)
		mpib_rows_sort(mpib_ctl_view_rows(view, data), by_rate);
	if (!strcmp(view->noun, "events"))
		put_newest_first(mpib_ctl_view_rows(view, data));
	mpib_columns_show(false, true);
	mpib_ctl_view_print(view, data, width, out);
	json_decref(data);
}

static void draw_table(struct screen *s)
{
	unsigned width = COLS < 80 ? 80 : (unsigned)COLS, row = 0;
	char *text = NULL, *line, *rest;
	int y = HEAD;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return;
	print_sorted(s, width, f);
	fclose(f);
	for (line = strtok_r(text, "\n", &rest); line && y < LINES - 1;
	     line = strtok_r(NULL, "\n", &rest), row++) {
		if (row > 0 && row <= s->scroll)
			continue;
		if (row == 0)
			attron(A_BOLD);
		mvaddnstr(y++, 0, line, COLS);
		attroff(A_BOLD);
	}
	if (!line && s->scroll > row)
		s->scroll = row;
	free(text);
}

static void draw_help(void)
{
	static const char *const text[] = {
		"1 to 8, Tab     another table",
		"s               sort by rate, or in the proxy's order",
		"up down PgUp/Dn scroll",
		"p, space        pause, resume",
		"+ -             query less often, more often",
		"h, ?            this help",
		"q               leave",
		"",
		"The tables are those of mpibctl(1).",
	};

	for (unsigned i = 0; i < sizeof(text) / sizeof(text[0]); i++)
		mvaddstr(HEAD + 1 + (int)i, 2, text[i]);
}

/* Overwrite the first line with a note that the table below is old. */
static void draw_dead(const struct screen *s)
{
	char line[256] = "NO ANSWER";

	if (s->answer.data)
		snprintf(line, sizeof(line),
			 "NO ANSWER, the table below is %.0f s old",
			 screen_now() - (double)s->answer.at / 1e9);
	attron(A_REVERSE);
	mvprintw(0, 0, "%-*.*s", COLS, COLS, line);
	attroff(A_REVERSE);
}

/* Print the whole reason, in as many of the last lines as it needs. */
static void draw_why(const char *why)
{
	int width = COLS > 0 ? COLS : 1, lines, y;

	lines = ((int)strlen(why) + width - 1) / width;
	y = LINES > lines ? LINES - lines : 0;
	attron(A_REVERSE);
	for (; y < LINES && *why; y++) {
		mvaddnstr(y, 0, why, width);
		why += strnlen(why, (size_t)width);
	}
	attroff(A_REVERSE);
}

static void screen_draw(struct screen *s)
{
	erase();
	draw_nouns(s);
	if (!s->connected)
		attron(A_DIM);
	if (s->help)
		draw_help();
	else if (s->answer.data)
		draw_table(s);
	attroff(A_DIM);
	if (!s->connected) {
		draw_dead(s);
		draw_why(s->dial.why);
	} else {
		mvaddnstr(LINES - 1, 0,
			  "1-8 table  s sort  p pause  +- interval  h help  q "
			  "quit",
			  COLS);
	}
	refresh();
}

static void set_noun(struct screen *s, unsigned noun)
{
	s->noun = noun % NOUNS;
	s->scroll = 0;
	s->help = false;
	json_decref(s->answer.data);
	s->answer.data = NULL;
	s->unsorted = false;
	screen_take(s);
}

static void scroll_by(struct screen *s, int lines)
{
	if (lines < 0 && s->scroll < (unsigned)-lines)
		s->scroll = 0;
	else
		s->scroll += (unsigned)lines;
}

static void on_other_key(struct screen *s, int key)
{
	switch (key) {
	case KEY_DOWN:
		scroll_by(s, 1);
		break;
	case KEY_UP:
		scroll_by(s, -1);
		break;
	case KEY_NPAGE:
		scroll_by(s, LINES / 2);
		break;
	case KEY_PPAGE:
		scroll_by(s, -(LINES / 2));
		break;
	case 'q':
		s->over = true;
		break;
	}
}

static void on_key(struct screen *s, int key)
{
	if (key >= '1' && key < '1' + NOUNS) {
		set_noun(s, (unsigned)key - '1');
		return;
	}
	switch (key) {
	case '\t':
	case KEY_RIGHT:
		set_noun(s, s->noun + 1);
		break;
	case KEY_BTAB:
	case KEY_LEFT:
		set_noun(s, s->noun + NOUNS - 1);
		break;
	case 's':
		s->unsorted = !s->unsorted;
		break;
	case 'p':
	case ' ':
		s->paused = !s->paused;
		break;
	case '+':
		s->seconds = s->seconds < 60 ? s->seconds * 2 : s->seconds;
		break;
	case '-':
		s->seconds = s->seconds > 0.2 ? s->seconds / 2 : s->seconds;
		break;
	case 'h':
	case '?':
		s->help = !s->help;
		break;
	default:
		on_other_key(s, key);
	}
}

static void screen_run(struct screen *s)
{
	double next = screen_now() + FIRST_S;

	while (!s->over) {
		double left = next - screen_now();
		unsigned noun = s->noun;
		int key;

		screen_draw(s);
		timeout(left > 0 ? (int)(left * 1000) + 1 : 0);
		key = getch();
		if (key != ERR)
			on_key(s, key);
		if (s->noun != noun)
			next = screen_now() + FIRST_S;
		if (screen_now() < next)
			continue;
		next = screen_now() + s->seconds;
		if (!s->paused)
			screen_take(s);
	}
}

static int top_fail(int status, const char *why)
{
	fprintf(stderr, "mpib-top: %s\n", why);
	return status;
}

static int top_screen(const char *dir, unsigned noun, double seconds)
{
	struct screen s = { .run_dir = dir, .seconds = seconds };
	int rc = mpib_dial_open(&s.dial, dir);

	if (rc != MPIB_EXIT_OK)
		return top_fail(rc, s.dial.why);
	s.connected = true;
	set_noun(&s, noun);

	setlocale(LC_CTYPE, "");
	initscr();
	cbreak();
	noecho();
	curs_set(0);
	keypad(stdscr, TRUE);
	screen_run(&s);
	endwin();
	mpib_dial_close(&s.dial);
	json_decref(s.answer.data);
	return MPIB_EXIT_OK;
}

static int top_usage(const char *what, const char *typed, const char *remedy)
{
	fprintf(stderr, "mpib-top: command line: %s \"%.64s\" (%s)\n", what,
		typed, remedy);
	return MPIB_EXIT_USAGE;
}

static int read_tab(const char *name, unsigned *noun)
{
	struct mpib_suggest s = { .typed = name };
	char remedy[64];

	for (*noun = 0; *noun < NOUNS; ++*noun) {
		mpib_suggest_try(&s, nouns[*noun]);
		if (!strcmp(name, nouns[*noun]))
			return MPIB_EXIT_OK;
	}
	return top_usage("there is no tab", name,
			 mpib_suggest_remedy(&s, "see mpib-top --help", remedy,
					     sizeof(remedy)));
}

static int read_delay(const char *text, double *seconds)
{
	char *end;

	*seconds = strtod(text, &end);
	if (*seconds >= 0.05 && *seconds <= 3600 && !*end &&
	    isdigit((unsigned char)*text))
		return MPIB_EXIT_OK;
	return top_usage("bad number of seconds", text, "give 0.05 to 3600");
}

static const char *run_dir, *delay, *tab;
static bool help, version;

static const struct mpib_option options[] = {
	{ "delay", 'd', "SECONDS", "between two queries; default 1", &delay },
	{ "tab", 't', "NAME",
	  "rails, clients, conns, jobs, peers, lanes, stuck or events", &tab },
	MPIB_OPTION_RUN_DIR(&run_dir),
	{ "help", 'h', NULL, "print this", &help },
	{ "version", 'V', NULL, "print the version", &version },
	{ 0 },
};

static int top_help(void)
{
	printf("usage: mpib-top [OPTION]...\n"
	       "Watch the traffic of this node's mpib-proxy in mpibctl's "
	       "tables.\n"
	       "Without a terminal, use mpibctl rails -r -w 1.\n\n");
	mpib_options_help(options);
	printf("\nKey h shows the keys. Exit status: 0 ok, 1 failed, 2 usage, 3 "
	       "no proxy\nanswers.\n");
	return MPIB_EXIT_OK;
}

int main(int argc, char **argv)
{
	double seconds = 1;
	unsigned noun = 0;
	char why[160];
	int first = mpib_options_read(options, "mpib-top", argc, argv, why,
				      sizeof(why));
	int rc = MPIB_EXIT_OK;

	if (first < 0)
		return top_fail(MPIB_EXIT_USAGE, why);
	if (help)
		return top_help();
	if (version) {
		printf("mpib-top %s\n", MPIB_VERSION);
		return MPIB_EXIT_OK;
	}
	if (tab)
		rc = read_tab(tab, &noun);
	if (rc == MPIB_EXIT_OK && delay)
		rc = read_delay(delay, &seconds);
	if (rc == MPIB_EXIT_OK && first < argc)
		rc = top_usage("unexpected argument", argv[first],
			       "see mpib-top --help");
	if (rc != MPIB_EXIT_OK)
		return rc;
	if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && getenv("TERM"))
		return top_screen(run_dir, noun, seconds);
	return top_fail(MPIB_EXIT_USAGE,
			"screen: this is not a terminal (use mpibctl rails "
			"-r -w 1)");
}
