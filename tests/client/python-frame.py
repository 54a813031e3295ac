#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""python-frame.py PACKAGE-FOLDER CONFABD SOURCE: frames and descriptors of the Python client."""
import os
import socket

from rig import frame, main, need

MESSAGES = [b'a', b'bc' * 70, b'd' * 16384, b'e' * 300]
STREAM = b''.join(frame.encode(message) for message in MESSAGES)


def take_all(decoder):
    found = []
    while True:
        item = decoder.next()
        if item is None:
            return found
        found.append(item)


def split_anywhere():
    """The same messages, wherever the stream is cut."""
    for size in (1, 2, 3, 127, 4096, len(STREAM)):
        decoder = frame.Decoder()
        found = []
        for at in range(0, len(STREAM), size):
            decoder.push(STREAM[at:at + size])
            found += take_all(decoder)
        need([message for message, _ in found] == MESSAGES, f'pieces of {size}')
        need(not decoder.partial, 'nothing is left')


def bad(data, words, max_frame=1000):
    decoder = frame.Decoder(max_frame)
    decoder.push(data)
    for _ in range(2):  # it keeps failing
        try:
            decoder.next()
        except frame.FrameError as e:
            need(words in str(e), f'{data!r}: {e}')
        else:
            raise AssertionError(f'{data!r} is taken')


def lengths():
    bad(b'\x00', 'malformed')
    bad(b'\x85\x00', 'malformed')
    bad(b'\x80\x80\x80\x80\x80', 'malformed')
    bad(b'\xff\xff\xff\xff\x7f', 'malformed', 1 << 40)
    bad(frame.encode(b'x' * 1001), 'at most 1000')
    bad(frame.encode(b'x' * 1001)[:2], 'at most 1000')
    decoder = frame.Decoder(1000)
    decoder.push(frame.encode(b'x' * 1000))
    need(decoder.next() == (b'x' * 1000, -1), 'the longest')


def pipe_end():
    """A descriptor, and a function that tells whether it is closed everywhere."""
    read, write = os.pipe()
    os.set_blocking(read, False)

    def closed():
        try:
            return os.read(read, 1) == b''
        except BlockingIOError:
            return False
    return write, closed, lambda: os.close(read)


def descriptors():
    """Which frame a descriptor belongs to, by the read that it came with."""
    one, two = frame.encode(b'one'), frame.encode(b'two')
    for reads, owner in (
            ([(one, True), (two, False)], b'one'),
            ([(one + two, True)], b'two'),  # the last one that begins within the read
            ([(one + two[:1], True), (two[1:], False)], b'two'),
            ([(one[:1], True), (one[1:] + two, False)], b'one'),
            ([(one[:1], False), (one[1:], True), (two, False)], None),  # not with a first byte
            ([(one[:2], True), (one[2:3], True), (one[3:], False)], b'one')):
        decoder = frame.Decoder()
        closes, found = [], []
        for data, with_fd in reads:
            fd = -1
            if with_fd:
                fd, closed, end = pipe_end()
                closes.append((closed, end))
            decoder.push(data, fd)
            found += take_all(decoder)
        need([message for message, fd in found if fd >= 0] == ([owner] if owner else []), f'{reads}: {found}')
        need([c() for c, _ in closes].count(False) == (1 if owner else 0), f'{reads}: others are closed')
        for _, fd in found:
            if fd >= 0:
                os.close(fd)
        decoder.close()
        for closed, end in closes:
            need(closed(), f'{reads}: all are closed')
            end()


def close_closes():
    decoder = frame.Decoder()
    ends = []
    for i in range(12):  # more than may wait
        fd, closed, end = pipe_end()
        ends.append((closed, end))
        decoder.push(b'\x05' if i == 0 else b'', fd)
    decoder.close()
    for closed, end in ends:
        need(closed(), 'closed')
        end()


def over_a_socket():
    """receive() and send(): the first of several descriptors counts."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        fd, closed, end = pipe_end()
        other, other_closed, other_end = pipe_end()
        data = frame.encode(b'message')
        socket.send_fds(theirs, [data], [fd, other])
        os.close(fd)
        os.close(other)
        got, came = frame.receive(ours)
        need(got == data and came >= 0, 'came')
        need(not os.get_inheritable(came), 'close-on-exec')
        need(other_closed() and not closed(), 'the second is closed')
        n = frame.send(ours, memoryview(data), came)
        os.close(came)
        back, back_fd = frame.receive(theirs)
        need(n == len(data) and back == data and not closed(), 'sent back')
        os.close(back_fd)
        need(closed(), 'nobody has it any more')
        end()
        other_end()


main(split_anywhere, lengths, descriptors, close_closes, over_a_socket)
