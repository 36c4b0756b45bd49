#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""objects.py PROXY CHART DIR: check that the objects that helm.sh rendered into DIR
equal those of the examples of PROXY. Print each difference."""
import difflib
import json
import sys

import yaml

proxy, chart, rendered = sys.argv[1:]
failed = False


def fail(*what):
    global failed
    failed = True
    print("FAIL:", *what)


def objects(file):
    """Return the objects of a file, by kind."""
    with open(file, encoding="utf-8") as stream:
        return {o["kind"]: o for o in yaml.safe_load_all(stream) if o}


def alike(what, got, wanted):
    if got == wanted:
        return
    text = [json.dumps(o, indent=1, sort_keys=True).splitlines()
            for o in (wanted, got)]
    fail(what, "differs:\n" + "\n".join(
        difflib.unified_diff(*text, "example", "chart", lineterm="", n=2)))


examples = f"{proxy}/packaging/examples"
default = objects(f"{rendered}/default")
alike("what is made", list(default), ["DaemonSet"])
alike("DaemonSet", default.get("DaemonSet"),
      objects(f"{examples}/kubernetes.yaml")["DaemonSet"])

watched = objects(f"{rendered}/watched")
alike("PodMonitor", watched.get("PodMonitor"),
      objects(f"{examples}/podmonitor.yaml")["PodMonitor"])
with open(f"{proxy}/metrics/share/mpib-alerts.yml", encoding="utf-8") as rules:
    alike("PrometheusRule", watched.get("PrometheusRule", {}).get("spec"),
          yaml.safe_load(rules))

pod = objects(f"{rendered}/bare")["DaemonSet"]["spec"]["template"]["spec"]
container = pod["containers"][0]
env = {e["name"]: e["value"] for e in container["env"]}
alike("settings", {k: v for k, v in env.items() if k.startswith(
    ("MPIB_METRICS", "MPIB_HCA", "MPIB_LANE"))},
    {"MPIB_HCA_SOUT": "mlx5_0", "MPIB_LANE_WINDOW": "8388608"})
alike("image", [container["image"], container["imagePullPolicy"]],
      ["here/mpib:7", "Always"])
alike("mounted volumes", sorted(m["name"] for m in container["volumeMounts"]),
      sorted(v["name"] for v in pod["volumes"]))
alike("volumes", [v["name"] for v in pod["volumes"]],
      ["run", "admin", "state", "peer"])
alike("run directory", pod["volumes"][0]["hostPath"]["path"], "/run/other")
alike("ports and nodes", [k for k in ("ports", "nodeSelector")
                          if k in container or k in pod], [])

with open(f"{chart}/Chart.yaml", encoding="utf-8") as head:
    about = yaml.safe_load(head)
image = default["DaemonSet"]["spec"]["template"]["spec"]["containers"][0]["image"]
alike("the chart's versions", [about["version"], about["appVersion"]],
      [image.rpartition(":")[2]] * 2)
sys.exit(failed)
