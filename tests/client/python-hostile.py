#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""python-hostile.py PACKAGE-FOLDER CONFABD SOURCE: whatever the daemon sends, the worst is the end of the connection,
and every request in flight ends with an error."""
import gc
import os
import random
import socket
import threading

from rig import TIMEOUT, ConfabError, both, event, fails, frame, hello, main, messages, need, scripted
from confab import word

def conversation(request, **fields):
    return event(request, conversation=messages.Conversation(id=7, **fields))


def open_fds():
    gc.collect()
    return len(os.listdir('/proc/self/fd'))


async def answer(from_socket, *data, n_requests=1, use=lambda client: client.get(7), fd=-1, hello_fields=None,
                 **how):
    """The client's outcome if the peer sends `data` once the requests are there, and closes."""
    before = open_fds()

    def script(peer):
        if data and data[0] == b'first':  # instead of Hello
            for piece in data[1:]:
                peer.write(piece)
            return
        peer.write(hello(**(hello_fields or {})))
        for _ in range(n_requests + 1):
            if not peer.read():
                return
        for piece in data:
            if fd >= 0:
                socket.send_fds(peer.sock, [piece], [fd, fd])
            else:
                peer.write(piece)

    with scripted(script) as sock:
        async with await from_socket(sock, **how) as client:
            result = await use(client)
    need(open_fds() == before, 'a descriptor is left open')
    return result


async def broken_frames(_connect, from_socket):
    for data, code in (
            (b'\x00', 'protocol'),
            (b'\x85\x00', 'protocol'),
            (b'\xff\xff\xff\xff\xff\x01', 'protocol'),
            (frame.encode(b'\xff' * 50), 'protocol'),
            (frame.encode(b'\x1a\xff\xff\xff\xff\x0f'), 'protocol'),
            (b'\x81\x80\x80\x08' + b'x' * 100, 'protocol'),  # 16 MiB and one byte
            (b'HTTP/1.1 400 Bad Request\r\n\r\n' * 9, 'protocol'),
            (conversation(2)[:-1], 'disconnected'),
            (b'\x80', 'disconnected'),
            (b'', 'disconnected')):
        with fails(code) as errors:
            await answer(from_socket, data)
        need(errors[0].message, f'{data!r}')


async def text_that_is_none(_connect, from_socket):
    """What is handed on as text is UTF-8."""
    good = conversation(2, name='abcdef')
    need((await answer(from_socket, good)).name == 'abcdef', 'good')
    with fails('protocol'):
        await answer(from_socket, good.replace(b'abcdef', b'ab\xff\xfeef'))


async def deep(_connect, from_socket):
    """A message within a message within a message."""
    inner = b''
    for _ in range(5000):
        size = frame.encode(b'x' * len(inner))[:-len(inner)] if inner else b'\x00'
        inner = b'\x0a' + size + inner  # field 1 of Found is Conversation; unknown further in
    for data in (b'\x08\x02\x8a\x01' + frame.encode(inner), b'\x08\x02' + b'\x0b' * 100000):
        with fails('protocol', 'disconnected'):
            await answer(from_socket, frame.encode(data))


async def wrong_requests(_connect, from_socket):
    """Events for requests that are none are ignored, kinds that the client does not know as well."""
    unknown = frame.encode(messages.Event(request=2).SerializeToString() + b'\xfa\x3e\x03abc')
    got = await answer(from_socket, conversation(99), event(2 ** 64 - 1, empty=messages.Empty()), unknown, event(0),
                       hello(), conversation(2, residency=77), conversation(2), conversation(1))
    need(got.id == 7 and word(messages.Residency, got.residency) == 'unknown', f'{got}')


async def other_answers(_connect, from_socket):
    for data in (event(2, done=messages.Done()), event(2, delta=messages.Delta()), event(2, chunk=messages.Chunk()),
                 event(2, notice=messages.Notice()), event(2, exported=messages.Exported())):
        with fails('protocol'):
            await answer(from_socket, data)


async def endings(_connect, from_socket):
    """The reason that the daemon gives for the end is the one that every request gets."""
    last = event(0, error=messages.Error(code='shutdown', message='the daemon stops', retry=True))

    async def use(client):
        streams = [client.continue_(7, 'x'), client.watch(), client.attach(7)]
        for stream in streams:
            with fails('shutdown') as errors:
                async for _ in stream:
                    pass
            need(errors[0].retry and errors[0].message == 'the daemon stops', f'{errors}')
        with fails('shutdown'):
            await client.get(7)
    await answer(from_socket, last, n_requests=3, use=use)
    with fails('busy') as errors:
        await answer(from_socket, event(2, error=messages.Error(code='busy', message='held')))
    need(errors[0].message == 'held' and not errors[0].retry, f'{errors}')
    with fails('brand_new'):
        await answer(from_socket, event(2, error=messages.Error(code='brand_new', message='what')))
    with fails('protocol'):
        await answer(from_socket, event(2, error=messages.Error()))


async def deaf(_connect, from_socket):
    """A daemon that does not listen any more: what it has said before is the reason, if it has said something."""
    for word_before, code in ((b'', 'disconnected'),
                              (event(0, error=messages.Error(code='shutdown', message='bye')), 'shutdown')):
        stopped, done = threading.Event(), threading.Event()

        def script(peer):
            peer.write(hello())
            peer.read()
            peer.write(word_before)
            peer.sock.shutdown(socket.SHUT_RD)
            stopped.set()
            need(done.wait(TIMEOUT), 'the client waits')

        with scripted(script) as sock:
            try:
                async with await from_socket(sock) as client:
                    need(stopped.wait(TIMEOUT), 'the script')
                    with fails(code):
                        await client.get(7)
            finally:
                done.set()


async def greetings(_connect, from_socket):
    for data, code in (
            (b'', 'disconnected'),
            (hello()[:3], 'disconnected'),
            (conversation(2), 'protocol'),
            (hello(version=2), 'unsupported'),
            (frame.encode(messages.Event(request=2, hello=messages.Hello()).SerializeToString()), 'protocol'),
            (event(1, error=messages.Error(code='permission', message='no')), 'permission'),
            (event(0, error=messages.Error(code='unavailable', message='no model')), 'unavailable')):
        with fails(code):
            await answer(from_socket, b'first', data)
    for how in ({'uid': 5}, {'tenant': 'x'}, {'uid': 5, 'tenant': 'x', 'hello_fields': {'act_uid': 5}},
                {'uid': 5, 'hello_fields': {'act_uid': 5, 'tenant': 'y'}}):
        with fails('unsupported'):
            await answer(from_socket, **how)


async def descriptors(_connect, from_socket):
    """An export without one; one that nobody asked for."""
    with fails('protocol'):
        await answer(from_socket, event(2, exported=messages.Exported(size=5)), use=lambda client: client.export(7))
    with open('/dev/null', 'rb') as null:
        need((await answer(from_socket, conversation(2), fd=null.fileno())).id == 7, 'not asked for')
        with fails('not_found'):
            await answer(from_socket, event(2, error=messages.Error(code='not_found', message='none')),
                         use=lambda client: client.export(7), fd=null.fileno())
        exported = await answer(from_socket, event(2, exported=messages.Exported(size=5)), fd=null.fileno(),
                                use=lambda client: take(client.export(7)))
        need(exported == (5, b''), f'{exported}')
    folder = os.open('/', os.O_RDONLY)
    try:
        with fails('protocol'):
            await answer(from_socket, event(2, exported=messages.Exported(size=5)), fd=folder,
                         use=lambda client: client.export(7))
    finally:
        os.close(folder)


async def take(export):
    with await export as exported:
        return exported.size, exported.file.read()


async def long_requests(_connect, from_socket):
    """What the daemon would not take is not sent."""
    async def use(client):
        with fails('limit') as errors:
            await client.open('x' * 2000)
        need('1024' in errors[0].message, f'{errors}')
        with fails('limit'):
            client.continue_(7, 'x' * 2000)
        return await client.get(7)
    need((await answer(from_socket, conversation(2), use=use, hello_fields={'max_frame': 1024})).id == 7, 'lives')


async def damaged_streams(_connect, from_socket):
    """A good conversation of both sides, with bytes changed, lost and doubled."""
    good = (event(2, accepted=messages.Accepted(n_prompt=5)) + event(2, delta=messages.Delta(text='Grüß', tokens=[
        messages.DeltaToken(token=5, logprob=-1, top=[messages.TokenLogprob(token=6, text=b'\xff')])]))
        + event(3, notice=messages.Notice(cursor='c', kind=messages.NOTICE_MODEL)) + event(2, done=messages.Done())
        + event(4, exported=messages.Exported(size=5)) + event(3, empty=messages.Empty()))
    chance = random.Random(5)

    async def use(client):
        for stream in (client.continue_(7, 'x'), client.watch(), client.export_stream(7)):
            try:
                async for _ in stream:
                    pass
            except ConfabError:
                pass  # nothing else may come

    for _ in range(150):
        data = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(data))
            what = chance.randrange(3)
            if what == 0:
                data[at] = chance.randrange(256)
            elif what == 1:
                del data[at:at + chance.randint(1, 9)]
            else:
                data[at:at] = data[at:at + chance.randint(1, 9)]
            data = data or bytearray(b'x')
        try:
            await answer(from_socket, bytes(data), use=use, n_requests=1)
        except ConfabError:
            pass  # over before the second request


main(*both(broken_frames), *both(text_that_is_none), *both(deep), *both(wrong_requests), *both(other_answers),
     *both(endings), *both(deaf), *both(greetings), *both(descriptors), *both(long_requests), *both(damaged_streams))
