# SPDX-License-Identifier: MIT
"""Talk to confabd, the session daemon for local language models.

Client is for asyncio, blocking.Client for everything else. Both have one method for each verb of the protocol.
`messages` are the protocol's messages and enums, in which results and events come; word() gives an enum's number
as the word that the rest of confab prints.
"""
from . import blocking, errors
from . import confab_pb2 as messages
from .client import Client, Reply, Stream
from .errors import ConfabError
from .files import Export
from .place import default_path
from .words import word

__all__ = ['Client', 'ConfabError', 'Export', 'Reply', 'Stream', 'blocking', 'default_path', 'errors', 'messages',
           'word']
