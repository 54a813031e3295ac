# SPDX-License-Identifier: MIT
"""One connection: requests become frames, frames become events. Both clients stand on it; neither of them
knows the protocol. It never waits: who owns it watches the socket and calls receive() and transmit().

1. An exchange (a request and what answers it) is in `_pending` from submit() until its final event has come
   or the connection has ended. Ids are never used twice.
2. Hello is the first exchange. The first event must be its answer, or an error about the connection.
3. A connection ends once, with one reason (`error`). Everything pending then ends with that reason.
4. Events for ids that are not pending, and events of unknown kinds, are ignored: a newer daemon may send more.
   An event that its request cannot get, and bytes that are no message, end the connection.
5. When the daemon has stopped reading, what it has sent is still read: its last message is the reason.
6. Events wait for their reader in memory, counted by their bytes on the wire. Beyond PAUSE bytes nothing
   more is received, unless a reader waits for something that is not here yet: it may be behind what another
   reader has not taken, and that reader may be the same task. So nothing waits forever. Beyond MAX bytes the
   exchange that holds most of them ends with `limit` and is cancelled.
7. An exchange that nobody wants any more (`abandon()`) is cancelled, and what still comes for it is dropped.
"""
from __future__ import annotations

import os
import socket
from collections import deque
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Callable, Deque, Dict, FrozenSet, Generic, NoReturn, Optional, Set, Tuple, TypeVar

from google.protobuf.message import Message

from . import confab_pb2 as messages
from . import errors, frame
from .errors import ConfabError

E = TypeVar('E')
R = TypeVar('R')

VERSION = 1  # of the protocol
CHUNK_SIZE = 256 << 10  # of a file in the stream
_EVENT_COST = 256  # what an event costs beside its bytes
_READS_PER_CALL = 16  # then other things in the caller's loop have their turn


@dataclass(frozen=True)
class Call(Generic[E, R]):
    """A request as it can be submitted: E is what its events are read as, R its result."""

    verb: str  # field of Request
    body: Message
    result: str  # field of Event: the final one if it is not an error
    events: FrozenSet[str] = frozenset()  # fields of Event that may come before
    with_fd: bool = False  # a descriptor comes with the result
    take_event: Callable[[Any], Any] = lambda event: event
    take_result: Callable[[Any, int], Any] = lambda result, fd: result  # takes over the descriptor
    result_is_event: bool = False  # who reads the events is given the result as the last one


@dataclass(eq=False)
class Exchange(Generic[E, R]):
    """A request that was submitted."""

    id: int
    call: Call[E, R]
    events: Deque[Tuple[E, int]] = field(default_factory=deque)  # with what each costs
    cost: int = 0  # of events
    ended: bool = False
    result: Optional[R] = None
    error: Optional[ConfabError] = None  # ended with it
    abandoned: bool = False
    wake: Optional[Callable[[], None]] = None  # a reader waits for something that is not here yet

    @property
    def ready(self) -> bool:
        """There is an event to be taken, or the end."""
        return bool(self.events) or self.ended


@dataclass
class _Frame:
    data: memoryview  # what is not sent yet
    file: Optional[BinaryIO]  # goes with its first byte

    def close(self) -> None:
        if self.file:
            self.file.close()
            self.file = None


class Connection:
    """See above. The socket is connected and belongs to the connection. `act_uid` and `tenant`: the owner to
    act for; submit nothing before `hello` is known."""

    PAUSE = 1 << 20
    MAX = 64 << 20

    def __init__(self, sock: socket.socket, act_uid: Optional[int] = None, tenant: Optional[str] = None,
                 max_frame: int = frame.MAX_EVENT) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.error: Optional[ConfabError] = None
        self.hello: Optional[messages.Hello] = None
        self.before_close: Callable[[], None] = lambda: None  # the socket is about to be closed
        self.waiting = 0  # exchanges with `wake`
        self.buffered = 0  # sum of the exchanges' costs
        self._outgoing: Deque[_Frame] = deque()
        self._write_closed = False
        self._decoder = frame.Decoder(max_frame)
        self._pending: Dict[int, Exchange[Any, Any]] = {}
        self._holding: Set[Exchange[Any, Any]] = set()  # with events that wait
        self._next_id = 1
        self._max_request = frame.MAX_REQUEST
        self._act_uid, self._tenant = act_uid, tenant
        body = messages.Hello(version=VERSION, software='confab for Python', max_frame=max_frame, act_uid=act_uid,
                              tenant=tenant)
        self.greeting: Exchange[NoReturn, messages.Hello] = self.submit(Call('hello', body, 'hello'))

    @property
    def owner(self) -> Tuple[Optional[int], Optional[str]]:
        """For whom the daemon takes the requests: uid and tenant. An older daemon does not tell."""
        hello = self.hello or messages.Hello()
        return (hello.act_uid if hello.HasField('act_uid') else None,
                hello.tenant if hello.HasField('tenant') else None)

    # ---- requests ----

    def submit(self, call: Call[E, R], file: Optional[BinaryIO] = None) -> Exchange[E, R]:
        """Queues a request. Its descriptor is that of `file`, which is taken over. ConfabError: the reason why
        the connection is over; `limit`: longer than the daemon takes."""
        if self.error:
            if file:
                file.close()
            raise self.error.again()
        exchange = Exchange(self._next_id, call)
        self._queue(exchange.id, call.verb, call.body, file)
        self._next_id += 1
        self._pending[exchange.id] = exchange
        return exchange

    def send_chunk(self, exchange: Exchange[Any, Any], data: bytes, last: bool = False) -> None:
        """Queues bytes of a file, at most `chunk_size` of them."""
        if not self.error and not exchange.ended:
            self._queue(exchange.id, 'chunk', messages.Chunk(data=data, last=last), None)

    @property
    def chunk_size(self) -> int:
        return max(1, min(CHUNK_SIZE, self._max_request - 64))

    def cancel(self, exchange: Exchange[Any, Any]) -> None:
        """Asks the daemon to end a request early. It still gets its own final event."""
        if not exchange.ended and not self.error:
            asked: Exchange[NoReturn, None] = self.submit(Call('cancel', messages.Cancel(request=exchange.id), 'empty'))
            asked.abandoned = True

    def abandon(self, exchange: Exchange[Any, Any]) -> None:
        """Nobody reads it any more."""
        if exchange.abandoned:
            return
        exchange.abandoned = True
        self.stop_waiting(exchange)
        self._drop_events(exchange)
        self.cancel(exchange)
        if exchange.result is not None and exchange.call.with_fd:
            exchange.result.close()

    def begin_waiting(self, exchange: Exchange[Any, Any], wake: Callable[[], None]) -> None:
        """A reader waits until the exchange is ready; `wake` is called then."""
        if exchange.wake:
            raise RuntimeError('something else reads this request already')
        exchange.wake = wake
        self.waiting += 1

    def stop_waiting(self, exchange: Exchange[Any, Any]) -> None:
        if exchange.wake:
            exchange.wake = None
            self.waiting -= 1

    def take(self, exchange: Exchange[E, R]) -> Optional[E]:
        """The next event of an exchange that is ready; None behind the last one. ConfabError."""
        if exchange.events:
            item, cost = exchange.events.popleft()
            exchange.cost -= cost
            self.buffered -= cost
            if not exchange.events:
                self._holding.discard(exchange)
            return item
        if exchange.error:
            raise exchange.error.again()
        return None

    # ---- bytes ----

    @property
    def wants_read(self) -> bool:
        """More may be received (invariant 6)."""
        return not self.error and (self.buffered <= self.PAUSE or self.waiting > 0)

    @property
    def wants_write(self) -> bool:
        return not self.error and bool(self._outgoing)

    def transmit(self) -> None:
        """Sends without waiting what it can."""
        while self._outgoing and not self.error:
            first = self._outgoing[0]
            try:
                n = frame.send(self.socket, first.data, first.file.fileno() if first.file else -1)
            except (BlockingIOError, InterruptedError):
                return
            except (BrokenPipeError, ConnectionResetError):
                self._write_closed = True
                self._drop_outgoing()
                self.receive()
                return
            except OSError as e:
                self._end(errors.SYSTEM, f'cannot send to the daemon: {e.strerror}')
                return
            first.close()
            first.data = first.data[n:]
            if not first.data:
                self._outgoing.popleft()

    def receive(self) -> None:
        """Receives without waiting, and hands out events."""
        for _ in range(_READS_PER_CALL):
            if self.error or not self.wants_read:
                return
            try:
                data, fd = frame.receive(self.socket)
            except (BlockingIOError, InterruptedError):
                if self._write_closed:
                    self._end(errors.DISCONNECTED, 'the daemon stopped listening')
                return
            except ConnectionResetError:
                data, fd = b'', -1
            except OSError as e:
                self._end(errors.SYSTEM, f'cannot receive from the daemon: {e.strerror}')
                return
            if not data:
                self._see_end()
                return
            try:
                self._see_bytes(data, fd)
            except MemoryError:
                self._end(errors.NO_MEMORY, 'no memory for what the daemon sent')
            except BaseException:
                # An interrupt in the middle: nobody knows what was handled.
                self._end(errors.SYSTEM, 'reading from the daemon was interrupted')
                raise

    def close(self) -> None:
        """Ends the connection from this side."""
        self._end(errors.DISCONNECTED, 'the connection was closed on this side', False)

    # ---- inside ----

    def _queue(self, request: int, verb: str, body: Message, file: Optional[BinaryIO]) -> None:
        fields: Dict[str, Any] = {verb: body}
        data = messages.Request(id=request, **fields).SerializeToString()
        if len(data) > self._max_request:
            if file:
                file.close()
            raise ConfabError(errors.LIMIT, f'a request of {len(data)} bytes: the daemon takes at most '
                                            f'{self._max_request}')
        self._outgoing.append(_Frame(memoryview(frame.encode(data)), file))

    def _drop_outgoing(self) -> None:
        while self._outgoing:
            self._outgoing.popleft().close()

    def _drop_events(self, exchange: Exchange[Any, Any]) -> None:
        self.buffered -= exchange.cost
        exchange.cost = 0
        exchange.events.clear()
        self._holding.discard(exchange)

    def _end(self, code: str, message: str, retry: bool = True) -> None:
        """Invariant 3."""
        if self.error:
            return
        self.error = ConfabError(code, message, retry)
        self._drop_outgoing()
        self._decoder.close()
        self.before_close()
        self.socket.close()
        for exchange in [*self._pending.values()]:
            self._finish(exchange, None, self.error)

    def _see_end(self) -> None:
        if self._decoder.partial:
            self._end(errors.DISCONNECTED, 'the daemon broke off in the middle of a message')
        elif not self.hello:
            self._end(errors.DISCONNECTED, 'the daemon hung up before it greeted')
        else:
            self._end(errors.DISCONNECTED, 'the daemon closed the connection')

    def _see_bytes(self, data: bytes, fd: int) -> None:
        self._decoder.push(data, fd)
        while not self.error:
            try:
                item = self._decoder.next()
            except frame.FrameError as e:
                self._end(errors.PROTOCOL, f'the daemon sent what cannot be read: {e}')
                return
            if item is None:
                return
            self._see_frame(*item)

    def _see_frame(self, data: bytes, fd: int) -> None:
        try:
            event = messages.Event.FromString(data)
        except MemoryError:
            raise
        except Exception as e:  # pylint: disable=broad-except  # whatever the protobuf library thinks of it
            self._end(errors.PROTOCOL, f'the daemon sent what cannot be read: {e}')
            event = None
        taken = event is not None and self._see_event(event, len(data), fd)
        if fd >= 0 and not taken:
            os.close(fd)

    def _see_event(self, event: messages.Event, size: int, fd: int) -> bool:
        """True: the descriptor was taken over."""
        kind = event.WhichOneof('kind')
        if event.request == 0 or not self.hello:
            self._see_connection_event(event, kind)
            return False
        exchange = self._pending.get(event.request)
        if not exchange or kind is None:
            return False
        call, body = exchange.call, getattr(event, kind)
        if kind == 'error':
            self._finish(exchange, None, _error(body))
        elif kind == call.result and call.with_fd and fd < 0:
            self._end(errors.PROTOCOL, 'the daemon gave an export without its file descriptor')
        elif kind == call.result:
            try:
                result = call.take_result(body, fd)
            except OSError as e:
                self._end(errors.PROTOCOL, f'what came with an export is no file: {e.strerror}')
                return False
            self._finish(exchange, result, None, size)
            return call.with_fd
        elif kind in call.events:
            self._add_event(exchange, call.take_event(body), size)
        else:
            self._end(errors.PROTOCOL, 'the daemon gave the answer to another question')
        return False

    def _see_connection_event(self, event: messages.Event, kind: Optional[str]) -> None:
        if kind == 'error' and event.request in (0, self.greeting.id):
            error = _error(event.error)
            self._end(error.code, error.message, error.retry)
        elif kind == 'hello' and event.request == self.greeting.id:
            self._see_hello(event.hello)
        elif event.request != 0:
            self._end(errors.PROTOCOL, 'the daemon did not begin with Hello')

    def _see_hello(self, hello: messages.Hello) -> None:
        acts = self._act_uid is not None or self._tenant is not None
        agrees = (self._act_uid in (None, hello.act_uid if hello.HasField('act_uid') else -1)
                  and self._tenant == (hello.tenant if hello.HasField('tenant') else None))
        if hello.version != VERSION:
            self._end(errors.UNSUPPORTED, f'the daemon speaks protocol version {hello.version}, not {VERSION}', False)
        elif acts and not agrees:
            self._end(errors.UNSUPPORTED, 'the daemon does not act for other owners', False)
        else:
            self.hello = hello
            if hello.HasField('max_frame'):
                self._max_request = hello.max_frame
            self._finish(self.greeting, hello, None)

    def _add_event(self, exchange: Exchange[Any, Any], item: Any, size: int) -> None:
        if exchange.abandoned:
            return
        cost = size + _EVENT_COST
        exchange.events.append((item, cost))
        exchange.cost += cost
        self.buffered += cost
        self._holding.add(exchange)
        self._wake(exchange)
        if self.buffered > self.MAX:
            self._overflow(max(self._holding, key=lambda other: other.cost))

    def _overflow(self, exchange: Exchange[Any, Any]) -> None:
        cost = exchange.cost
        self._drop_events(exchange)
        self.cancel(exchange)
        self._finish(exchange, None, ConfabError(
            errors.LIMIT, f'its reader is {cost} bytes behind, and others wait for what comes after them: read '
                          'faster, or over a connection of its own', True))

    def _finish(self, exchange: Exchange[Any, Any], result: Any, error: Optional[ConfabError], size: int = 0) -> None:
        self._pending.pop(exchange.id, None)
        if exchange.abandoned and exchange.call.with_fd and result is not None:
            result.close()
        exchange.result, exchange.error = result, error
        if exchange.call.result_is_event and result is not None:
            self._add_event(exchange, result, size)
        exchange.ended = True
        self._wake(exchange)

    def _wake(self, exchange: Exchange[Any, Any]) -> None:
        wake = exchange.wake
        self.stop_waiting(exchange)
        if wake:
            wake()


def _error(body: messages.Error) -> ConfabError:
    return ConfabError(body.code or errors.PROTOCOL, body.message or 'the daemon gave no reason', body.retry, body.machine, body.address)
