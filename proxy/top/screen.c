/* SPDX-License-Identifier: Apache-2.0 */
/* mpib-top's interactive mode: drawing with curses, and keys. */
#include "top/screen.h"

#include <curses.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "ctl/show/table.h"
#include "top/tabs.h"

#define HISTORY 60
#define TOP_LINES 4 /* lines above the table */
#define RAILS 2

struct screen {
	const char *run_dir;
	struct mpib_dial dial;
	bool connected;
	struct top_span span;
	double history[RAILS][HISTORY]; /* bytes sent per second, newest last */
	unsigned tab, scroll;
	struct top_order order[TOP_TABS];
	double seconds;
	bool paused, help, over;
};

static double screen_now(void)
{
	return (double)mpib_now_ns() / 1e9;
}

static void screen_remember(struct screen *s)
{
	const json_t *r;
	size_t i;

	for (i = 0; i < RAILS; i++) {
		double *h = s->history[i];

		memmove(h, h + 1, (HISTORY - 1) * sizeof(*h));
		h[HISTORY - 1] = 0;
	}
	json_array_foreach(s->span.now.rails, i, r)
	{
		bool sup = !strcmp(mpib_json_str(r, "name"), "SUP");

		s->history[sup][HISTORY - 1] +=
			top_rate(&s->span, json_array_get(s->span.was.rails, i),
				 r, "tx_bytes");
	}
}

/* Take a sample. While the proxy is gone, each call tries to connect again. */
static void screen_sample(struct screen *s)
{
	struct top_sample next;

	if (!s->connected) {
		s->connected =
			mpib_dial_open(&s->dial, s->run_dir) == MPIB_EXIT_OK;
		if (!s->connected)
			return;
	}
	if (top_sample_take(&s->dial, &next) != MPIB_EXIT_OK) {
		mpib_dial_close(&s->dial);
		s->connected = false;
		return;
	}
	top_sample_free(&s->span.was);
	s->span.was = s->span.now;
	s->span.now = next;
	screen_remember(s);
}

/* Draw the history of all devices' rail of that kind as bars, scaled to the
 * highest rate of both kinds. The first device has the first rails. */
static void draw_history(const struct screen *s, int y, unsigned rail)
{
	static const char *const bar[] = { " ", "▁", "▂", "▃", "▄",
					   "▅", "▆", "▇", "█" };
	static const char plain[] = " .,:-=+*#";
	bool utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
	const json_t *r = json_array_get(s->span.now.rails, rail);
	double high = 1;
	char text[16];

	if (!r)
		return;
	for (unsigned i = 0; i < RAILS * HISTORY; i++) {
		double v = s->history[i / HISTORY][i % HISTORY];

		high = v > high ? v : high;
	}
	mvprintw(y, 0, "%-5.5s", mpib_json_str(r, "name"));
	for (unsigned i = 0; i < HISTORY; i++) {
		double v = s->history[rail][i];
		unsigned level = (unsigned)(v * 8 / high + (v > 0 ? 0.99 : 0));

		level = level > 8 ? 8 : level;
		if (utf8)
			addstr(bar[level]);
		else
			addch((chtype)plain[level]);
	}
	printw(" %s/s",
	       mpib_human_bytes((uint64_t)s->history[rail][HISTORY - 1], text,
				sizeof(text)));
}

static void draw_tabs(const struct screen *s)
{
	move(TOP_LINES - 1, 0);
	for (unsigned i = 0; i < TOP_TABS; i++) {
		if (i == s->tab)
			attron(A_REVERSE);
		printw(" %u %s ", i + 1, top_tabs[i].name);
		attroff(A_REVERSE);
	}
	printw("  every %.3g s%s", s->seconds, s->paused ? "  PAUSED" : "");
}

static void draw_table(struct screen *s)
{
	unsigned width = COLS < 80 ? 80 : (unsigned)COLS, row = 0;
	char *text = NULL, *line, *rest;
	int y = TOP_LINES;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return;
	top_tab_print(&top_tabs[s->tab], &s->span, s->order[s->tab], width, f);
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
		"1 2 3, Tab      rails, clients, connections",
		"s, S, < >       sort by the next or the previous column",
		"r               reverse the order",
		"up down PgUp/Dn scroll",
		"p, space        pause and go on",
		"+ -             sample more rarely, more often",
		"h, ?            this help",
		"q               leave",
		"",
		"TX/s, RX/s: payload a second. SHARE: of what both rails send.",
		"RATED: of the rail's rated speed. SUP: what SUP sends of it.",
		"REQ: requests that wait. STALL/s: how often it has to wait, for a",
		"clear-to-send, a slot, a queue, lane.window or its turn.",
	};

	for (unsigned i = 0; i < sizeof(text) / sizeof(text[0]); i++)
		mvaddstr(TOP_LINES + 1 + (int)i, 2, text[i]);
}

/* In the place of the sums: what stands below is old. */
static void draw_dead(const struct screen *s)
{
	char line[256];

	if (s->span.now.time > 0)
		snprintf(line, sizeof(line),
			 "NO ANSWER, what is below is %.0f s old",
			 screen_now() - s->span.now.time);
	else
		snprintf(line, sizeof(line), "NO ANSWER");
	attron(A_REVERSE);
	mvprintw(0, 0, "%-*.*s", COLS, COLS, line);
	attroff(A_REVERSE);
}

/* Why there is none, whole, in as many lines at the end as it takes. */
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
	char line[256];
	size_t width = COLS > 255 ? 255 : (size_t)COLS;

	erase();
	if (!s->connected)
		attron(A_DIM);
	if (s->span.now.time > 0) {
		top_summary(&s->span, line, width);
		attron(A_BOLD);
		mvaddnstr(0, 0, line, COLS);
		attroff(A_BOLD);
		for (unsigned r = 0; r < RAILS; r++)
			draw_history(s, 1 + (int)r, r);
		draw_tabs(s);
		if (s->help)
			draw_help();
		else
			draw_table(s);
	}
	attroff(A_DIM);
	if (!s->connected) {
		draw_dead(s);
		draw_why(s->dial.why);
	} else {
		mvaddnstr(LINES - 1, 0,
			  "1-3 tab  s sort  r reverse  p pause  +- interval  h "
			  "help  q quit",
			  COLS);
	}
	refresh();
}

static void sort_by(struct screen *s, unsigned step)
{
	const struct top_tab *tab = &top_tabs[s->tab];
	struct top_order *o = &s->order[s->tab];

	*o = top_order(tab, (o->column + step) % tab->columns);
}

static void set_tab(struct screen *s, unsigned tab)
{
	s->tab = tab % TOP_TABS;
	s->scroll = 0;
	s->help = false;
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
	if (key >= '1' && key < '1' + TOP_TABS) {
		set_tab(s, (unsigned)key - '1');
		return;
	}
	switch (key) {
	case '\t':
	case KEY_RIGHT:
		set_tab(s, s->tab + 1);
		break;
	case KEY_BTAB:
	case KEY_LEFT:
		set_tab(s, s->tab + TOP_TABS - 1);
		break;
	case 's':
	case '>':
		sort_by(s, 1);
		break;
	case 'S':
	case '<':
		sort_by(s, top_tabs[s->tab].columns - 1);
		break;
	case 'r':
		s->order[s->tab].ascending = !s->order[s->tab].ascending;
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
	double next = screen_now() + 0.1; /* first rates soon */

	while (!s->over) {
		double left = next - screen_now();
		int key;

		screen_draw(s);
		timeout(left > 0 ? (int)(left * 1000) + 1 : 0);
		key = getch();
		if (key != ERR)
			on_key(s, key);
		if (screen_now() < next)
			continue;
		next = screen_now() + s->seconds;
		if (!s->paused)
			screen_sample(s);
	}
}

int top_screen(const char *run_dir, unsigned tab, double seconds)
{
	struct screen s = { .run_dir = run_dir,
			    .tab = tab,
			    .seconds = seconds };
	int rc = mpib_dial_open(&s.dial, run_dir);

	if (rc != MPIB_EXIT_OK) {
		fprintf(stderr, "mpib-top: %s\n", s.dial.why);
		return rc;
	}
	s.connected = true;
	for (unsigned i = 0; i < TOP_TABS; i++)
		s.order[i] = top_order(&top_tabs[i], top_tabs[i].sort);
	screen_sample(&s);

	setlocale(LC_CTYPE, "");
	initscr();
	cbreak();
	noecho();
	curs_set(0);
	keypad(stdscr, TRUE);
	screen_run(&s);
	endwin();
	mpib_dial_close(&s.dial);
	top_sample_free(&s.span.was);
	top_sample_free(&s.span.now);
	return MPIB_EXIT_OK;
}
