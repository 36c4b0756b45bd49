#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plot_job.py OUT.svg [SECONDS] [STEP]: plot the rate, in Gb/s, at which this
node sends over each rail while a job runs. Vertical lines are fail-overs.
Without SECONDS, the plot covers the time from the first client until the last
client leaves.

mpib.py is in /usr/share/mpib/python: PYTHONPATH has to name that directory.
"""
import sys
import time

import mpib

WIDTH, HEIGHT, EDGE = 900, 360, 50
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"]


def watch(stats, seconds, step):
    """Rates by rail as [(time, Gb/s)], and the times of fail-overs."""
    rates, marks, before, began = {}, [], {}, None
    last = stats.ask("events")["last"]
    while True:
        now, clients = time.monotonic(), stats.ask("clients")
        if began is None and (clients or seconds):
            began = now
        if began is not None:
            for rail in stats.ask("rails"):
                name, sent = rail["label"], rail["tx_bytes"]
                if name in before and now > before[name][0]:
                    then, was = before[name]
                    rates.setdefault(name, []).append(
                        (now - began, (sent - was) * 8e-9 / (now - then)))
                before[name] = (now, sent)
            for event in stats.events(last):
                last = event["seq"]
                if event["kind"] == "failover":
                    marks.append(now - began)
            if now - began >= seconds if seconds else not clients:
                return rates, marks
        time.sleep(step)


def svg(rates, marks):
    """The picture as text."""
    end = max([t for line in rates.values() for t, _ in line] + [1e-9])
    top = max([r for line in rates.values() for _, r in line] + [1e-9])
    across = (WIDTH - 2 * EDGE) / end
    up = (HEIGHT - 2 * EDGE) / top

    def at(when, rate):
        return f"{EDGE + when * across:.1f},{HEIGHT - EDGE - rate * up:.1f}"

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
           f'height="{HEIGHT}" font-family="sans-serif" font-size="13">',
           '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="{EDGE}" y="{EDGE - 20}">sent, Gb/s; at most {top:.2f}'
           f'</text><text x="{WIDTH - EDGE}" y="{HEIGHT - EDGE + 20}" '
           f'text-anchor="end">{end:.1f} s</text>',
           f'<path d="M{at(0, top)} L{at(0, 0)} L{at(end, 0)}" fill="none" '
           'stroke="black"/>']
    for when in marks:
        out.append(f'<path d="M{at(when, 0)} L{at(when, top)}" '
                   'stroke="#999" stroke-dasharray="4"/>')
    for i, (name, line) in enumerate(sorted(rates.items())):
        colour = COLOURS[i % len(COLOURS)]
        points = " ".join(at(t, r) for t, r in line)
        out.append(f'<polyline points="{points}" fill="none" '
                   f'stroke="{colour}" stroke-width="2"/>')
        out.append(f'<text x="{EDGE + 250 + 110 * i}" y="{EDGE - 20}" '
                   f'fill="{colour}">{name}</text>')
    return "\n".join(out + ["</svg>", ""])


def main():
    """See above."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 0
    step = float(sys.argv[3]) if len(sys.argv) > 3 else 1
    with mpib.Stats() as stats:
        picture = svg(*watch(stats, seconds, step))
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(picture)


main()
