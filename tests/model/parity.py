# SPDX-License-Identifier: MIT
"""tools/parity with a peer that is made of confab-model: what agrees, what does not, what is wrong.

usage: parity.py SOURCE_ROOT CONFAB_MODEL MAKE_MODEL

The peer's root has a loader, which is all that the tool starts of it: a program that answers as
llama-server does, and with a fault that the file "fault" in the root names.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE, TOOL, MAKE = sys.argv[1:4]
LOADER = '''#!/usr/bin/env python3
import json, pathlib, socketserver, subprocess, sys
from http.server import BaseHTTPRequestHandler
TOOL = "@TOOL@"
fault = (pathlib.Path(sys.argv[0]).parent.parent / "fault").read_text()
program, args = sys.argv[3].rsplit("/", 1)[1], sys.argv[4:]
if "--version" in args:
    sys.exit(print("version: made of confab"))
if fault == "refuses":
    sys.exit("error: no such model here")
model, path = (args[args.index(a) + 1] for a in ("-m", "--host"))


def ask(*args, stdin=b""):
    return json.loads(subprocess.run([TOOL, *args], input=stdin, stdout=subprocess.PIPE).stdout)


def complete(body):
    forbidden = {i for i, _ in body["logit_bias"]}
    ids, steps, tokens = list(body["prompt"]), [], []
    for _ in range(body["n_predict"]):
        row = ask("logprobs", model, "--ids", ",".join(map(str, ids)), "--top", "320")
        row = row["top10_logprobs"][0]
        choice = next(i for i, _ in row if i not in forbidden)
        shift = 0.01 if fault == "shifts" and len(tokens) == 1 else 0.0
        tokens.append(choice)
        ids.append(choice)
        if fault == "is silent" and choice % 2:
            continue
        steps.append({"id": choice, "top_logprobs": [
            {"id": i, "logprob": p - shift} for i, p in row[:10]]})
    return {"completion_probabilities": steps, "tokens": tokens, "stop_type": "limit"}


def tokenize(body):
    more = ["--special"] if body["add_special"] else []
    ids = ask("tokenize", model, "--json", *more, "-", stdin=body["content"].encode())["ids"]
    return {"tokens": ids[:-1] if fault == "drops tokens" else ids}


class Handler(BaseHTTPRequestHandler):
    def answer(self, status, value):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())

    def do_GET(self):
        self.answer(200, {})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(200, complete(body) if self.path == "/completion" else tokenize(body))

    def log_message(self, *_):
        pass

    def address_string(self):
        return "test"


socketserver.UnixStreamServer(path, Handler).serve_forever()
'''


class Parity(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name) / "root"
        for folder in ("lib64", "usr/lib/any"):
            (cls.root / folder).mkdir(parents=True)
        (cls.root / "usr/lib/any/libllama.so.0").touch()
        loader = cls.root / "lib64/ld-linux-test.so.2"
        loader.write_text(LOADER.replace("@TOOL@", TOOL))
        loader.chmod(0o755)
        cls.model = os.path.join(cls.folder.name, "tiny.gguf")
        subprocess.run([MAKE, cls.model, "tiny", "f32"], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_tool(self, *args, fault="", root=None):
        (self.root / "fault").write_text(fault)
        p = subprocess.run(
            [sys.executable, os.path.join(SOURCE, "tools/parity"), "--peer-root", root or self.root,
             "--build", pathlib.Path(TOOL).parent.parent, "--tokens", "4", *args],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        return p.returncode, p.stdout.decode(), p.stderr.decode()

    def test_agrees(self):
        status, out, err = self.run_tool(self.model)
        self.assertEqual((status, err), (0, ""), out)
        self.assertIn("ok     tiny: 4/4 choices equal, difference mean 0.000000 greatest 0.000000, "
                      "17/17 texts with equal tokens\n1 of 1 models agree\n", out)

    def test_other_probabilities(self):
        status, out, _ = self.run_tool(self.model, "--length", "40", fault="shifts")
        self.assertEqual(status, 1)
        self.assertIn("FAILED tiny: 4/4 choices equal, difference mean 0.0025", out)
        self.assertIn("greatest 0.0100", out)
        self.assertIn("0 of 1 models agree", out)

    def test_other_tokens(self):
        status, out, _ = self.run_tool(self.model, "--ids", "1,300", fault="drops tokens")
        self.assertEqual(status, 1)
        self.assertIn("0/17 texts with equal tokens", out)
        self.assertIn("tokens differ: 'Hello, world!'", out)

    def test_a_peer_that_does_not_tell_all_steps(self):
        status, out, err = self.run_tool(self.model, "--ids", "1,300,299", fault="is silent")
        self.assertEqual((status, err), (0, ""), out)
        self.assertIn("4/4 choices equal", out)

    def test_a_model_that_the_peer_refuses(self):
        status, out, _ = self.run_tool(self.model, self.model, fault="refuses")
        self.assertEqual(status, 1)
        self.assertEqual(out.count("FAILED tiny: the peer does not load it: "
                                   "error: no such model here"), 2)

    def test_no_model(self):
        for path, why in ((os.path.join(self.folder.name, "none"), "No such file"),
                          (__file__, "not a GGUF file")):
            status, out, _ = self.run_tool(path)
            self.assertEqual(status, 1)
            self.assertIn(why, out)

    def test_no_peer(self):
        status, out, err = self.run_tool(self.model, root=self.folder.name)
        self.assertEqual((status, out), (2, ""))
        self.assertIn("no llama.cpp there", err)

    def test_record(self):
        status, out, _ = self.run_tool("--record", os.path.join(self.folder.name, "answers"),
                                       "--ids", "1,300", self.model)
        self.assertEqual(status, 0, out)
        with open(os.path.join(self.folder.name, "answers/tiny.json"), encoding="utf-8") as f:
            got = json.load(f)
        self.assertEqual(got["prompt_ids"], [1, 300])
        self.assertEqual([len(row) for row in got["top10_logprobs"]], [10] * 4)


unittest.main(argv=sys.argv[:1])
