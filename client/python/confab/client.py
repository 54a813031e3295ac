# SPDX-License-Identifier: MIT
"""The client for asyncio.

All requests of a Client share one connection and run at the same time. Most methods are awaited and give
their result. continue_(), attach(), watch(), export_stream(), backup() and check() submit their request at once and give a
Stream, to be read with `async for`. A Client belongs to the event loop that it was connected in.
"""
from __future__ import annotations

import asyncio
import functools
import socket
from typing import (Any, AsyncIterable, AsyncIterator, BinaryIO, Callable, Concatenate, Coroutine, Generic, Iterable,
                    NoReturn, Optional, ParamSpec, Set, Tuple, TypeVar, Union)

from . import confab_pb2 as messages
from . import verbs
from .connection import Call, Connection, Exchange
from .files import sealed
from .place import connect_error, default_path
from .reply import delta_text

E = TypeVar('E')
R = TypeVar('R')
P = ParamSpec('P')


class Stream(Generic[E, R]):
    """The events of a request, read with `async for`, by one task at a time.

    Leaving it early (aclose(), the end of an `async with` block, a cancelled task that waits for the next
    event, or letting go of the object) cancels the request at the daemon. `result` is known at the end.
    """

    def __init__(self, client: Client, exchange: Exchange[E, R]) -> None:
        self._client = client
        self._exchange = exchange

    @property
    def id(self) -> int:
        """Of the request on this connection, for Client.cancel(request=...)."""
        return self._exchange.id

    @property
    def result(self) -> Optional[R]:
        """What the request ended with; None before, and where there is nothing to tell."""
        return self._exchange.result

    def cancel(self) -> None:
        """Asks the daemon to end the request early. Read on: a reply ends with Done and `cancelled`."""
        self._client._cancel(self._exchange)

    async def aclose(self) -> None:
        """Nothing more is read."""
        self._client._abandon(self._exchange)

    def __aiter__(self) -> AsyncIterator[E]:
        return self

    async def __anext__(self) -> E:
        if self._exchange.abandoned:
            raise StopAsyncIteration
        item = await self._client._next(self._exchange)
        if item is None:
            raise StopAsyncIteration
        return item

    async def __aenter__(self) -> Stream[E, R]:
        return self

    async def __aexit__(self, *_why: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        self._client._let_go(self._exchange)


class Reply(Stream[verbs.ReplyEvent, messages.Done]):
    """A reply that is written: Accepted, Progress, Delta, and in the end Done, which is `result`, too."""

    async def __aenter__(self) -> Reply:
        return self

    async def texts(self) -> AsyncIterator[str]:
        """The text of the reply in pieces, without reasoning and calls."""
        async for event in self:
            text = delta_text(event)
            if text:
                yield text

    async def text(self) -> str:
        """The rest of the text, once the reply is done."""
        return ''.join([text async for text in self.texts()])


def _awaited(make: Callable[P, Call[NoReturn, R]]) -> Callable[Concatenate[Client, P], Coroutine[Any, Any, R]]:
    @functools.wraps(make)
    async def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._end(self._submit(make(*args, **kwargs)))
    return method


def _streamed(make: Callable[P, Call[E, R]]) -> Callable[Concatenate[Client, P], Stream[E, R]]:
    @functools.wraps(make)
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> Stream[E, R]:
        return Stream(self, self._submit(make(*args, **kwargs)))
    return method


def _replied(make: Callable[P, Call[verbs.ReplyEvent, messages.Done]]) -> Callable[Concatenate[Client, P], Reply]:
    @functools.wraps(make)
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> Reply:
        return Reply(self, self._submit(make(*args, **kwargs)))
    return method


class Client:
    """A connection to the daemon: `async with await Client.connect() as client: ...`."""

    def __init__(self, connection: Connection) -> None:
        """connect() and from_socket() make one."""
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._fd = connection.socket.fileno()
        self._reading = self._writing = False
        self._drained: Set[asyncio.Future[None]] = set()
        connection.before_close = self._unwatch
        self._advance()

    @classmethod
    async def connect(cls, path: Optional[str] = None, *, uid: Optional[int] = None,
                      tenant: Optional[str] = None) -> Client:
        """Connects to the daemon that listens on the Unix socket `path` (default_path()), and greets it.
        `uid` and `tenant` name the owner to act for; the daemon decides whether that may be (`permission`).
        ConfabError: `no_daemon`, `permission`, `unavailable`, `limit`, ..."""
        return await cls.from_socket(await _connect(path or default_path()), uid=uid, tenant=tenant)

    @classmethod
    async def from_socket(cls, sock: socket.socket, *, uid: Optional[int] = None,
                          tenant: Optional[str] = None) -> Client:
        """The same over a connected stream socket, which the client then owns."""
        client = cls(Connection(sock, uid, tenant))
        try:
            await client._end(client._connection.greeting)
        except BaseException:
            await client.disconnect()
            raise
        return client

    async def disconnect(self) -> None:
        """Ends the connection; close() closes conversations. Requests in flight end with `disconnected`, and
        the daemon cancels those that are not detached."""
        self._connection.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_why: object) -> None:
        await self.disconnect()

    @property
    def server(self) -> str:
        """Name and version of the daemon."""
        return self._connection.hello.software if self._connection.hello else ''

    @property
    def owner(self) -> Tuple[Optional[int], Optional[str]]:
        """For whom the daemon takes the requests: uid and tenant."""
        return self._connection.owner

    open = _awaited(verbs.open)
    fork = _awaited(verbs.fork)
    rewind = _awaited(verbs.rewind)
    close = _awaited(verbs.close)
    get = _awaited(verbs.get)
    list = _awaited(verbs.list)
    update = _awaited(verbs.update)
    warm = _awaited(verbs.warm)
    evict = _awaited(verbs.evict)
    carry = _awaited(verbs.carry)
    publish = _awaited(verbs.publish)
    find = _awaited(verbs.find)
    cancel = _awaited(verbs.cancel)
    tokenize = _awaited(verbs.tokenize)
    model_info = _awaited(verbs.model_info)
    stats = _awaited(verbs.stats)
    figures = _awaited(verbs.figures)
    settings = _awaited(verbs.settings)
    users = _awaited(verbs.users)
    act_on_user = _awaited(verbs.act_on_user)
    drain = _awaited(verbs.drain)
    quota = _awaited(verbs.quota)
    export = _awaited(verbs.export)
    continue_ = _replied(verbs.continue_)
    attach = _replied(verbs.attach)
    watch = _streamed(verbs.watch)
    export_stream = _streamed(verbs.export_stream)
    backup = _streamed(verbs.backup)
    check = _streamed(verbs.check)

    async def import_(self, source: Union[bytes, BinaryIO], name: Optional[str] = None) -> messages.Conversation:
        """Makes a conversation of an exported file: bytes, or an open binary file from its position on. It is
        copied into memory that cannot change, in a thread, unless it is such memory already."""
        file = await asyncio.to_thread(sealed, source)
        return await self._end(self._submit(verbs.import_(name), file))

    async def import_stream(self, source: Union[Iterable[bytes], AsyncIterable[bytes]],
                            name: Optional[str] = None) -> messages.Conversation:
        """The same of pieces, which are sent as fast as the daemon takes them."""
        exchange = self._submit(verbs.import_(name, in_stream=True))
        try:
            if isinstance(source, AsyncIterable):
                async for piece in source:
                    if not await self._send_piece(exchange, piece):
                        break
            else:
                for piece in source:
                    if not await self._send_piece(exchange, piece):
                        break
        except BaseException:
            self._abandon(exchange)
            raise
        self._connection.send_chunk(exchange, b'', True)
        self._advance()
        return await self._end(exchange)

    # ---- requests ----

    def _submit(self, call: Call[E, R], file: Optional[BinaryIO] = None) -> Exchange[E, R]:
        exchange = self._connection.submit(call, file)
        self._advance()
        return exchange

    async def _next(self, exchange: Exchange[E, R]) -> Optional[E]:
        """The next event; None behind the last one. Whoever cancels this cancels the request."""
        try:
            while not exchange.ready:
                await self._sleep(exchange)
        except asyncio.CancelledError:
            self._abandon(exchange)
            raise
        item = self._connection.take(exchange)
        self._advance()
        return item

    async def _end(self, exchange: Exchange[NoReturn, R]) -> R:
        await self._next(exchange)
        return exchange.result  # type: ignore[return-value]

    async def _sleep(self, exchange: Exchange[Any, Any], drained: bool = False) -> None:
        """Until the exchange is ready, or with `drained` everything is sent."""
        future = self._loop.create_future()

        def wake() -> None:
            if not future.done():
                future.set_result(None)

        self._connection.begin_waiting(exchange, wake)
        if drained:
            self._drained.add(future)
        self._advance()
        try:
            await future
        finally:
            self._drained.discard(future)
            self._connection.stop_waiting(exchange)

    async def _send_piece(self, exchange: Exchange[Any, Any], piece: bytes) -> bool:
        """False: the request has ended already."""
        size = self._connection.chunk_size
        for at in range(0, len(piece), size):
            self._connection.send_chunk(exchange, piece[at:at + size])
            self._advance()
            while self._connection.wants_write and not exchange.ended:
                await self._sleep(exchange, True)
        return not exchange.ended

    def _cancel(self, exchange: Exchange[Any, Any]) -> None:
        self._connection.cancel(exchange)
        self._advance()

    def _abandon(self, exchange: Exchange[Any, Any]) -> None:
        self._connection.abandon(exchange)
        self._advance()

    def _let_go(self, exchange: Exchange[Any, Any]) -> None:
        """From anywhere: the garbage collector may run in any thread, and in the middle of something."""
        if exchange.abandoned or (exchange.ended and not exchange.events):
            return
        try:
            self._loop.call_soon_threadsafe(self._abandon, exchange)
        except RuntimeError:  # the loop is closed, and nobody reads the connection
            pass

    # ---- bytes ----

    def _advance(self) -> None:
        """Sends what can be sent, and watches the socket for what is wanted."""
        connection = self._connection
        if connection.wants_write and not self._writing:
            connection.transmit()
        if connection.wants_read != self._reading:
            self._reading = connection.wants_read
            if self._reading:
                self._loop.add_reader(self._fd, self._readable)
            elif not connection.error:
                self._loop.remove_reader(self._fd)
        if connection.wants_write != self._writing:
            self._writing = connection.wants_write
            if self._writing:
                self._loop.add_writer(self._fd, self._writable)
            elif not connection.error:
                self._loop.remove_writer(self._fd)
        if not connection.wants_write:
            for future in self._drained:
                if not future.done():
                    future.set_result(None)

    def _readable(self) -> None:
        self._connection.receive()
        self._advance()

    def _writable(self) -> None:
        self._connection.transmit()
        self._advance()

    def _unwatch(self) -> None:
        """The socket is about to be closed."""
        if not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._fd)


async def _connect(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    sock.setblocking(False)
    pause = 0.001
    try:
        while True:
            try:
                sock.connect(path)
                return sock
            except BlockingIOError:
                # The daemon's queue of connections is full. No event tells when it no longer is.
                await asyncio.sleep(pause)
                pause = min(2 * pause, 0.1)
            except OSError as e:
                raise connect_error(path, e) from None
    except BaseException:
        sock.close()
        raise
