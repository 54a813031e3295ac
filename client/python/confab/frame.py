# SPDX-License-Identifier: MIT
"""Frames: the length of a message as a varint, then the message. The same rules as in proto/proto.h.

1. A length is trusted only up to the reader's own limit, and memory is taken only as bytes arrive.
2. A length has its shortest form and is not 0. There is no way to find the next frame after a bad one, so
   a decoder that has failed keeps failing.
3. A file descriptor belongs to the frame with whose first byte it came. The sender sends it in a call of its
   own, with bytes of no other frame, and the kernel ends a read with the bytes of such a call; so the frame
   is the last one that begins within the read. At most one descriptor per read is kept.
4. A descriptor that belongs to no frame, or that its frame does not take, is closed.
"""
from __future__ import annotations

import array
import os
import socket
from typing import List, Optional, Tuple

MAX_REQUEST = 4 << 20  # the longest message that a daemon takes before it has said otherwise
MAX_EVENT = 16 << 20  # the longest message that this package takes
READ_SIZE = 64 << 10

_MAX_HEADER = 5
_MAX_FDS = 8  # descriptors that may wait for their frame to be complete
_SCM_MAX_FD = 253  # the kernel's limit for one message: all arrive here, and those not wanted are closed


class FrameError(Exception):
    """The stream of frames cannot be read any further."""


def encode(message: bytes) -> bytes:
    """The frame of a message, which is not empty."""
    n = len(message)
    header = bytearray()
    while n >= 0x80:
        header.append(n & 0x7F | 0x80)
        n >>= 7
    header.append(n)
    return bytes(header) + message


def receive(sock: socket.socket) -> Tuple[bytes, int]:
    """Bytes, b'' at the end, and a descriptor that came with them (the caller's, close-on-exec) or -1."""
    data, control, _flags, _address = sock.recvmsg(
        READ_SIZE, socket.CMSG_SPACE(_SCM_MAX_FD * array.array('i').itemsize), socket.MSG_CMSG_CLOEXEC)
    fds = array.array('i')
    for level, kind, value in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(value[:len(value) - len(value) % fds.itemsize])
    keep = 1 if data else 0  # with no byte it belongs to nothing
    for fd in fds[keep:]:
        os.close(fd)
    return data, fds[0] if keep and fds else -1


def send(sock: socket.socket, data: memoryview, fd: int) -> int:
    """Sends bytes of one frame, from its first byte on if `fd` is a descriptor to go with it (else -1).
    The number of bytes sent."""
    if fd < 0:
        return sock.send(data, socket.MSG_NOSIGNAL)
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [fd]))]
    return sock.sendmsg([data], rights, socket.MSG_NOSIGNAL)


class Decoder:
    """Bytes as they are received in, messages out."""

    def __init__(self, max_frame: int = MAX_EVENT) -> None:
        self.max_frame = max_frame
        self._data = bytearray()
        self._at = 0  # of the stream: position of _data[0]
        self._fds: List[Tuple[int, int, int]] = []  # descriptor; positions [begin, end) of its read
        self._failed: Optional[str] = None

    def push(self, data: bytes, fd: int = -1) -> None:
        """Adds what was received at once. Takes over the descriptor. Then take all messages out."""
        begin = self._at + len(self._data)
        self._data += data
        if fd >= 0 and (len(self._fds) == _MAX_FDS or self._failed):
            os.close(fd)
        elif fd >= 0:
            self._fds.append((fd, begin, begin + len(data)))

    def next(self) -> Optional[Tuple[bytes, int]]:
        """The next message and the descriptor that came with it (then the caller's), or -1. None: more
        bytes are needed. FrameError."""
        if self._failed:
            raise FrameError(self._failed)
        header, size = self._length()
        if not header or len(self._data) < header + size:
            self._drop_fds(self._at, True)
            return None
        begin, end = self._at, self._at + header + size
        message = bytes(memoryview(self._data)[header:header + size])
        del self._data[:header + size]
        self._at = end
        fd = -1
        for item in self._fds:
            if item[1] <= begin < item[2] <= end:
                self._fds.remove(item)
                fd = item[0]
                break
        self._drop_fds(begin, False)
        return message, fd

    @property
    def partial(self) -> bool:
        """In the middle of a frame: if the stream ends here, the peer broke off."""
        return bool(self._data)

    def close(self) -> None:
        """Forgets everything and closes what waits."""
        self._failed = self._failed or 'the stream of frames is closed'
        self._data.clear()
        self._drop_fds(self._at, True)
        while self._fds:
            os.close(self._fds.pop()[0])

    def _length(self) -> Tuple[int, int]:
        """(bytes of the length, the length); (0, 0): more bytes are needed."""
        value = 0
        for i, byte in enumerate(self._data[:_MAX_HEADER]):
            value |= (byte & 0x7F) << 7 * i
            if byte & 0x80:
                continue
            if byte == 0 or value > 0xFFFFFFFF:
                self._fail('malformed frame length')
            if value > self.max_frame:
                self._fail(f'frame of {value} bytes, at most {self.max_frame} are taken')
            return i + 1, value
        if len(self._data) >= _MAX_HEADER:
            self._fail('malformed frame length')
        return 0, 0

    def _fail(self, why: str) -> None:
        self._failed = why
        raise FrameError(why)

    def _drop_fds(self, at: int, is_open: bool) -> None:
        """Frames before position `at` are done. `is_open`: the bytes from there on are the beginning of one
        frame, so descriptors that came with its later bytes belong to no frame."""
        for item in self._fds[:]:
            if item[2] <= at or (is_open and item[1] > at):
                self._fds.remove(item)
                os.close(item[0])
