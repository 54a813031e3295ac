# SPDX-License-Identifier: MIT
"""axe-core, which finds what keeps people from using a page. It comes from the npm registry: tools/check fetches the version of axe.json
beforehand (tools/lib.sh), into the cache folder where tools/check-clients has its packages. Tests that need it are skipped without it.

    axe.py                    prints the name of the package if it has to be fetched
    axe.py --keep TARBALL     puts it there
"""
import base64
import contextlib
import functools
import hashlib
import json
import os
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MISSING = 'no axe-core here (tools/check fetches it)'


def wanted():
    """Version, and sha512 of its package."""
    with open(HERE + '/axe.json', encoding='utf-8') as f:
        return json.load(f)


def path():
    version = wanted()['version']
    cache = os.environ.get('XDG_CACHE_HOME') or os.path.join(os.path.expanduser('~'), '.cache')
    return os.path.join(cache, 'confab-clients', f'axe-core-{version}', 'axe.min.js')


@functools.cache
def source():
    """Its text; None if it is not here."""
    if not os.path.exists(path()):
        return None
    with open(path(), encoding='utf-8') as f:
        return f.read()


def keep(tarball):
    """Puts what tests use of the package there, if it is the one that is meant. It appears once it is complete."""
    with open(tarball, 'rb') as f:
        data = f.read()
    if base64.b64encode(hashlib.sha512(data).digest()).decode() != wanted()['sha512']:
        sys.exit(f'{tarball} is not axe-core {wanted()["version"]}')
    folder = os.path.dirname(path())
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(folder)) as made, tarfile.open(tarball) as files:
        for name in 'axe.min.js', 'LICENSE':
            with open(f'{made}/{name}', 'wb') as f:
                f.write(files.extractfile('package/' + name).read())
        os.chmod(made, 0o755)
        with contextlib.suppress(OSError): # another was quicker
            os.rename(made, folder)
        os.makedirs(made, exist_ok=True) # for TemporaryDirectory to remove


def main():
    if sys.argv[1:2] == ['--keep']:
        keep(sys.argv[2])
    elif not source():
        print(f'axe-core@{wanted()["version"]}')


if __name__ == '__main__':
    main()
