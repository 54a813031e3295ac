# SPDX-License-Identifier: MIT
"""The blocking client: the same methods as those of confab.Client, without asyncio and without threads.

A method returns when its request has ended. continue_(), attach(), watch(), export_stream(), backup() and check() submit their
request at once and give a Stream, to be read with `for`; several may be read in turns, and other methods may be
called in between. A Client belongs to one thread at a time. It reads its socket only while a method runs: when
none does for long the daemon pauses what it writes.
"""
from __future__ import annotations

import functools
import select
import socket
import threading
import time
from collections import deque
from contextlib import contextmanager
from typing import (Any, BinaryIO, Callable, Concatenate, Deque, Generic, Iterable, Iterator, NoReturn, Optional,
                    ParamSpec, Tuple, TypeVar, Union)

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
    """The events of a request, read with `for`.

    Leaving it early (close(), the end of a `with` block, or letting go of the object) cancels the request at
    the daemon. `result` is known at the end.
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

    def close(self) -> None:
        """Nothing more is read."""
        self._client._abandon(self._exchange)

    def __iter__(self) -> Iterator[E]:
        return self

    def __next__(self) -> E:
        """TimeoutError leaves the stream as it is."""
        if self._exchange.abandoned:
            raise StopIteration
        item = self._client._next(self._exchange)
        if item is None:
            raise StopIteration
        return item

    def __enter__(self) -> Stream[E, R]:
        return self

    def __exit__(self, *_why: object) -> None:
        self.close()

    def __del__(self) -> None:
        self._client._let_go(self._exchange)


class Reply(Stream[verbs.ReplyEvent, messages.Done]):
    """A reply that is written: Accepted, Progress, Delta, and in the end Done, which is `result`, too."""

    def __enter__(self) -> Reply:
        return self

    def texts(self) -> Iterator[str]:
        """The text of the reply in pieces, without reasoning and calls."""
        for event in self:
            text = delta_text(event)
            if text:
                yield text

    def text(self) -> str:
        """The rest of the text, once the reply is done."""
        return ''.join(self.texts())


def _called(make: Callable[P, Call[NoReturn, R]]) -> Callable[Concatenate[Client, P], R]:
    @functools.wraps(make)
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._end(self._submit(make(*args, **kwargs)))
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
    """A connection to the daemon: `with Client.connect() as client: ...`.

    timeout: seconds that a method, or the next event of a stream, may take; None: any time. Beyond it comes
    TimeoutError: a method's request is cancelled, a stream may be asked again.
    """

    def __init__(self, connection: Connection, timeout: Optional[float] = None) -> None:
        """connect() and from_socket() make one."""
        self.timeout = timeout
        self._connection = connection
        self._busy = False
        self._thread = threading.get_ident()
        self._dropped: Deque[Exchange[Any, Any]] = deque()
        self._fd = connection.socket.fileno()

    @classmethod
    def connect(cls, path: Optional[str] = None, *, uid: Optional[int] = None, tenant: Optional[str] = None,
                timeout: Optional[float] = None) -> Client:
        """Connects to the daemon that listens on the Unix socket `path` (default_path()), and greets it.
        `uid` and `tenant` name the owner to act for; the daemon decides whether that may be (`permission`).
        ConfabError: `no_daemon`, `permission`, `unavailable`, `limit`, ..."""
        return cls.from_socket(_connect(path or default_path(), timeout), uid=uid, tenant=tenant, timeout=timeout)

    @classmethod
    def from_socket(cls, sock: socket.socket, *, uid: Optional[int] = None, tenant: Optional[str] = None,
                    timeout: Optional[float] = None) -> Client:
        """The same over a connected stream socket, which the client then owns."""
        client = cls(Connection(sock, uid, tenant), timeout)
        try:
            client._end(client._connection.greeting)
        except BaseException:
            client.disconnect()
            raise
        return client

    def disconnect(self) -> None:
        """Ends the connection; close() closes conversations. Requests in flight end with `disconnected`, and
        the daemon cancels those that are not detached."""
        self._connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_why: object) -> None:
        self.disconnect()

    @property
    def server(self) -> str:
        """Name and version of the daemon."""
        return self._connection.hello.software if self._connection.hello else ''

    @property
    def owner(self) -> Tuple[Optional[int], Optional[str]]:
        """For whom the daemon takes the requests: uid and tenant."""
        return self._connection.owner

    open = _called(verbs.open)
    fork = _called(verbs.fork)
    rewind = _called(verbs.rewind)
    close = _called(verbs.close)
    get = _called(verbs.get)
    list = _called(verbs.list)
    update = _called(verbs.update)
    warm = _called(verbs.warm)
    evict = _called(verbs.evict)
    carry = _called(verbs.carry)
    publish = _called(verbs.publish)
    find = _called(verbs.find)
    cancel = _called(verbs.cancel)
    tokenize = _called(verbs.tokenize)
    model_info = _called(verbs.model_info)
    stats = _called(verbs.stats)
    figures = _called(verbs.figures)
    settings = _called(verbs.settings)
    users = _called(verbs.users)
    act_on_user = _called(verbs.act_on_user)
    drain = _called(verbs.drain)
    quota = _called(verbs.quota)
    export = _called(verbs.export)
    continue_ = _replied(verbs.continue_)
    attach = _replied(verbs.attach)
    watch = _streamed(verbs.watch)
    export_stream = _streamed(verbs.export_stream)
    backup = _streamed(verbs.backup)
    check = _streamed(verbs.check)

    def import_(self, source: Union[bytes, BinaryIO], name: Optional[str] = None) -> messages.Conversation:
        """Makes a conversation of an exported file: bytes, or an open binary file from its position on. It is
        copied into memory that cannot change, unless it is such memory already."""
        return self._end(self._submit(verbs.import_(name), sealed(source)))

    def import_stream(self, source: Iterable[bytes], name: Optional[str] = None) -> messages.Conversation:
        """The same of pieces, which are sent as fast as the daemon takes them."""
        exchange = self._submit(verbs.import_(name, in_stream=True))
        try:
            for piece in source:
                if not self._send_piece(exchange, piece):
                    break
        except BaseException:
            self._abandon(exchange)
            raise
        with self._working():
            self._connection.send_chunk(exchange, b'', True)
        return self._end(exchange)

    # ---- requests ----

    def _submit(self, call: Call[E, R], file: Optional[BinaryIO] = None) -> Exchange[E, R]:
        with self._working():
            exchange = self._connection.submit(call, file)
            self._connection.transmit()
        return exchange

    def _next(self, exchange: Exchange[E, R]) -> Optional[E]:
        """The next event; None behind the last one."""
        with self._working():
            self._wait(exchange, lambda: exchange.ready)
            return self._connection.take(exchange)

    def _end(self, exchange: Exchange[NoReturn, R]) -> R:
        try:
            self._next(exchange)
        except BaseException:
            self._abandon(exchange)
            raise
        return exchange.result  # type: ignore[return-value]

    def _cancel(self, exchange: Exchange[Any, Any]) -> None:
        with self._working():
            self._connection.cancel(exchange)
            self._connection.transmit()

    def _abandon(self, exchange: Exchange[Any, Any]) -> None:
        with self._working():
            self._connection.abandon(exchange)
            self._connection.transmit()

    def _send_piece(self, exchange: Exchange[Any, Any], piece: bytes) -> bool:
        """False: the request has ended already."""
        connection, size = self._connection, self._connection.chunk_size
        with self._working():
            for at in range(0, len(piece), size):
                connection.send_chunk(exchange, piece[at:at + size])
                self._wait(exchange, lambda: exchange.ended or not connection.wants_write)
        return not exchange.ended

    def _let_go(self, exchange: Exchange[Any, Any]) -> None:
        """From anywhere: the garbage collector may run in any thread, and in the middle of something."""
        if exchange.abandoned or (exchange.ended and not exchange.events):
            return
        self._dropped.append(exchange)
        if not self._busy and threading.get_ident() == self._thread:
            with self._working():
                self._connection.transmit()

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Around everything that touches the connection."""
        before = self._busy
        self._busy, self._thread = True, threading.get_ident()
        try:
            while self._dropped:
                self._connection.abandon(self._dropped.popleft())
            yield
        finally:
            self._busy = before

    # ---- bytes ----

    def _wait(self, exchange: Exchange[Any, Any], done: Callable[[], bool]) -> None:
        """Sends and receives until `done`. TimeoutError."""
        connection = self._connection
        connection.transmit()
        if done():
            return
        deadline = None if self.timeout is None else time.monotonic() + self.timeout
        connection.begin_waiting(exchange, lambda: None)
        try:
            while not done():
                self._poll(deadline)
                connection.transmit()
                connection.receive()
        finally:
            connection.stop_waiting(exchange)

    def _poll(self, deadline: Optional[float]) -> None:
        poll = select.poll()
        poll.register(self._fd, select.POLLIN | (select.POLLOUT if self._connection.wants_write else 0))
        left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
        if not poll.poll(left):
            raise TimeoutError('the daemon has not answered in time')


def _connect(path: str, timeout: Optional[float]) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    deadline = None if timeout is None else time.monotonic() + timeout
    sock.setblocking(timeout is None)
    pause = 0.001
    try:
        while True:
            try:
                sock.connect(path)
                return sock
            except BlockingIOError:
                # The daemon's queue of connections is full. No event tells when it no longer is.
                if deadline is not None and time.monotonic() >= deadline:
                    raise TimeoutError('the daemon has not accepted the connection in time') from None
                time.sleep(pause)
                pause = min(2 * pause, 0.1)
            except OSError as e:
                raise connect_error(path, e) from None
    except BaseException:
        sock.close()
        raise
