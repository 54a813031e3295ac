#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Renders the reference's chat templates by family and compares with what Jinja makes of them.

compare-reference.py CHAT-RENDER SOURCE-ROOT

Skips (77) where reference/chat is not there. Some published templates are of no family, or differ
from their family in ways that are not taken over; those are listed here with the reason.
"""
import json
import os
import subprocess
import sys

NOT_TAKEN_OVER = {
    "OrionStarAI/Orion-14B-Chat": "no family: its eos stands before the reply",
    "ChatGLM4": "no family: a role's tag ends the message before",
}
# Where the text we want is not the reference's, and why.
OURS = {
    # The modified template has the system message at the end; and replies are kept as they are.
    "Mistral-Large-Instruct-2407 (mistralai 'v3' template; modified to have system prompt at start)":
        "[INST] You are a helpful assistant\n\nHello[/INST] Hi there</s>[INST] Who are you[/INST]"
        "    I am an assistant   </s>[INST] Another question[/INST]",
}


def main():
    render, root = sys.argv[1:]
    shared = os.environ.get("CONFAB_SHARED", os.path.join(root, "..", "shared"))
    path = os.path.join(shared, "reference", "chat", "llamacpp-2025-02-cases.json")
    if not os.path.exists(path):
        print("SKIP: reference/chat/llamacpp-2025-02-cases.json is not there")
        return 77
    with open(path, encoding="utf-8") as f:
        data = json.load(f)
    n = failed = 0
    for case in data["cases"]:
        name = case["name"]
        if name in NOT_TAKEN_OVER:
            print(f"left out: {name}: {NOT_TAKEN_OVER[name]}")
            continue
        fields = [case["template"]]
        for message in data["messages"]:
            fields += [message["role"], message["content"]]
        run = subprocess.run([render], input="".join(f + "\0" for f in fields).encode(),
                             capture_output=True, check=False)
        family, _, text = run.stdout.decode().partition("\0")
        want = OURS.get(name, case["expected_output_jinja"] or case["expected_output"])
        n += 1
        if run.returncode or text != want:
            failed += 1
            print(f"{name} ({family}): {run.stderr.decode()}\n  got  {text!r}\n  want {want!r}")
        else:
            print(f"ok: {name} ({family})")
    print(f"{n - failed} of {n} equal")
    return 1 if failed or n < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
