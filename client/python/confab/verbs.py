# SPDX-License-Identifier: MIT
"""The verbs of the protocol, declared once for both clients: each function makes a request, and names the
events that answer it. What a verb does is in docs/protocol.md, "Verbs".

A conversation is named by its id (int), its name (str), or a message that has it. Arguments that are not given
leave the choice to the daemon. Where a message of the protocol is taken, a mapping of its fields does as well;
enums are taken as numbers or as words ("system", "shift"); JSON is taken as text or as what json.dumps() takes.
"""
from __future__ import annotations

import json
from typing import Any, Dict, Iterable, Mapping, NoReturn, Optional, Union

from . import confab_pb2 as pb
from .connection import Call
from .files import Export
from .words import number

Conversation = Union[int, str, pb.Conversation, pb.Ref]
Fields = Mapping[str, Any]
Word = Union[str, int]
Json = Union[str, Fields, Iterable[Any]]
ReplyEvent = Union[pb.Accepted, pb.Progress, pb.Delta, pb.Done]

_REPLY = frozenset(('accepted', 'progress', 'delta'))


# ---- arguments ----

def _ref(conversation: Conversation) -> pb.Ref:
    if isinstance(conversation, pb.Ref):
        return conversation
    if isinstance(conversation, pb.Conversation):
        return pb.Ref(id=conversation.id)
    if isinstance(conversation, str):
        return pb.Ref(name=conversation)
    return pb.Ref(id=conversation)


def _json(value: Optional[Json]) -> Optional[str]:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _sampling(value: Union[pb.Sampling, Fields, None]) -> Optional[pb.Sampling]:
    """logit_bias may be a mapping of tokens to biases."""
    if value is None or isinstance(value, pb.Sampling):
        return value
    fields = dict(value)
    bias = fields.get('logit_bias')
    if isinstance(bias, Mapping):
        fields['logit_bias'] = [pb.LogitBias(token=token, bias=by) for token, by in bias.items()]
    return pb.Sampling(**fields)


def _about(value: Union[pb.About, Fields, None]) -> Optional[pb.About]:
    """tags may be an iterable of words, metadata anything that is an object in JSON."""
    if value is None or isinstance(value, pb.About):
        return value
    fields = dict(value)
    if 'tags' in fields and not isinstance(fields['tags'], pb.Tags):
        fields['tags'] = pb.Tags(tags=fields['tags'])
    fields['metadata'] = _json(fields.get('metadata'))
    return pb.About(**fields)


def _call(value: Union[pb.Call, Fields]) -> pb.Call:
    if isinstance(value, pb.Call):
        return value
    return pb.Call(**{**value, 'arguments': _json(value.get('arguments'))})


def _with_calls(value: Fields) -> Dict[str, Any]:
    return {**value, 'calls': [_call(call) for call in value.get('calls', ())]}


def _message(value: Union[pb.Message, Fields]) -> pb.Message:
    if isinstance(value, pb.Message):
        return value
    return pb.Message(**{**_with_calls(value), 'role': number(pb.Role, value.get('role'))})


def _results(values: Iterable[Union[pb.ToolResult, Fields]]) -> pb.ToolResults:
    return pb.ToolResults(results=[
        value if isinstance(value, pb.ToolResult) else pb.ToolResult(**value) for value in values])


def _one_of(**given: Any) -> Dict[str, Any]:
    """What is given of arguments that exclude each other. (Of a oneof protobuf would keep the last one.)"""
    fields = {name: value for name, value in given.items() if value is not None}
    if len(fields) > 1:
        raise ValueError('only one of these can be given: ' + ', '.join(fields))
    return fields


def _conversation(verb: str, body: Any) -> Call[NoReturn, pb.Conversation]:
    return Call(verb, body, 'conversation')


# ---- conversations ----

def open(name: Optional[str] = None, *, system: Optional[str] = None,  # pylint: disable=redefined-builtin
         sampling: Union[pb.Sampling, Fields, None] = None, overflow: Optional[Word] = None,
         tools: Optional[Json] = None,
         about: Union[pb.About, Fields, None] = None) -> Call[NoReturn, pb.Conversation]:
    """Makes a conversation. Without a name the daemon chooses one; one that is taken is `exists`."""
    return _conversation('open', pb.Open(
        name=name, system=system, sampling=_sampling(sampling), overflow=number(pb.Overflow, overflow),
        tools=_json(tools), about=_about(about)))


def fork(conversation: Conversation, name: Optional[str] = None, *, at_turn: Optional[int] = None,
         at_position: Optional[int] = None, expect_revision: Optional[int] = None,
         about: Union[pb.About, Fields, None] = None) -> Call[NoReturn, pb.Conversation]:
    """Makes a second conversation that begins with the turns of the first: all, those before `at_turn`, or its
    first `at_position` tokens. The result is the new one."""
    return _conversation('fork', pb.Fork(
        conversation=_ref(conversation), name=name, expect_revision=expect_revision, about=_about(about),
        **_one_of(at_turn=at_turn, at_position=at_position)))


def rewind(conversation: Conversation, *, turns: Optional[int] = None, at_turn: Optional[int] = None,
           at_position: Optional[int] = None,
           expect_revision: Optional[int] = None) -> Call[NoReturn, pb.Conversation]:
    """Drops the end: that many turns, or all from `at_turn` on, or all tokens from `at_position` on."""
    return _conversation('rewind', pb.Rewind(
        conversation=_ref(conversation), expect_revision=expect_revision,
        **_one_of(turns=turns, at_turn=at_turn, at_position=at_position)))


def close(conversation: Conversation) -> Call[NoReturn, None]:
    """Forgets a conversation for good. (disconnect() ends the connection.)"""
    return Call('close', pb.Close(conversation=_ref(conversation)), 'empty',
                take_result=lambda result, fd: None)


def get(conversation: Conversation, *, turns: bool = False, tokens: bool = False, parts: bool = False,
        max_turns: Optional[int] = None, from_turn: Optional[int] = None,
        before_turn: Optional[int] = None) -> Call[NoReturn, pb.Conversation]:
    """Looks at one. With `turns`, a page of them: at most `max_turns`, from `from_turn` on, or else the last
    ones before `before_turn`, or before the end."""
    return _conversation('get', pb.Get(
        conversation=_ref(conversation), turns=turns, tokens=tokens, parts=parts, max_turns=max_turns,
        from_turn=from_turn, before_turn=before_turn))


def list(*, after_id: Optional[int] = None, limit: Optional[int] = None,  # pylint: disable=redefined-builtin
         all_users: bool = False, order: Optional[Word] = None, cursor: Optional[str] = None,
         tag: Optional[str] = None, search: Optional[str] = None) -> Call[NoReturn, pb.Conversations]:
    """A page of conversations. `more` in the result: ask again with its `cursor`, and the same `order`."""
    body = pb.List(after_id=after_id, limit=limit, all_users=all_users, order=number(pb.Order, order),
                         cursor=cursor, tag=tag, search=search)
    return Call('list', body, 'conversations')


def update(conversation: Conversation, *, name: Optional[str] = None,
           sampling: Union[pb.Sampling, Fields, None] = None, overflow: Optional[Word] = None,
           about: Union[pb.About, Fields, None] = None, pinned: Optional[bool] = None,
           reset_sampling: bool = False) -> Call[NoReturn, pb.Conversation]:
    """Renames it, and changes the defaults, what is noted about it, and whether its memory stays in RAM for longest, where
    that is given. With `reset_sampling`, what `sampling` does not set is the daemon's default again."""
    return _conversation('update', pb.Update(
        conversation=_ref(conversation), name=name, sampling=_sampling(sampling),
        overflow=number(pb.Overflow, overflow), about=_about(about), pinned=pinned,
        reset_sampling=reset_sampling or None))


def warm(conversation: Conversation) -> Call[NoReturn, pb.Conversation]:
    """Brings its memory into RAM, and answers when it is there."""
    return _conversation('warm', pb.Warm(conversation=_ref(conversation)))


def evict(conversation: Conversation) -> Call[NoReturn, pb.Conversation]:
    """Writes its memory to files and frees the RAM that no other conversation uses."""
    return _conversation('evict', pb.Evict(conversation=_ref(conversation)))


def carry(conversation: Conversation, *,
          expect_revision: Optional[int] = None) -> Call[NoReturn, pb.Conversation]:
    """Writes the turns of a conversation of another vocabulary anew, with the tokens of this model."""
    return _conversation('carry', pb.Carry(conversation=_ref(conversation), expect_revision=expect_revision))


def publish(conversation: Conversation, *, at_turn: Optional[int] = None,
            off: bool = False) -> Call[NoReturn, pb.Conversation]:
    """Shares the memory of its beginning with all users, or with `off` no longer. For root, the
    user whom the daemon runs as, and its admin group."""
    return _conversation('publish', pb.Publish(conversation=_ref(conversation), at_turn=at_turn, off=off))


def find(messages: Iterable[Union[pb.Message, Fields]], *, tools: Optional[Json] = None,
         session: Optional[str] = None,
         conversation: Optional[Conversation] = None) -> Call[NoReturn, pb.Found]:
    """The conversation that begins like these messages for longest, or how far `conversation` does."""
    body = pb.Find(messages=[_message(m) for m in messages], tools=_json(tools), session=session,
                   conversation=None if conversation is None else _ref(conversation))
    return Call('find', body, 'found')


def cancel(conversation: Optional[Conversation] = None, *, request: Optional[int] = None) -> Call[NoReturn, None]:
    """Ends early whatever `conversation` is doing, or a request of this connection by its id. The cancelled
    request ends by itself."""
    fields = _one_of(conversation=conversation, request=request)
    if conversation is not None:
        fields['conversation'] = _ref(conversation)
    return Call('cancel', pb.Cancel(**fields), 'empty', take_result=lambda result, fd: None)


# ---- replies and notices ----

def continue_(conversation: Conversation, message: Optional[str] = None, *, raw: Optional[bytes] = None,
              tokens: Optional[Iterable[int]] = None,
              results: Optional[Iterable[Union[pb.ToolResult, Fields]]] = None,
              given: Union[pb.Given, Fields, None] = None,
              messages: Optional[Iterable[Union[pb.Message, Fields]]] = None,
              role: Optional[Word] = None, sampling: Union[pb.Sampling, Fields, None] = None,
              max_tokens: Optional[int] = None, stop: Iterable[str] = (), logprobs: Optional[int] = None,
              want_logprobs: bool = False, expect_revision: Optional[int] = None, detach: bool = False,
              ignore_eos: bool = False, background: bool = False, at_turn: Optional[int] = None,
              at_position: Optional[int] = None, wait: bool = False, json_schema: Optional[Json] = None,
              gbnf: Optional[str] = None, tool_choice: Optional[str] = None, tools: Optional[Json] = None,
              want_parts: bool = False) -> Call[ReplyEvent, pb.Done]:
    """Adds input to a conversation and generates a reply. The input is one of `message` (of the user, or of
    `role`), `raw`, `tokens`, `results` of calls, `given` or `messages`; without any the reply follows what is
    there. The events are Accepted, Progress, Delta and in the end Done. `tool_choice`: the reply is a call of the
    function with this name, or of any if it is empty."""
    fields = _one_of(message=message, raw=raw, tokens=tokens, results=results, given=given, messages=messages)
    if tokens is not None:
        fields['tokens'] = pb.Tokens(ids=tokens)
    elif results is not None:
        fields['results'] = _results(results)
    elif messages is not None:
        fields['messages'] = pb.Messages(messages=[_message(m) for m in messages])
    elif given is not None and not isinstance(given, pb.Given):
        fields['given'] = pb.Given(**_with_calls(given))
    elif not fields:
        fields['nothing'] = True
    fields.update(_one_of(at_turn=at_turn, at_position=at_position))
    fields.update(_one_of(json_schema=_json(json_schema), gbnf=gbnf, tool_choice=tool_choice))
    if tool_choice is not None:
        fields['tool_choice'] = pb.ToolChoice(function=tool_choice)
    body = pb.Continue(
        conversation=_ref(conversation), role=number(pb.Role, role), sampling=_sampling(sampling),
        max_tokens=max_tokens, stop=stop, logprobs=logprobs, want_logprobs=want_logprobs,
        expect_revision=expect_revision, detach=detach, ignore_eos=ignore_eos, background=background, wait=wait,
        tools=_json(tools), want_parts=want_parts, **fields)
    return Call('continue', body, 'done', _REPLY, result_is_event=True)


def attach(conversation: Conversation, *, position: Optional[int] = None, want_parts: bool = False,
           expect_revision: Optional[int] = None, stop: Iterable[str] = ()) -> Call[ReplyEvent, pb.Done]:
    """Reads the reply that another request writes, or else the last one: from its beginning, or from behind
    the Delta with this `position` on. Ending this leaves the reply alone."""
    body = pb.Attach(conversation=_ref(conversation), position=position, want_parts=want_parts,
                           expect_revision=expect_revision, stop=stop)
    return Call('attach', body, 'done', _REPLY, result_is_event=True)


def watch(*, cursor: Optional[str] = None, all_users: bool = False) -> Call[pb.Notice, None]:
    """Tells what happens to conversations, until it is cancelled: Notice messages."""
    return Call('watch', pb.Watch(cursor=cursor, all_users=all_users), 'empty', frozenset(('notice',)),
                take_result=lambda result, fd: None)


# ---- files ----

def export(conversation: Conversation, *, without_memory: bool = False) -> Call[NoReturn, Export]:
    """A file of the conversation, open for reading, over which the caller disposes."""
    return Call('export', pb.Export(conversation=_ref(conversation), without_memory=without_memory),
                'exported', with_fd=True, take_result=Export.of)


def export_stream(conversation: Conversation, *, without_memory: bool = False) -> Call[bytes, pb.Exported]:
    """The same in pieces (bytes), without a descriptor. The result is the Exported message."""
    body = pb.Export(conversation=_ref(conversation), without_memory=without_memory, in_stream=True)
    return Call('export', body, 'exported', frozenset(('chunk',)), take_event=lambda chunk: chunk.data)


def import_(name: Optional[str] = None, *, in_stream: bool = False) -> Call[NoReturn, pb.Conversation]:
    """The request alone: the clients have import_() and import_stream(), which send the file as well."""
    return _conversation('import', pb.Import(name=name, in_stream=in_stream))


# ---- about the daemon ----

def tokenize(text: str, *, special: bool = False, add_bos: bool = False) -> Call[NoReturn, pb.TokenizeResult]:
    """Tokens and their pieces. `special` recognises control tokens in the text."""
    return Call('tokenize', pb.Tokenize(text=text, special=special, add_bos=add_bos), 'tokenize')


def model_info() -> Call[NoReturn, pb.ModelInfoResult]:
    """Name, sizes and abilities of the model."""
    return Call('model_info', pb.ModelInfo(), 'model_info')


def stats() -> Call[NoReturn, Dict[str, int]]:
    """Figures by their names; docs/protocol.md has the list."""
    return Call('stats', pb.Stats(), 'stats',
                take_result=lambda result, fd: {stat.name: stat.value for stat in result.stats})


def figures(*, with_users: bool = False, uid: Optional[int] = None,
            tenant: Optional[str] = None) -> Call[NoReturn, pb.StatsResult]:
    """All that Stats tells: besides these figures the version and the time up, histograms, rates, and what the caller has and
    does. `with_users` adds the users that the caller may see; `uid` and `tenant` ask for what that one would be told."""
    return Call('stats', pb.Stats(with_users=with_users or None, uid=uid, tenant=tenant), 'stats')


# ---- for administrators ----

def settings() -> Call[NoReturn, pb.SettingsResult]:
    """What the daemon runs with, where that was given, and what a reload or a restart would change."""
    return Call('settings', pb.Settings(), 'settings')


def users(*, order: Optional[Word] = None, limit: Optional[int] = None, cursor: Optional[str] = None,
          uid: Optional[int] = None) -> Call[NoReturn, pb.UsersResult]:
    """A page of users: what each has and does. `more` in the result: ask again with its `cursor`."""
    return Call('users', pb.Users(order=number(pb.UserOrder, order), limit=limit, cursor=cursor, uid=uid), 'users')


def act_on_user(uid: int, act: Word, *, tenant: Optional[str] = None,
                dry_run: bool = False) -> Call[NoReturn, pb.UserActed]:
    """`cancel`, `evict` or `purge` on all that a user and the user's tenants have, or on one tenant."""
    return Call('act_on_user', pb.ActOnUser(uid=uid, tenant=tenant, act=number(pb.UserAct, act), dry_run=dry_run),
                'user_acted')


def drain(*, off: bool = False, timeout_usec: Optional[int] = None) -> Call[NoReturn, pb.Drained]:
    """Takes no new work, and answers when nothing runs and all memory is on disk. What still runs after `timeout_usec`
    microseconds is cancelled. With `off`, takes work again."""
    return Call('drain', pb.Drain(off=off, timeout_usec=timeout_usec), 'drained')


def backup(*, with_memory: bool = False) -> Call[bytes, pb.Exported]:
    """All conversations of all users, a tar archive, in pieces (bytes). The result is the Exported message. `with_memory`: what is
    on disk of their memory, too."""
    return Call('backup', pb.Backup(with_memory=with_memory), 'exported', frozenset(('chunk',)), take_event=lambda chunk: chunk.data)


def check(*, rate: Optional[int] = None) -> Call[pb.Progress, pb.Checked]:
    """Reads all that is on disk and compares it with its checksums and the register's rules, while everybody goes on. Gives
    Progress (`done_bytes`, `total_bytes`); the result is the Checked message. `rate`: bytes that it reads in a minute, 0: no
    limit."""
    return Call('check', pb.Check(rate=rate), 'checked', frozenset(('progress',)))


def _change(name: str, to: Union[int, str, None]) -> pb.QuotaChange:
    if to is None:
        return pb.QuotaChange(name=name, clear=True)
    if to == 'none':
        return pb.QuotaChange(name=name, none=True)
    if isinstance(to, str):
        raise ValueError(f"{name} is a number, 'none' or None, not '{to}'")
    return pb.QuotaChange(name=name, value=to)


def quota(subject: Union[pb.QuotaSubject, Fields, None] = None,
          changes: Optional[Mapping[str, Union[int, str, None]]] = None, *, overrides: bool = False,
          cursor: Optional[str] = None, limit: Optional[int] = None) -> Call[NoReturn, pb.Quotas]:
    """Limits and their use: the own ones, or those of `subject` (uid, tenant, all_tenants, gid). `changes` sets
    overrides of the subject: the limits' names with a number, 'none' (no limit) or None (no override). `overrides`
    lists all there are, a page at a time. All but the own limits is for root, the user whom the
    daemon runs as, and its admin group."""
    if subject is not None and not isinstance(subject, pb.QuotaSubject):
        subject = pb.QuotaSubject(**subject)
    body = pb.Quota(subject=subject, changes=[_change(name, to) for name, to in (changes or {}).items()],
                    overrides=overrides or None, cursor=cursor, limit=limit)
    return Call('quota', body, 'quotas')
