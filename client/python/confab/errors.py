# SPDX-License-Identifier: MIT
"""The one exception of this package, and the words that its `code` may be."""
from __future__ import annotations

# From the daemon. A newer daemon may have further ones: `message` and `retry` still hold.
NOT_FOUND = 'not_found'
EXISTS = 'exists'
BUSY = 'busy'
CONFLICT = 'conflict'
LIMIT = 'limit'
CONTEXT = 'context_length_exceeded'
INVALID = 'invalid'
STATE = 'state'
UNSUPPORTED = 'unsupported'
PERMISSION = 'permission'
CANCELLED = 'cancelled'
SHUTDOWN = 'shutdown'
UNAVAILABLE = 'unavailable'
MOVED = 'moved'
FORMAT = 'format'
CORRUPT = 'corrupt'
NO_MEMORY = 'no_memory'
SYSTEM = 'system'
# From this side.
NO_DAEMON = 'no_daemon'  # nobody listens on the socket
DISCONNECTED = 'disconnected'  # the connection ended before the answer
PROTOCOL = 'protocol'  # the daemon broke the protocol; the connection is over


class ConfabError(Exception):
    """A request, or the connection, has failed.

    code: a stable word for programs, see above and docs/protocol.md.
    message: one sentence for people, without a period.
    retry: the same request may succeed later without anybody changing it.
    machine, address: with MOVED, as far as they are known: who has the conversation, and where that is reached, 'https://HOST[:PORT]'
        (on the loopback 'http://') of a gateway, or 'unix:PATH' of a daemon on this host; else empty.
    """

    def __init__(self, code: str, message: str, retry: bool = False, machine: str = '', address: str = '') -> None:
        super().__init__(code, message, retry)
        self.code = code
        self.message = message
        self.retry = retry
        self.machine = machine
        self.address = address

    def __str__(self) -> str:
        return f'{self.message} ({self.code})'

    def again(self) -> ConfabError:
        """A copy to be raised: one exception object must not be raised in two places."""
        return ConfabError(self.code, self.message, self.retry, self.machine, self.address)
