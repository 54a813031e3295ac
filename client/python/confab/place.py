# SPDX-License-Identifier: MIT
"""Where the daemon is, and why it cannot be reached."""
from __future__ import annotations

import errno
import os

from . import errors
from .errors import ConfabError

_SYSTEM_SOCKET = '/run/confab/confab.sock'


def default_path() -> str:
    """The socket that the command `confab` would take: $CONFAB_SOCKET, the user's own if there is one, the system's."""
    named = os.environ.get('CONFAB_SOCKET')
    if named:
        return named
    folder = os.environ.get('XDG_RUNTIME_DIR', '')
    path = os.path.join(folder if folder.startswith('/') else f'/run/user/{os.getuid()}', 'confab/confab.sock')
    if not os.path.exists(path) and os.path.exists(_SYSTEM_SOCKET):
        return _SYSTEM_SOCKET
    return path


def connect_error(path: str, e: OSError) -> ConfabError:
    why = e.strerror or str(e)
    if e.errno in (errno.ENOENT, errno.ENOTDIR, errno.ECONNREFUSED):
        return ConfabError(errors.NO_DAEMON, f'no daemon listens on {path}: {why}', True)
    if e.errno in (errno.EACCES, errno.EPERM):
        return ConfabError(errors.PERMISSION, f'no access to the daemon on {path}: {why}')
    if e.errno is None:  # Python's own: the path is too long for an address
        return ConfabError(errors.INVALID, f'{path} is no path of a socket: {why}')
    return ConfabError(errors.SYSTEM, f'cannot connect to {path}: {why}')
