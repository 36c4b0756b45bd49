# SPDX-License-Identifier: Apache-2.0
"""Statistics and events of this node's mpib-proxy, read from its stats socket.

    import mpib
    with mpib.Stats() as stats:
        for rail in stats.ask("rails"):
            print(rail["label"], rail["tx_bytes"])

Answers are those of mpib-protocol(7), decoded from JSON. Only the standard
library is needed. A refused command raises mpib.Error; if no proxy answers,
OSError is raised.
"""
import json
import os
import socket
import time

__all__ = ["Error", "Stats", "run_dir"]


class Error(Exception):
    """The proxy refused a command; the text is the proxy's reason."""


def run_dir():
    """Return the run directory that mpibctl would use."""
    if os.environ.get("MPIB_RUN_DIR"):
        return os.environ["MPIB_RUN_DIR"]
    own = os.path.join(os.environ.get("XDG_RUNTIME_DIR") or "/nowhere", "mpib")
    there = os.geteuid() != 0 and os.path.exists(os.path.join(own, "proxy.sock"))
    return own if there else "/run/mpib"


class Stats:
    """A connection to the stats socket. One thread at a time may use it."""

    def __init__(self, directory=None, timeout=10):
        self.directory = directory or run_dir()
        self.timeout = timeout
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout)
        path = os.path.join(self.directory, "stats.sock")
        try:
            self._socket.connect(path)
        except OSError as e:
            self._socket.close()
            why = f"{e.strerror} (start mpib-proxy, or name its run directory)"
            raise OSError(e.errno, why, path) from None
        self._lines = self._socket.makefile("r", encoding="utf-8")
        #: mpib's version, proto, pid and uptime_s
        self.greeting = self._line()
        if "error" in self.greeting:
            self.close()
            raise Error(self.greeting["error"])
        if self.greeting.get("proto") != 1:
            self.close()
            raise Error(f"the proxy speaks protocol {self.greeting.get('proto')}")

    def _line(self):
        line = self._lines.readline()
        if not line.endswith("\n"):  # the end, or an incomplete answer
            raise ConnectionResetError("the proxy hung up")
        return json.loads(line)

    def ask(self, command):
        """Send a command such as "rails" or "conns 3" and return its data."""
        if "\n" in command:
            raise ValueError("one command at a time")
        self._socket.sendall(command.encode() + b"\n")
        answer = self._line()
        if not answer.get("ok"):
            raise Error(answer.get("error", "no reason is given"))
        return answer["data"]

    def events(self, since=0):
        """Return the stored events with numbers above `since`, oldest first."""
        return self.ask(f"events {since}")["events"]

    def follow(self, since=None, pause=0.5):
        """Yield new events forever. If `since` is given, first yield the stored
        events with numbers above it. A restart of the proxy does not end the loop."""
        last = self.ask("events")["last"] if since is None else since
        while True:
            try:
                answer = self.ask(f"events {last}")
            except (OSError, ValueError):
                self._again(pause)
                continue
            if answer["last"] < last:
                last = 0  # a new proxy, whose numbers begin at 1
                continue
            for event in answer["events"]:
                last = event["seq"]
                yield event
            time.sleep(pause)

    def _again(self, pause):
        """Connect again, once a proxy accepts. If that proxy speaks another
        protocol, raise Error, because waiting does not help."""
        while True:
            self.close()
            time.sleep(pause)
            try:
                self.__init__(self.directory, self.timeout)
                return
            except (OSError, ValueError):
                continue
            except Error:
                if "error" not in self.greeting:
                    raise

    def close(self):
        """Close the connection."""
        self._lines.close()
        self._socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
