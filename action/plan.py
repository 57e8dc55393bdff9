"""Print the fingerprint of an experiment and its workspace, as outputs of a step: `ragtrial plan` with these arguments.

The fingerprint is empty where the plan is not possible, as before a model is downloaded.
"""

from __future__ import annotations

import json
import subprocess
import sys

command = ["ragtrial", "plan", "--quiet", "--no-latency", "--json", *sys.argv[1:]]
plan = json.loads(subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout)
for name, default in {"fingerprint": "", "workspace": "~/.cache/ragtrial"}.items():
    print(f"{name}={' '.join(str(plan.get(name, default)).splitlines())}")  # a second line would be another output
