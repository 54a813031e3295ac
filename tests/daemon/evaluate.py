# SPDX-License-Identifier: MIT
"""Holds a part of the bundled model's evaluation through a daemon of its own.

usage: evaluate.py CONFABD CONFAB SOURCE_ROOT

Greedy and exact (I2), so the same replies come every time. models/README.md has the whole.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

confabd, confab, root = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
model = root / "models/confab-small.q8_0.gguf"
if not model.exists():
    print("SKIP: %s is not there" % model)
    sys.exit(77)
with tempfile.TemporaryDirectory(prefix="confab-test-") as folder:
    ready, say_ready = os.pipe()
    daemon = subprocess.Popen([confabd, "--model", model, "--socket", folder + "/s", "--state",
                               folder + "/state"], stderr=say_ready)
    os.close(say_ready)
    with os.fdopen(ready) as log:
        while "serves" not in log.readline():  # said once it listens
            if daemon.poll() is not None:
                sys.exit("confabd did not start")
        done = subprocess.run([sys.executable, "-B", root / "models/evaluate.py", "--confab",
                               confab, "--socket", folder + "/s", "--quick", "20"])
        daemon.terminate()
        daemon.wait()
    sys.exit(done.returncode or daemon.returncode)
