# SPDX-License-Identifier: MIT
"""The confab-model command: verbs, output formats, exit statuses, messages.

usage: confab-model.py CONFAB_MODEL MAKE_MODEL
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

TOOL, MAKE = sys.argv[1:3]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
IDS = ",".join(str(i * 37 % 320) for i in range(70))


def run(*args, stdin=b""):
    p = subprocess.run([TOOL, *args], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       check=False)
    return p.returncode, p.stdout.decode(), p.stderr.decode()


class Tool(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = os.path.join(cls.folder.name, "tiny.gguf")
        cls.wide = os.path.join(cls.folder.name, "wide.gguf")
        subprocess.run([MAKE, cls.model, "tiny", "q8_0"], check=True)
        subprocess.run([MAKE, cls.wide, "tiny-wide", "q8_0"], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def ok(self, *args, stdin=b""):
        status, out, err = run(*args, stdin=stdin)
        self.assertEqual((status, err), (0, ""))
        return out

    def refused(self, status, part, *args):
        got, out, err = run(*args)
        self.assertEqual((got, out), (status, ""))
        self.assertTrue(err.startswith("confab-model: "), err)
        self.assertIn(part, err)

    def test_help_and_version(self):
        self.assertIn("tokenize", self.ok("--help"))
        self.assertRegex(self.ok("--version"), r"^confab-model \d+\.\d+")
        for verb in "info", "tokenize", "logprobs", "bench":
            self.assertTrue(self.ok(verb, "--help").startswith("Usage: confab-model " + verb))

    def test_usage_errors(self):
        self.assertEqual(run()[0], 2)
        self.refused(2, "unknown verb 'banana'", "banana")
        for verb in "info", "tokenize", "logprobs", "bench":
            self.refused(2, "model file", verb)
            self.refused(2, "bad option", verb, self.model, "--banana")
        self.refused(2, "--ids is missing", "logprobs", self.model)
        for bad in "", "1,", ",1", "1,,2", "-1", "1 2", "x", "99999999999":
            self.refused(2, "list of token ids", "logprobs", self.model, "--ids", bad)
        for option in "--generate", "--top", "--threads":
            for bad in "0", "-1", "x", "1x", "99999999999":
                self.refused(2, option, "logprobs", self.model, "--ids", "1", option, bad)
        self.refused(2, "--kv", "logprobs", self.model, "--ids", "1", "--kv", "f8")
        self.refused(2, "f32, f16, q8_0", "bench", self.model, "--kv", "banana")
        self.refused(2, "'mmx'", "logprobs", self.model, "--ids", "1", "--isa", "mmx")
        self.refused(2, "-b", "bench", self.model, "-b", "0")

    def test_failures(self):
        nowhere = os.path.join(self.folder.name, "nowhere")
        for args in ("info",), ("tokenize",), ("bench",), ("logprobs", "--ids", "1"):
            self.refused(1, nowhere, args[0], nowhere, *args[1:])
        self.refused(1, "vocabulary of 320", "logprobs", self.model, "--ids", "1,320")
        self.refused(1, "context of 512", "logprobs", self.model, "--ids", "1", "--generate", "513")
        self.refused(1, "context of 512", "bench", self.model, "-d", "500", "-p", "100")

    def test_cut_and_damaged_files(self):
        with open(self.model, "rb") as f:
            data = f.read()
        broken = os.path.join(self.folder.name, "broken.gguf")
        for i in range(40):
            with open(broken, "wb") as f:
                f.write(data[:len(data) * i // 40])
            self.refused(1, broken, "info", broken)
        with open(broken, "wb") as f:
            f.write(data.replace(b"blk.1.attn_k.weight", b"blk.1.attn_X.weight"))
        status, out, err = run("info", broken)
        self.assertEqual(status, 1)
        self.assertIn("'blk.1.attn_k.weight' is missing", err)
        self.assertIn("model_error", out)

    def test_supported(self):
        lists = json.loads(self.ok("info", "--supported", "--json"))
        self.assertEqual(lists["architectures"], sorted(lists["architectures"]))
        for kind, some in (("architectures", ("llama", "gemma3n", "gpt-oss")),
                           ("types", ("F32", "Q4_K", "MXFP4")),
                           ("tokenizers", ("llama", "gpt2", "t5", "rwkv")),
                           ("pre_tokenizers", ("default", "llama-bpe", "qwen2"))):
            self.assertLessEqual(set(some), set(lists[kind]))
        text = self.ok("info", "--supported")
        for name in lists["architectures"]:
            self.assertRegex(text, rf"(?m)^architecture +{name}$")
        self.refused(2, "takes no file", "info", "--supported", self.model)
        with open(os.path.join(ROOT, "docs", "models.md"), encoding="utf-8") as f:
            table = f.read().split("### What they were compared with")[0]
        self.assertEqual({n for row in re.findall(r"(?m)^\| (`.*?) \|", table)
                          for n in re.findall(r"`(.*?)`", row)} - {"general.architecture"},
                         set(lists["architectures"]))

    def test_info(self):
        info = json.loads(self.ok("info", self.model, "--json", "--tensors"))
        self.assertEqual(info["architecture"], "llama")
        self.assertEqual((info["n_layer"], info["n_vocab"], info["context"]), (2, 320, 512))
        self.assertEqual(len(info["tensors"]), info["n_tensors"])
        self.assertEqual(info["tensors"][0],
                         {"name": "token_embd.weight", "type": "Q8_0", "ne": [64, 320]})
        text = self.ok("info", self.model, "--tensors")
        self.assertIn('"token_embd.weight" Q8_0 {64, 320, 1, 1}', text)
        self.assertIn("n_layer", text)

    def test_info_chat(self):
        """Whether the template takes tools: that of the bundled model does not, another one does."""
        bundled = os.path.join(ROOT, "models", "confab-small.q4_0.gguf")
        info = json.loads(self.ok("info", bundled, "--json"))
        self.assertEqual((info["chat_family"], info["chat_takes_tools"]), ("template", False))
        self.assertRegex(self.ok("info", bundled), r"(?m)^chat_takes_tools +false$")
        with open(bundled, "rb") as f:
            data = f.read()
        key = b"tokenizer.chat_template" + (8).to_bytes(4, "little")
        at = data.index(key) + len(key)
        size = int.from_bytes(data[at:at + 8], "little")
        template = (b"{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}"
                    b"<|im_start|>{{ m.content }}<|im_end|>{% endfor %}")
        self.assertLessEqual(len(template), size)
        other = os.path.join(self.folder.name, "tools.gguf")
        with open(other, "wb") as f:
            f.write(data[:at + 8] + template + b"{#" + b" " * (size - len(template) - 4) + b"#}" +
                    data[at + 8 + size:])
        self.assertIs(json.loads(self.ok("info", other, "--json"))["chat_takes_tools"], True)
        self.assertRegex(self.ok("info", other), r"(?m)^chat_takes_tools +true$")

    def test_reply_format(self):
        """How the model writes calls and reasoning, by literals of its template."""
        with open(os.path.join(ROOT, "models", "confab-small.q4_0.gguf"), "rb") as f:
            data = f.read()
        end = rb"{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
        self.assertEqual(data.count(end), 1)
        path = os.path.join(self.folder.name, "calls.gguf")
        for marks, found in ((b"", ("none", False)),
                             (b"<tool_call> </tool_call> </think>", ("hermes", True))):
            with open(path, "wb") as f:
                f.write(data.replace(end, b"{# %b #}".replace(b"%b", marks).ljust(len(end))))
            info = json.loads(self.ok("info", path, "--json"))
            self.assertEqual((info["reply_format"], info["reasons"]), found)
        self.assertRegex(self.ok("info", path), r'(?m)^reply_format +"hermes"\nreasons +true$')

    def test_tokenize(self):
        ids = self.ok("tokenize", self.model, "--ids", " w300")
        self.assertRegex(ids, r"^[\d ]+\n$")
        self.assertEqual(self.ok("tokenize", self.model, "--ids", "-", stdin=b" w300"), ids)
        self.assertEqual(self.ok("tokenize", self.model, "--ids", stdin=b" w300"), ids)
        both = json.loads(self.ok("tokenize", self.model, "--json", "a\u00e9\n"))
        self.assertEqual(len(both["ids"]), len(both["pieces"]))
        self.assertEqual(self.ok("tokenize", self.model, "--ids", ""), "\n")
        lines = self.ok("tokenize", self.model, "ab").splitlines()
        self.assertEqual([len(line.split("\t")) for line in lines], [2] * len(lines))

    def test_logprobs(self):
        def ask(*args):
            return self.ok("logprobs", self.model, "--ids", IDS, "--generate", "6", *args)

        got = json.loads(ask("--top", "100000"))
        self.assertEqual(list(got), ["generated_ids", "top10_logprobs"])
        self.assertEqual(len(got["generated_ids"]), 6)
        for best, row in zip(got["generated_ids"], got["top10_logprobs"]):
            self.assertEqual(row[0][0], best)
            self.assertEqual(sorted(t for t, _ in row), list(range(320)))
            self.assertEqual([p for _, p in row], sorted((p for _, p in row), reverse=True))
        three = json.loads(ask("--top", "3"))
        self.assertEqual(three["top10_logprobs"], [r[:3] for r in got["top10_logprobs"]])
        same = {ask("--threads", t, "--isa", i) for t in "123" for i in ("generic", "avx2", "avx-vnni", "avx512", "avx512-vnni")}
        self.assertEqual(same, {ask("--json")})
        self.assertNotEqual(same, {ask("--kv", "f16")})

    def test_memory_types(self):
        def ask(kv, *args):
            return json.loads(self.ok("logprobs", self.wide, "--ids", IDS, "--generate", "6",
                                      "--kv", kv, *args))

        got = {kv: ask(kv) for kv in ("f32", "f16", "q8_0")}
        for isa in "generic", "avx2", "avx-vnni", "avx512", "avx512-vnni":
            self.assertEqual(ask("q8_0", "--isa", isa, "--threads", "2"), got["q8_0"])
        # Coarser memory moves the figures a little, and q8_0 more than f16.
        row = {kv: dict(got[kv]["top10_logprobs"][0]) for kv in got}
        off = {kv: max(abs(row[kv][t] - p) for t, p in row["f32"].items() if t in row[kv])
               for kv in ("f16", "q8_0")}
        self.assertTrue(0 < off["f16"] < off["q8_0"] < 0.1, off)
        sizes = [json.loads(self.ok("info", self.wide, "--json", "--kv", kv))["memory_per_token"]
                 for kv in ("f32", "f16", "q8_0")]
        self.assertEqual(sizes, [2 * 2 * 2 * 32 * 4, 2 * 2 * 2 * 32 * 2, 2 * 2 * 2 * 34])
        self.refused(1, "q8_0 needs head sizes", "logprobs", self.model, "--ids", "1", "--kv",
                     "q8_0")

    def test_tensor_types(self):
        """The same random weights in each type: near the model of F32, as near as the type can be."""
        path = os.path.join(self.folder.name, "type.gguf")
        rows = {}
        for kind, most in (("F32", 0), ("F16", 0.002), ("BF16", 0.01), ("Q8_0", 0.04), ("Q6_K", 0.1),
                           ("Q5_K", 0.2), ("Q5_1", 0.2), ("Q5_0", 0.2), ("Q4_K", 0.45), ("Q4_1", 0.45),
                           ("Q4_0", 0.45), ("IQ4_NL", 0.45), ("IQ4_XS", 0.45), ("MXFP4", 0.6),
                           ("Q3_K", 0.8), ("Q2_K", 1.6)):
            subprocess.run([MAKE, path, "tiny-256", kind.lower()], check=True)
            info = json.loads(self.ok("info", path, "--json"))
            self.assertGreaterEqual(info["tensors_" + kind], 16)
            got = {self.ok("logprobs", path, "--ids", IDS, "--generate", "1", "--top", "320",
                           "--kv", "f32", *isa)
                   for isa in ((), ("--isa", "generic"), ("--isa", "avx2", "--threads", "2"))}
            self.assertEqual(len(got), 1, kind)
            rows[kind] = dict(json.loads(got.pop())["top10_logprobs"][0])
            self.assertEqual(len(rows[kind]), 320)
            off = sum(abs(rows[kind][t] - p) for t, p in rows["F32"].items()) / 320
            self.assertLessEqual(off, most, kind)
            self.assertTrue(kind == "F32" or off > 0, kind)
        refused = subprocess.run([MAKE, path, "tiny", "q4_k"], stderr=subprocess.PIPE, check=False)
        self.assertIn(b"not whole blocks of Q4_K", refused.stderr)

    def test_bench(self):
        out = self.ok("bench", self.model, "-p", "40", "-n", "4", "-d", "33", "-b", "3", "-t", "1",
                      "-r", "2")
        self.assertIn("prefill", out)
        self.assertIn("decode", out)
        self.assertIn("q8_0", self.ok("bench", self.wide, "-p", "40", "-n", "2", "-r", "1", "--kv",
                                      "q8_0"))
        got = json.loads(self.ok("bench", self.model, "-p", "40", "-n", "0", "-r", "1", "--json"))
        self.assertGreater(got["prefill_tokens_per_second"], 0)
        self.assertEqual(got["decode_tokens_per_second"], 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
