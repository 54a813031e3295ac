# SPDX-License-Identifier: MIT
"""What is common to the replies of both clients."""
from __future__ import annotations

from . import confab_pb2 as messages
from .verbs import ReplyEvent


def delta_text(event: ReplyEvent) -> str:
    """The text of the reply that this event brings, without reasoning and calls."""
    if not isinstance(event, messages.Delta):
        return ''
    return event.text + ''.join(part.text for part in event.parts if part.kind == messages.PART_TEXT)
