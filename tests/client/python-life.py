#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""python-life.py PACKAGE-FOLDER CONFABD SOURCE: many requests at once, their ends before time, and slow readers."""
import asyncio
import gc
import os
import socket
import tempfile

from rig import Daemon, Peer, blocking, both, confab, event, fails, frame, hello, main, messages, need, scripted
from confab import word
from confab.connection import Connection

# A reply that cannot end before somebody reads it: 20 MB, of which the daemon and the kernel hold 2 or 3.
LONG = {'max_tokens': 1200, 'ignore_eos': True, 'logprobs': 1000}
QUESTIONS = ['Hello!', 'What is the capital of France?', 'Who are you?', 'What is 3 plus 4?', 'Good night.']


async def ends_as(watch, conversation):
    """How the next turn of this conversation ends."""
    async for notice in watch:
        if notice.conversation == conversation.id and notice.kind == messages.NOTICE_TURN_ENDED:
            return word(messages.FinishReason, notice.finish)
    raise AssertionError('the watch has ended')


async def begun_watch(client):
    """A watch that misses nothing from now on."""
    watch = client.watch()
    async for notice in watch:
        need(notice.kind == messages.NOTICE_MODEL, f'{notice}')
        return watch


async def many_at_once(connect, _from_socket):
    with Daemon() as daemon:
        async with await connect(daemon.path) as client:
            alone = []
            for question in QUESTIONS:
                conversation = await client.open()
                alone.append(await client.continue_(conversation, question, sampling={'temperature': 0}).text())
            conversations = [await client.open() for _ in QUESTIONS]
            replies = [client.continue_(c, q, sampling={'temperature': 0}) for c, q in zip(conversations, QUESTIONS)]
            need(await asyncio.gather(*[reply.text() for reply in replies]) == alone, 'the same as alone')
            replies = [client.continue_(c, q, sampling={'temperature': 0}, at_turn=0)
                       for c, q in zip(conversations, QUESTIONS)]
            # Which one has words first is the scheduler's business: a turn may bring something else than a delta.
            texts = {reply.id: '' for reply in replies}
            while replies:  # one event of each in turns
                for reply in replies[:]:
                    async for part in reply:
                        if isinstance(part, messages.Delta):
                            texts[reply.id] += part.text
                        break
                    else:
                        replies.remove(reply)
            need([*texts.values()] == alone, f'in turns: {texts}')


async def hundred_calls():
    with Daemon() as daemon:
        async with await confab.Client.connect(daemon.path) as client:
            await client.open('one')
            for _ in range(4):  # of a user, 64 may be in flight
                got = await asyncio.gather(*[client.get('one') for _ in range(50)])
                need(all(c.name == 'one' for c in got), 'all')


async def cancelled_task():
    with Daemon() as daemon:
        async with await confab.Client.connect(daemon.path) as client, \
                await confab.Client.connect(daemon.path) as other:
            conversation = await client.open()
            watch, begun = await begun_watch(other), asyncio.Event()

            async def read():
                async for part in client.continue_(conversation, 'Count.', **LONG):
                    if isinstance(part, messages.Delta):
                        begun.set()

            task = asyncio.create_task(read())
            await begun.wait()
            task.cancel()
            try:
                await task
                raise AssertionError('the task was not cancelled')
            except asyncio.CancelledError:
                pass
            need(await ends_as(watch, conversation) == 'cancelled', 'at the daemon')
            need((await client.get(conversation)).n_turns == 2, 'the connection lives')


async def let_go(connect, _from_socket):
    """A stream that nobody has any more, a block that is left, aclose()."""
    with Daemon() as daemon:
        async with await connect(daemon.path) as client, await confab.Client.connect(daemon.path) as other:
            watch = await begun_watch(other)
            for how in ('dropped', 'closed', 'cancelled'):
                conversation = await client.open()
                reply = client.continue_(conversation, 'Count.', **LONG)
                async for part in reply:
                    if isinstance(part, messages.Delta):
                        break
                if how == 'dropped':
                    del reply
                    gc.collect()
                elif how == 'closed':
                    await reply.aclose()
                else:
                    reply.cancel()
                    async for part in reply:
                        pass
                    need(word(messages.FinishReason, reply.result.finish) == 'cancelled', f'{reply.result}')
                need(await ends_as(watch, conversation) == 'cancelled', how)
                need(len((await client.get(conversation, turns=True)).turn_list) == 2, 'what was said is kept')


async def killed(connect, _from_socket):
    with Daemon() as daemon:
        async with await connect(daemon.path) as client:
            conversation = await client.open()
            reply = client.continue_(conversation, 'Count.', **LONG)
            watch = client.watch()
            async for part in reply:
                if isinstance(part, messages.Delta):
                    break
            daemon.kill()
            for stream in (reply, watch):
                with fails('disconnected') as errors:
                    async for _ in stream:
                        pass
                need(errors[0].retry, 'a new daemon may come')
            with fails('disconnected'):
                await client.get(conversation)
            with fails('disconnected'):
                client.continue_(conversation, 'x')


async def restarted(connect, _from_socket):
    """What was acknowledged is there; an unanswered message is answered by another connection."""
    with Daemon() as daemon:
        async with await connect(daemon.path) as client:
            await client.open('trip')
            reply = client.continue_('trip', 'Hello!', **LONG)
            async for part in reply:
                if isinstance(part, messages.Accepted):
                    break
            daemon.kill()
            del reply  # not before, or it would be cancelled
        daemon.start()
        async with await connect(daemon.path) as client:
            need((await client.get('trip')).unanswered, 'kept without an answer')
            await client.continue_('trip', max_tokens=3).text()
            need((await client.get('trip')).n_turns == 2, 'answered')


async def detached(connect, _from_socket):
    with Daemon() as daemon:
        async with await connect(daemon.path) as client:
            await client.open('trip', sampling={'temperature': 0})
            reply = client.continue_('trip', 'Hello!', detach=True, max_tokens=200, ignore_eos=True)
            async for part in reply:
                if isinstance(part, messages.Accepted):
                    revision = part.revision
                    break
        async with await connect(daemon.path) as client:
            text = await client.attach('trip', expect_revision=revision).text()
            turns = (await client.get('trip', turns=True)).turn_list
            need(turns[1].text.decode().startswith(text) and turns[1].run.n_generated == 200, f'{turns[1]}')


async def slow_reader(connect, _from_socket):
    """A reply that is not read holds up no other request of the connection, and is whole when it is read."""
    with Daemon() as daemon:
        async with await connect(daemon.path) as client:
            conversation = await client.open()
            reply = client.continue_(conversation, 'Count.', **LONG)
            for _ in range(30):
                need((await client.get(conversation)).id == conversation.id, 'answered')
            n = 0
            async for part in reply:
                if isinstance(part, messages.Delta):
                    n += len(part.tokens)
                    if n % 100 == 0:
                        await client.get(conversation)
            need(n == reply.result.n_generated == LONG['max_tokens'], f'{n}')


# ---- with a peer that the test plays, in the same thread: what is received is exactly known ----

def delta(request, size):
    return event(request, delta=messages.Delta(text='x' * size))


def send_all_at_once(peer, data):
    """The number of bytes that the socket took."""
    try:
        return peer.sock.send(data)
    except BlockingIOError:
        return 0


async def turn():
    for _ in range(3):
        await asyncio.sleep(0)


async def flow():
    """Nothing is received while a megabyte waits; a waiting request changes that, up to the limit."""
    ours, theirs = socket.socketpair()
    peer = Peer(theirs)
    peer.write(hello())
    client = await confab.Client.from_socket(ours)
    peer.read()
    reply = client.continue_(1, 'x')
    connection = client._connection
    peer.read()
    theirs.setblocking(False)
    data, sent = delta(reply.id, 1000) * 60, 0
    pending = memoryview(b'')
    while connection.wants_read or sent < Connection.PAUSE:
        pending = pending or memoryview(data)
        n = send_all_at_once(peer, pending)
        pending, sent = pending[n:], sent + n
        await turn()
    need(connection.buffered < Connection.PAUSE + 4 * frame.READ_SIZE, f'{connection.buffered} bytes')
    before, n = connection.buffered, 1
    while n:
        pending = pending or memoryview(data)
        n = send_all_at_once(peer, pending)
        pending = pending[n:]
        await turn()
    need(connection.buffered == before, 'nothing is received meanwhile')
    while not connection.wants_read:
        need(len((await reply.__anext__()).text) == 1000, 'what was sent')
    after = connection.buffered
    await turn()
    need(after <= Connection.PAUSE and connection.buffered > after, 'read on once there is room')
    await client.disconnect()
    with fails('disconnected'):
        async for _ in reply:
            pass
    peer.close()


def behind():
    """Somebody waits for what comes behind the events that nobody reads. Beyond the limit these go."""
    before = Connection.MAX
    Connection.MAX = 3 << 20

    def script(peer):
        peer.write(hello())
        ids = [peer.read()[0].id for _ in range(3)]
        need(ids == [1, 2, 3], f'{ids}')
        peer.write(delta(2, 2 << 20) + event(3, conversation=messages.Conversation(id=8)))
        need(peer.read()[0].get.conversation.id == 9, 'the next')
        peer.write(delta(2, 1 << 20) + delta(2, 1 << 20))
        request = peer.read()[0]
        need(request.cancel.request == 2, f'{request}')
        peer.write(event(4, conversation=messages.Conversation(id=9)) + event(request.id, empty=messages.Empty()))
        peer.write(event(2, done=messages.Done(finish=messages.FINISH_CANCELLED)))
        need(peer.read() is None, 'the end')

    try:
        with scripted(script) as sock, blocking.Client.from_socket(sock, timeout=60) as client:
            reply = client.continue_(1, 'x')
            need(client.get(8).id == 8 and client.get(9).id == 9, 'answered')
            with fails('limit') as errors:
                next(reply)
            need(errors[0].retry and client._connection.buffered == 0, f'{errors}')
            need(not client._connection._holding, 'nothing is remembered of it')
    finally:
        Connection.MAX = before


async def cancelled_call():
    """Whoever cancels a call that is awaited cancels the request."""
    def script(peer):
        peer.write(hello())
        peer.read()
        need(peer.read()[0].warm.conversation.id == 5, 'the call')
        peer.write(event(0))  # woken up by nothing
        request = peer.read()[0]
        need(request.cancel.request == 2, f'{request}')
        peer.write(event(2, error=messages.Error(code='cancelled', message='it was')))
        peer.write(event(request.id, empty=messages.Empty()))
        need(peer.read()[0].WhichOneof('verb') == 'stats', 'the connection lives')
        peer.write(event(4, stats=messages.StatsResult()))
        need(peer.read() is None, 'the end')

    with scripted(script) as sock:
        async with await confab.Client.from_socket(sock) as client:
            task = asyncio.create_task(client.warm(5))
            await turn()
            task.cancel()
            await asyncio.wait([task])
            need(task.cancelled(), f'{task}')
            need(await client.stats() == {}, 'stats')


def timeouts():
    """A call that takes too long is cancelled; a stream may be asked again."""
    def script(peer):
        peer.write(hello())
        need([peer.read()[0].WhichOneof('verb') for _ in range(3)] == ['hello', 'warm', 'cancel'], 'cancelled')
        need(peer.read()[0].WhichOneof('verb') == 'watch', 'the stream')
        need(peer.read()[0].WhichOneof('verb') == 'stats', 'asked again')
        peer.write(event(4, notice=messages.Notice(cursor='c')) + event(5, stats=messages.StatsResult()))
        need(peer.read()[0].cancel.request == 4, 'let go')

    with scripted(script) as sock, blocking.Client.from_socket(sock) as client:
        client.timeout = 0.01
        try:
            client.warm(5)
            raise AssertionError('answered')
        except TimeoutError:
            pass
        stream = client.watch()
        try:
            next(stream)
            raise AssertionError('a notice')
        except TimeoutError:
            pass
        client.timeout = 60
        client.stats()
        need(next(stream).cursor == 'c', 'asked again')
        stream.close()
        stream.close()


async def queue_is_full():
    """A daemon that accepts nobody for a while is waited for."""
    with tempfile.TemporaryDirectory(prefix='confab-client-') as folder, socket.socket(socket.AF_UNIX) as listener:
        path = os.path.join(folder, 'socket')
        listener.bind(path)
        listener.listen(0)
        fillers = []
        while True:
            fillers.append(socket.socket(socket.AF_UNIX))
            fillers[-1].setblocking(False)
            try:
                fillers[-1].connect(path)
            except BlockingIOError:
                break
        try:
            blocking.Client.connect(path, timeout=0.01)
            raise AssertionError('connected')
        except TimeoutError:
            pass
        task = asyncio.create_task(confab.Client.connect(path))
        await turn()
        need(not task.done(), f'{task}')
        for filler in fillers:
            filler.close()
        listener.setblocking(False)
        loop = asyncio.get_running_loop()
        while not task.done():
            accepted, _ = await loop.sock_accept(listener)
            with accepted:
                try:
                    await loop.sock_sendall(accepted, hello())
                    if await loop.sock_recv(accepted, 100):
                        await asyncio.wait([task])
                except (BrokenPipeError, ConnectionResetError):
                    pass  # one of those that filled it
        client = await task
        need(client.server == 'fake', client.server)
        await client.disconnect()


async def one_reader():
    """Two tasks cannot read one stream; leaving the block ends it."""
    def script(peer):
        peer.write(hello())
        need([peer.read()[0].WhichOneof('verb') for _ in range(3)] == ['hello', 'continue', 'cancel'], 'cancelled')

    with scripted(script) as sock:
        async with await confab.Client.from_socket(sock) as client:
            async with client.continue_(1, 'x') as reply:
                task = asyncio.create_task(reply.__anext__())
                await turn()
                try:
                    await reply.__anext__()
                    raise AssertionError('read twice')
                except RuntimeError:
                    pass
                task.cancel()
                await asyncio.wait([task])
            need([part async for part in reply] == [], 'left')


def descriptors_stay_few():
    """Nothing of all this has left a descriptor open."""
    gc.collect()
    names = []
    for fd in os.listdir('/proc/self/fd'):
        try:
            names.append(os.readlink(f'/proc/self/fd/{fd}'))
        except OSError:
            pass
    need(not [name for name in names if 'memfd' in name], f'{names}')
    need(len(names) < 16, f'{names}')


main(*both(many_at_once), hundred_calls, cancelled_task, *both(let_go), *both(killed), *both(restarted),
     *both(detached), *both(slow_reader), flow, behind, cancelled_call, timeouts, queue_is_full, one_reader,
     descriptors_stay_few)
