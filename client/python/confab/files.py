# SPDX-License-Identifier: MIT
"""Files that travel as descriptors: what Export gives, and what Import takes."""
from __future__ import annotations

import fcntl
import os
import shutil
from typing import Any, BinaryIO, Union

_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK


class Export:
    """An exported conversation. `file` is open for reading, from its beginning; the caller closes it, or uses
    the object in a `with` statement. `size` in bytes; `n_memory_tokens`: tokens whose memory the file has."""

    def __init__(self, file: BinaryIO, size: int, n_memory_tokens: int) -> None:
        self.file = file
        self.size = size
        self.n_memory_tokens = n_memory_tokens

    @classmethod
    def of(cls, exported: Any, fd: int) -> Export:
        return cls(os.fdopen(fd, 'rb'), exported.size, exported.n_memory_tokens)

    def close(self) -> None:
        self.file.close()

    def __enter__(self) -> Export:
        return self

    def __exit__(self, *_why: object) -> None:
        self.close()


def _is_sealed(source: BinaryIO) -> bool:
    """A memfd as the daemon wants it, which is to be read from its beginning."""
    try:
        return fcntl.fcntl(source.fileno(), fcntl.F_GET_SEALS) & _SEALS == _SEALS and source.tell() == 0
    except (OSError, ValueError, AttributeError):
        return False


def sealed(source: Union[bytes, BinaryIO]) -> BinaryIO:
    """A file that Import takes: `source` itself, opened a second time, if it is a sealed memfd, else a copy of
    it from its present position on. The caller's. OSError."""
    if not isinstance(source, (bytes, bytearray, memoryview)) and _is_sealed(source):
        return os.fdopen(os.dup(source.fileno()), 'rb')
    with os.fdopen(os.memfd_create('confab-import', os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), 'w+b') as copy:
        if isinstance(source, (bytes, bytearray, memoryview)):
            copy.write(source)
        else:
            shutil.copyfileobj(source, copy, 256 << 10)
        copy.flush()
        fcntl.fcntl(copy.fileno(), fcntl.F_ADD_SEALS, _SEALS)
        return os.fdopen(os.dup(copy.fileno()), 'rb')
