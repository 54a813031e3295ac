# SPDX-License-Identifier: MIT
"""HTTP as tools/bench frontends needs it: answers that note when their parts came, one or many at once.

http.client would do but for two things: it cannot be fed by an event loop, and it takes longer for a chunk than a
server for a token.
"""

import json
import re
import selectors
import time

LONG = 600  # seconds that no answer should take


class Answer:
    """An HTTP answer that is fed as it comes; of a stream of events, the text of the chat too."""

    def __init__(self):
        self.status, self.fields, self.body = None, {}, bytearray()
        self.text, self.usage, self.error = "", None, None
        self.reason = None  # finish_reason
        self.first = None  # when the first text came
        self.n_events, self.done = 0, False  # done: [DONE] came
        self.complete = False
        self._data, self._length, self._line = bytearray(), None, bytearray()

    def feed(self, data, now):
        self._data += data
        if self.status is None and not self._take_head():
            return
        if self._length is None:
            self._take_chunks(now)
        else:
            self._take_body(now, len(self._data))
            self.complete = len(self.body) >= self._length

    def end(self):
        """The server closed the connection."""
        if self.status is not None and self._length == float("inf"):
            self.complete = True

    def json(self):
        return json.loads(self.body)

    def _take_head(self):
        while True:
            end = self._data.find(b"\r\n\r\n")
            if end < 0:
                return False
            lines = self._data[:end].decode("latin-1").split("\r\n")
            del self._data[:end + 4]
            status = int(lines[0].split(" ")[1])
            if status >= 200:
                break
        self.status = status
        self.fields = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
        if self.fields.get("transfer-encoding") != "chunked":
            self._length = int(self.fields.get("content-length", 0 if status == 204 else "-1"))
            if self._length < 0:
                self._length = float("inf")
        return True

    def _take_chunks(self, now):
        while not self.complete:
            end = self._data.find(b"\r\n")
            if end < 0:
                return
            n = int(self._data[:end].split(b";")[0], 16)
            if len(self._data) < end + 4 + n:
                return
            del self._data[:end + 2]
            self._take_body(now, n)
            del self._data[:2]
            self.complete = n == 0

    def _take_body(self, now, n):
        piece = self._data[:n]
        del self._data[:n]
        if self.fields.get("content-type", "").startswith("text/event-stream"):
            *lines, self._line = (self._line + piece).split(b"\n")
            for line in lines:
                self._take_line(bytes(line.rstrip(b"\r")), now)
        else:
            self.body += piece

    def _take_line(self, line, now):
        if not line.startswith(b"data: "):
            return
        if line == b"data: [DONE]":
            self.done = True
            return
        event = json.loads(line[6:])
        self.n_events += 1
        self.error = event.get("error", self.error)
        self.usage = event.get("usage") or self.usage
        for choice in event.get("choices", ()):
            text = choice["delta"].get("content")
            if text and self.first is None:
                self.first = now
            self.text += text or ""
            self.reason = choice.get("finish_reason") or self.reason


def request(method, path, body=None, fields=()):
    """The bytes of one; a body that is no bytes is JSON."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *fields]
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
        lines.append("Content-Type: application/json")
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


def chat(messages, max_tokens, **more):
    """A streamed chat completion of the likeliest tokens."""
    return request("POST", "/v1/chat/completions",
                   {"model": "bench", "messages": messages, "max_tokens": max_tokens, "temperature": 0,
                    "stream": True, "stream_options": {"include_usage": True}, **more})


def ask(s, data):
    """Send a request and wait for the answer: (answer, when it was sent)."""
    answer = Answer()
    sent = time.monotonic()
    s.sendall(data)
    while not answer.complete:
        piece = s.recv(65536)
        if not piece:
            answer.end()
            break
        answer.feed(piece, time.monotonic())
    return answer, sent


def ask_all(pairs):
    """Send a request on each (socket, bytes), then read all answers as they come: [(answer, sent, ended)]. Those
    that never end are not complete."""
    chosen = selectors.DefaultSelector()
    answers = []
    for s, data in pairs:
        s.sendall(data)
        answers.append([Answer(), time.monotonic(), None])
        chosen.register(s, selectors.EVENT_READ, answers[-1])
    for s, _ in pairs:
        s.setblocking(False)
    while chosen.get_map():
        ready = chosen.select(LONG)
        now = time.monotonic()
        for key, _ in ready:
            _read_some(chosen, key, now)
        if not ready:
            break
    chosen.close()
    return answers


def _read_some(chosen, key, now):
    answer = key.data[0]
    try:
        piece = key.fileobj.recv(65536)
    except BlockingIOError:
        return
    except ConnectionResetError:
        piece = b""
    if piece:
        answer.feed(piece, now)
    else:
        answer.end()
    if answer.complete or not piece:
        key.data[2] = now
        chosen.unregister(key.fileobj)


def statuses(data):
    """Of all answers in these bytes."""
    return [int(n) for n in re.findall(rb"HTTP/1\.[01] (\d+) ", data)]
