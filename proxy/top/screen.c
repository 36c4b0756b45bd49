/* SPDX-License-Identifier: Apache-2.0 */
/* mpib-top on a terminal: drawing with curses, and keys. */
#include <curses.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "top/top.h"

#define HEAD 2 /* lines above the table */
#define FIRST_S 0.1 /* to the second answer, so that rates come soon */

struct screen {
	const char *run_dir;
	struct mpib_dial dial;
	bool connected;
	struct top_table table;
	unsigned noun, scroll;
	double seconds;
	bool paused, help, over;
};

static double screen_now(void)
{
	return (double)mpib_now_ns() / 1e9;
}

/* Ask the proxy. While it is away, each call tries to connect again. */
static void screen_take(struct screen *s)
{
	if (!s->connected)
		s->connected =
			mpib_dial_open(&s->dial, s->run_dir) == MPIB_EXIT_OK;
	if (!s->connected || top_take(&s->dial, &s->table) == MPIB_EXIT_OK)
		return;
	mpib_dial_close(&s->dial);
	s->connected = false;
}

static void draw_nouns(const struct screen *s)
{
	move(0, 0);
	for (unsigned i = 0; i < TOP_NOUNS; i++) {
		if (i == s->noun)
			attron(A_REVERSE);
		printw(" %s ", top_nouns[i]);
		attroff(A_REVERSE);
	}
	printw("  every %.3g s%s", s->seconds, s->paused ? "  PAUSED" : "");
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
	top_print(&s->table, width, f);
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
		"s               sort by rate, or as the proxy lists it",
		"up down PgUp/Dn scroll",
		"p, space        pause and go on",
		"+ -             ask less often, more often",
		"h, ?            this help",
		"q               leave",
		"",
		"The tables are those of mpibctl(1).",
	};

	for (unsigned i = 0; i < sizeof(text) / sizeof(text[0]); i++)
		mvaddstr(HEAD + 1 + (int)i, 2, text[i]);
}

/* In place of the first line: the table below is old. */
static void draw_dead(const struct screen *s)
{
	char line[256] = "NO ANSWER";

	if (s->table.data)
		snprintf(line, sizeof(line),
			 "NO ANSWER, the table below is %.0f s old",
			 screen_now() - (double)s->table.at / 1e9);
	attron(A_REVERSE);
	mvprintw(0, 0, "%-*.*s", COLS, COLS, line);
	attroff(A_REVERSE);
}

/* The reason, whole, in as many lines at the end as it takes. */
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
	else if (s->table.data)
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
	s->noun = noun % TOP_NOUNS;
	s->scroll = 0;
	s->help = false;
	top_free(&s->table);
	s->table = (struct top_table){ .noun = top_nouns[s->noun] };
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
	if (key >= '1' && key < '1' + TOP_NOUNS) {
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
		set_noun(s, s->noun + TOP_NOUNS - 1);
		break;
	case 's':
		s->table.unsorted = !s->table.unsorted;
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

int top_screen(const char *run_dir, unsigned noun, double seconds)
{
	struct screen s = { .run_dir = run_dir, .seconds = seconds };
	int rc = mpib_dial_open(&s.dial, run_dir);

	if (rc != MPIB_EXIT_OK) {
		fprintf(stderr, "mpib-top: %s\n", s.dial.why);
		return rc;
	}
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
	top_free(&s.table);
	return MPIB_EXIT_OK;
}
