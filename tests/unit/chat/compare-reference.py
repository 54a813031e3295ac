#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Renders a conversation by the reference's chat templates, message by message, and compares with
what Jinja makes of the whole; and by the families that the templates resemble.

compare-reference.py CHAT-RENDER SOURCE-ROOT

Skips (77) where reference/chat is not there.
"""
import json
import os
import subprocess
import sys

# Of the families. Some published templates are of no family, or differ from their family in ways
# that are not taken over; those are listed here with the reason.
NOT_TAKEN_OVER = {
    "OrionStarAI/Orion-14B-Chat": "no family: its eos stands before the reply",
    "ChatGLM4": "no family: a role's tag ends the message before",
}
# Where the text we want is not the reference's, and why.
MISTRAL = ("Mistral-Large-Instruct-2407 (mistralai 'v3' template; modified to have system prompt at "
           "start)")
OURS = {
    # The modified template has the system message at the end; and replies are kept as they are.
    MISTRAL:
        "[INST] You are a helpful assistant\n\nHello[/INST] Hi there</s>[INST] Who are you[/INST]"
        "    I am an assistant   </s>[INST] Another question[/INST]",
}
# Of the templates themselves, which run: what comes out of a whole rendering and not of ours.
TEMPLATES_OURS = {
    # It moves the system text to the last message of the user; each of ours was the last once.
    MISTRAL:
        "[INST] You are a helpful assistant\n\nHello[/INST] Hi there</s>[INST] Who are you[/INST]"
        " I am an assistant</s>[INST] Another question[/INST]",
}
ORION = "OrionStarAI/Orion-14B-Chat"
NOTED = {MISTRAL: "moves the system text", ORION: "takes no system message"}


# Templates that know tools: the role of results and where definitions are given, in a whole rendering;
# and the messages whose tokens are those of the whole. (The system text of the one is moved.)
SYSTEM = ("system", "Help.")
USER = ("user", "How is the weather?")
CALLS = ("calls", "weather", "abcdefghi", '{"city": "Bern", "days": [1, 2]}')
RESULT = ("tool", "grey \"sky\"", "abcdefghi", "weather")
REPLY = ("assistant", "Grey.")
TOOLS = json.dumps([{"type": "function", "function": {
    "name": "weather", "description": "The weather", "parameters": {"type": "object", "properties": {
        "city": {"type": "string"}}, "required": ["city"]}}}])
WITH_TOOLS = {
    MISTRAL: ("tool", "", [(USER,), (SYSTEM, USER), (USER, CALLS, RESULT),
                           (USER, CALLS, RESULT, REPLY)]),
    "ibm-granite/granite-3.0-8b-instruct":
        ("tool_response", "", [(USER,), (SYSTEM, USER), (SYSTEM, USER, REPLY, RESULT, REPLY, USER)]),
    "ChatGLM4": ("tool", "key", [(SYSTEM, USER), (SYSTEM, USER, REPLY, RESULT, REPLY, USER)]),
}


def rendered(render, choice, template, messages, tools="", role="", key=""):
    fields = [choice, template, tools, role, key]
    for message in messages:
        fields += ([message["role"], message["content"]] if isinstance(message, dict) else message)
    run = subprocess.run([render], input="".join(f + "\0" for f in fields).encode(),
                         capture_output=True, check=False)
    parts = run.stdout.decode().split("\0")[:4] if run.returncode == 0 else ["", "", "", ""]
    return parts + [run.stderr.decode()]


def without_bos(text):
    return text.removeprefix("<s>")


def main():
    render, root = sys.argv[1:]
    shared = os.environ.get("CONFAB_SHARED", os.path.join(root, "..", "shared"))
    path = os.path.join(shared, "reference", "chat", "llamacpp-2025-02-cases.json")
    if not os.path.exists(path):
        print("SKIP: reference/chat/llamacpp-2025-02-cases.json is not there")
        return 77
    with open(path, encoding="utf-8") as f:
        data = json.load(f)
    failed = 0
    n = {"template": 0, "family": 0, "tools": 0}

    def compare(kind, name, family, text, want, error):
        nonlocal failed
        n[kind] += 1
        if text != without_bos(want):
            failed += 1
            print(f"{kind}: {name} ({family}): {error}\n  got  {text!r}\n  want {want!r}")
        else:
            print(f"ok, {kind}: {name} ({family})")

    for case in data["cases"]:
        name = case["name"]
        jinja = case["expected_output_jinja"] or case["expected_output"]
        if name == ORION:
            # The template leaves out system messages; the reference's formatter puts the text where
            # we do.
            jinja = case["expected_output"]
        family, notes, text, _, error = rendered(render, "auto", case["template"], data["messages"])
        compare("template", name, family, text, TEMPLATES_OURS.get(name, jinja), error)
        if family != "template" or (NOTED.get(name, "") not in notes):
            failed += 1
            print(f"  {family}: {notes}")
        role, key, talks = WITH_TOOLS.get(name, ("", "", []))
        for talk in talks:
            family, _, text, whole, error = rendered(render, "auto", case["template"], talk, TOOLS,
                                                     role, key)
            compare("tools", name, family, text, whole if "weather" in whole else "no tools", error)
        if name in NOT_TAKEN_OVER:
            print(f"left out: {name}: {NOT_TAKEN_OVER[name]}")
            continue
        # A template that cannot run: what it resembles serves in its place.
        broken = "{{ nothing.at.all }}" + case["template"]
        family, _, text, _, error = rendered(render, "auto", broken, data["messages"])
        compare("family", name, family, text, OURS.get(name, jinja), error)
    print(f"{sum(n.values()) - failed} of {n} equal")
    return 1 if failed or n["template"] < 15 or n["family"] < 10 or n["tools"] < 9 else 0


if __name__ == "__main__":
    sys.exit(main())
