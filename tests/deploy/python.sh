#!/usr/bin/env bash
# python.sh BUILD SOURCE: check that the Python module returns the same data as
# mpibctl and follows events as they happen, and that the example plots a
# running job.
set -uo pipefail
build=$1 source=$2
if ! command -v python3 >/dev/null; then
	echo "SKIPPED: the Python module: there is no python3"
	exit 77
fi
. "$(dirname "$0")/../support/nodes.sh"
pair_start
pair_traffic 1
export PYTHONPATH=$source/proxy/python MPIB_RUN_DIR=$dir/n0 PYTHONDONTWRITEBYTECODE=1
python3 - "$build/proxy/mpibctl" >"$dir/log" 2>&1 <<'END' || fail "$(<"$dir/log")"
import json, subprocess, sys
import mpib

def ctl(*words):
    return json.loads(subprocess.check_output([sys.argv[1], "-j", *words]))

with mpib.Stats() as stats:
    assert stats.greeting["proto"] == 1, stats.greeting
    rails = stats.ask("rails")
    assert [r["label"] for r in rails] == ["SOUT", "SUP"], rails
    assert [r["device"] for r in rails] == [r["device"] for r in ctl("rails")]
    assert stats.ask("config") == ctl("config")
    try:
        stats.ask("nothing of the kind")
    except mpib.Error as error:
        assert "nothing" in str(error), error
    else:
        raise AssertionError("any command is answered")
    # Each event after the last known one is received exactly once.
    seen = []
    following = stats.follow(stats.ask("events")["last"])
    subprocess.check_call([sys.argv[1], "rails", "resume", "SUP"])
    for event in following:
        seen.append(event["seq"])
        if event["kind"] == "resume":
            break
        if len(seen) > 1000:
            raise AssertionError("no resume is told")
    assert seen == sorted(set(seen)), seen
END
# A fake proxy serves the follower. The follower continues if the proxy has too
# many readers, dies in the middle of an answer, or numbers its events from 1
# again. If the proxy has another protocol version, the follower ends.
mkdir "$dir/played"
python3 - "$dir/played" >"$dir/log" 2>&1 <<'END' || fail "$(<"$dir/log")"
import json, os, socket, sys, threading
import mpib

def line(value):
    return json.dumps(value).encode() + b"\n"

def told(last, *numbers):
    events = [{"seq": n} for n in numbers]
    return line({"ok": True, "data": {"last": last, "events": events}})

hello = line({"mpib": "1", "proto": 1})
calls = [[hello, told(7), told(8, 8), b'{"ok": tr'],
         [line({"ok": False, "error": "too many readers"})],
         [hello, told(2), told(2, 1, 2), b""],
         [line({"mpib": "9", "proto": 9})]]
listener = socket.socket(socket.AF_UNIX)
listener.bind(os.path.join(sys.argv[1], "stats.sock"))
listener.listen()

def serve():
    for greeting, *answers in calls:
        with listener.accept()[0] as conn, conn.makefile("r") as asked:
            conn.sendall(greeting)
            for answer in answers:
                asked.readline()
                conn.sendall(answer)

threading.Thread(target=serve, daemon=True).start()
seen = []
try:
    for event in mpib.Stats(sys.argv[1]).follow(pause=0.01):
        seen.append(event["seq"])
except mpib.Error as error:
    assert "protocol 9" in str(error), error
assert seen == [8, 1, 2], seen
END
python3 "$source/docs/example/plot_job.py" "$dir/plot.svg" 1 0.1 ||
	fail "the example fails"
python3 - "$dir/plot.svg" <<'END' || fail "$(<"$dir/plot.svg")"
import sys, xml.etree.ElementTree as tree
lines = tree.parse(sys.argv[1]).findall("{http://www.w3.org/2000/svg}polyline")
assert len(lines) == 2, lines
for line in lines:
    heights = {point.split(",")[1] for point in line.get("points").split()}
    assert len(heights) > 1, "a rail that stands still"
END
(MPIB_RUN_DIR=$dir/none python3 -c 'import mpib; mpib.Stats()' 2>&1 || true) |
	has FileNotFoundError || fail "a missing proxy is found"
exit "$failed"
