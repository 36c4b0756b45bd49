/* SPDX-License-Identifier: Apache-2.0 */
/* The results as SVG. Sizes have a logarithmic axis, and so have latencies. */
#include "perf/plot.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "perf/row.h"

#define WIDTH 720
#define HEIGHT 400
#define LEFT 80
#define RIGHT 20
#define TOP 40
#define BOTTOM 60

struct curve {
	const char *name, *color;
	double y[PERF_ROWS_MAX];
};

struct plot {
	FILE *f;
	const struct perf_world *w;
	bool latency;
	double x[PERF_ROWS_MAX]; /* log2 of the size */
	double top; /* of the y axis; latency: its log10 */
	double bottom; /* latency: log10 */
};

static double at_x(const struct plot *p, double x)
{
	double first = p->x[0], last = p->x[p->w->rows - 1];

	if (last <= first)
		return LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
	return LEFT + (x - first) / (last - first) * (WIDTH - LEFT - RIGHT);
}

static double at_y(const struct plot *p, double y)
{
	double v = p->latency ? log10(y > 1e-3 ? y : 1e-3) : y;

	return HEIGHT - BOTTOM -
	       (v - p->bottom) / (p->top - p->bottom) * (HEIGHT - TOP - BOTTOM);
}

static void text(const struct plot *p, double x, double y, const char *anchor,
		 const char *what)
{
	fprintf(p->f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y,
		anchor);
	for (; *what; what++) {
		if (*what == '<' || *what == '&' || *what == '>')
			fprintf(p->f, "&#%d;", *what);
		else
			fputc(*what, p->f);
	}
	fprintf(p->f, "</text>\n");
}

static void size_text(uint64_t size, char *to, size_t len)
{
	static const char *const unit[] = { "B", "K", "M", "G", "T" };
	unsigned u = 0;

	while (size >= 1024 && size % 1024 == 0 && u < 4) {
		size /= 1024;
		u++;
	}
	snprintf(to, len, "%llu%s", (unsigned long long)size, unit[u]);
}

/* A number of 1, 2 or 5 times a power of ten that is at least y. */
static double round_up(double y)
{
	double ten = pow(10, floor(log10(y > 0 ? y : 1)));

	return y <= ten	      ? ten
	       : y <= 2 * ten ? 2 * ten
	       : y <= 5 * ten ? 5 * ten
			      : 10 * ten;
}

static void axes(const struct plot *p)
{
	int every = p->w->rows / 12 + 1;
	char label[64];

	for (int i = 0; i < p->w->rows; i += every) {
		size_text(p->w->size[i], label, sizeof(label));
		text(p, at_x(p, p->x[i]), HEIGHT - BOTTOM + 20, "middle",
		     label);
	}
	for (int i = 0; i <= 5; i++) {
		double y = p->latency
				   ? pow(10, p->bottom + (p->top - p->bottom) *
								 i / 5)
				   : p->top * i / 5;

		fprintf(p->f,
			"<path d=\"M%d %.1fH%d\" stroke=\"#888\" stroke-width=\".3\"/>\n",
			LEFT, at_y(p, y), WIDTH - RIGHT);
		snprintf(label, sizeof(label), "%.3g", y);
		text(p, LEFT - 8, at_y(p, y) + 4, "end", label);
	}
	text(p, WIDTH / 2.0, HEIGHT - 15, "middle", "message size (bytes)");
	snprintf(label, sizeof(label), "%s, %d ranks",
		 perf_pattern_name(p->w->opt.pattern), p->w->opt.nranks);
	text(p, WIDTH - RIGHT, 22, "end", label);
	text(p, LEFT, 22, "start",
	     p->latency ? "one-way latency (us)" : "bus bandwidth (GB/s)");
}

static void curve(const struct plot *p, const struct curve *c, int nth)
{
	fprintf(p->f,
		"<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"",
		c->color);
	for (int i = 0; i < p->w->rows; i++)
		fprintf(p->f, "%.1f,%.1f ", at_x(p, p->x[i]), at_y(p, c->y[i]));
	fprintf(p->f, "\"/>\n");
	for (int i = 0; i < p->w->rows; i++)
		fprintf(p->f,
			"<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"><title>%llu B: %.4g</title></circle>\n",
			at_x(p, p->x[i]), at_y(p, c->y[i]), c->color,
			(unsigned long long)p->w->size[i], c->y[i]);
	fprintf(p->f, "<g fill=\"%s\">", c->color);
	text(p, LEFT + 12, TOP + 16 + 18 * nth, "start", c->name);
	fprintf(p->f, "</g>\n");
}

static void draw(struct plot *p)
{
	static struct curve c[2];
	double most = 0, least = INFINITY;
	int curves = p->latency ? 2 : 1;

	c[0].name = p->latency ? "p50" : p->w->plugin_name;
	c[0].color = "#2f7ed8";
	c[1].name = "p99";
	c[1].color = "#d86a2f";
	for (int i = 0; i < p->w->rows; i++) {
		struct perf_row row = perf_row_make(p->w, i);

		p->x[i] = log2(row.size ? (double)row.size : 1);
		c[0].y[i] = p->latency ? row.p50 : row.busbw;
		c[1].y[i] = row.p99;
		for (int k = 0; k < curves; k++) {
			most = fmax(most, c[k].y[i]);
			least = fmin(least, c[k].y[i]);
		}
	}
	p->top = p->latency ? log10(round_up(most)) : round_up(most);
	if (p->latency)
		p->bottom = floor(log10(least > 1e-3 ? least : 1e-3));
	if (p->top <= p->bottom)
		p->top = p->bottom + 1;
	fprintf(p->f,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"13\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
		WIDTH, HEIGHT);
	axes(p);
	for (int k = 0; k < curves; k++)
		curve(p, &c[k], k);
	fprintf(p->f, "</svg>\n");
}

bool perf_plot(const struct perf_world *w)
{
	struct plot p = { .w = w,
			  .latency = w->opt.pattern == PERF_PINGPONG,
			  .f = fopen(w->opt.plot, "we") };
	bool ok = p.f != NULL;

	if (ok) {
		draw(&p);
		ok = !ferror(p.f);
		ok = fclose(p.f) == 0 && ok;
	}
	if (!ok)
		perf_bad(
			"--plot %s: it cannot be written: %s (give a file in a folder that has room and that you may write to)",
			w->opt.plot, strerror(errno));
	return ok;
}
