#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prometheus and promtool, from Debian's package: as it is installed, or only unpacked into a cache folder, for the
package would start a server that all of the network reaches. tools/check fetches it beforehand (confab_fetch_prometheus in
tools/lib.sh); tests that need it are skipped aloud without.

    prometheus.py                  prints the name of the package if it has to be fetched
    prometheus.py --keep PACKAGE   unpacks the .deb into the cache
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

PACKAGE = 'prometheus'
PROGRAMS = ('prometheus', 'promtool')
MISSING = 'no prometheus and promtool here (tools/check fetches them)'
LONG = 120 # seconds that nothing should take


def cache():
    home = os.environ.get('XDG_CACHE_HOME') or os.path.join(os.path.expanduser('~'), '.cache')
    return os.path.join(home, 'confab-prometheus')


def find(name):
    """The program's path; None if it is not here."""
    return shutil.which(name) or shutil.which(name, path=cache())


def keep(package):
    """Puts the programs of the package into the cache. They appear once they are complete; nothing of the package is run."""
    folder = cache()
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(folder)) as made:
        subprocess.run(['dpkg-deb', '-x', package, made + '/all'], check=True)
        os.mkdir(made + '/kept')
        for name in PROGRAMS:
            os.rename(f'{made}/all/usr/bin/{name}', f'{made}/kept/{name}')
        with contextlib.suppress(OSError): # another was quicker
            os.rename(made + '/kept', folder)


class Server:
    """A Prometheus on a free port of the loopback, with its data in @folder. Ends with the block."""

    def __init__(self, folder, config):
        self.log = f'{folder}/prometheus.log'
        with open(self.log, 'wb') as log:
            self.process = subprocess.Popen(
                [find('prometheus'), f'--config.file={config}', f'--storage.tsdb.path={folder}/prometheus', '--web.listen-address=127.0.0.1:0',
                 '--log.level=info'], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)

    def __enter__(self):
        try:
            self.address = wait_for('prometheus is ready', self._address)
        except BaseException:
            self.process.kill()
            raise
        return self

    def __exit__(self, *what):
        self.process.terminate()
        try:
            self.process.wait(LONG)
        finally:
            self.process.kill()

    def said(self):
        return pathlib.Path(self.log).read_text(encoding='utf-8', errors='replace')

    def _address(self):
        said = self.said()
        if self.process.poll() is not None:
            raise AssertionError(f'prometheus ended: {said}')
        found = re.search(r'msg="Listening on" address=(\S+)', said)
        return found[1] if found and 'Server is ready' in said else None

    def ask(self, path, **fields):
        """What an interface of its API answers; fields with several values are lists."""
        url = f'http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(fields, doseq=True)}'
        try:
            with urllib.request.urlopen(url, timeout=LONG) as answer:
                return json.load(answer)['data']
        except urllib.error.HTTPError as e:
            raise AssertionError(f'{path} {fields}: {e.read().decode()}') from e

    def query(self, expr):
        """[(labels, value)] of an expression now."""
        return [(sample['metric'], float(sample['value'][1])) for sample in self.ask('query', query=expr)['result']]


def wait_for(what, look):
    """What look() gives once it gives something."""
    deadline = time.monotonic() + LONG
    while not (found := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f'it did not come to it that {what}')
        time.sleep(0.05)
    return found


def main():
    if sys.argv[1:2] == ['--keep']:
        keep(sys.argv[2])
    elif not all(find(name) for name in PROGRAMS):
        print(PACKAGE)


if __name__ == '__main__':
    main()
