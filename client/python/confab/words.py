# SPDX-License-Identifier: MIT
"""Enums as the lower-case words that the rest of confab prints: FINISH_STOP is "stop"."""
from __future__ import annotations

from typing import Any, Union


def _prefix(enum: Any) -> str:
    name: str = enum.Name(0)
    return name[:-len('UNSPECIFIED')]


def word(enum: Any, number: int) -> str:
    """The word of a number of an enum: word(messages.FinishReason, done.finish) is "stop". "unknown" for
    numbers that this version does not know."""
    try:
        name: str = enum.Name(number)
    except ValueError:
        return 'unknown'
    return name[len(_prefix(enum)):].lower()


def number(enum: Any, value: Union[str, int, None]) -> Any:
    """The number of a word of an enum. Numbers and None are passed on. ValueError."""
    if not isinstance(value, str):
        return value
    name = _prefix(enum) + value.upper()
    if name not in enum.keys():
        known = ', '.join(word(enum, n) for n in enum.values() if n)
        raise ValueError(f'{value!r} is none of: {known}')
    return enum.Value(name)
