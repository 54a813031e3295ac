#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check.py ROOT: what tools/check makes of a run of tests that passes, that fails, and that ends before all tests have run."""
import os
import subprocess
import sys
import tempfile

root = os.path.abspath(sys.argv[1])
SCRIPT = '''
set -euo pipefail
out=out CONFAB_LOG_FOLDER=out wrap=() results=()
confab_progress() { local log=$2; shift 2; "$@" >>"$log" 2>&1; }
eval "$(sed -n '/^run()/,/^}/p' "$ROOT/tools/check")"
run x ''
python3 tests/util/summary.py --final "${results[@]}"
'''
MESON = '''#!/bin/sh
printf '{"name": "a", "suite": ["s"], "result": "%s", "stdout": ""}\\n' "$RESULT" >out/x/meson-logs/testlog.json
exit "$STATUS"
'''
# result of the test, status of the run: the count, and the status of tools/check
CASES = [('OK', 0, '1 passed, 0 failed, 0 skipped', 0),
         ('FAIL', 1, '0 passed, 1 failed, 0 skipped', 1),
         ('OK', 2, '1 passed, 1 failed, 0 skipped', 1)]


def outcome(result, status):
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(f'{folder}/bin')
        os.makedirs(f'{folder}/out/x/meson-logs')
        os.symlink(f'{root}/tests', f'{folder}/tests')
        with open(f'{folder}/bin/meson', 'w', encoding='utf-8') as f:
            f.write(MESON)
        os.chmod(f'{folder}/bin/meson', 0o755)
        env = {**os.environ, 'ROOT': root, 'RESULT': result, 'STATUS': str(status), 'PATH': f'{folder}/bin:{os.environ["PATH"]}'}
        done = subprocess.run(['bash', '-c', SCRIPT], cwd=folder, env=env, text=True, capture_output=True, check=False)
        return (done.stdout.splitlines() or [''])[-1], done.returncode, done.stderr


wrong = 0
for case in CASES:
    *got, errors = outcome(*case[:2])
    if tuple(got) != case[2:]:
        wrong += 1
        print(f'{case}: {got}\n{errors}')
print(f'{len(CASES)} runs, {wrong} problems')
sys.exit(1 if wrong else 0)
