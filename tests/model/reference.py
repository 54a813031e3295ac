# SPDX-License-Identifier: MIT
"""Compares confab-model logprobs with the answers of an independent engine.

usage: reference.py CONFAB_MODEL SOURCE_ROOT

F32 and F16 models: all greedy ids equal, log-probabilities within 1e-3 (F16: 2e-2, since that
engine rounds activations to F16 and this one does not). Quantised models: the mean difference is
under 0.1; but both engines round activations for types with blocks of 256 in the same way, so these
are compared like F32. Exit status 77 without the reference data.

The reference runs of arch/ were made with ids 0 to 258 (control and byte tokens) forbidden, so that
random weights give printable text; their log-probabilities are of all ids. Here these models are
given the reference's own tokens step by step, and its choice must be the best permitted one.
"""

import glob
import json
import os
import subprocess
import sys

EXACT = 1e-3
LAST_FORBIDDEN = 258
GELU = 1e-2
# Of arch/, what stands there beside CASES: every model, with its tolerance.
WITH_GELU = {"gemma2", "gemma4", "phi2", "starcoder2"}
CASES = [
    # model, reference, tolerance of the greatest difference (None: quantised)
    ("arch/llama3.gguf", "arch/llama3.ref.json", EXACT),
    ("arch/llama-moe.gguf", "arch/llama-moe.ref.json", EXACT),
    ("arch/llama-d256-f32.gguf", "arch/llama-d256-f32.ref.json", EXACT),
    ("arch/llama-d256-q8_0.gguf", "arch/llama-d256-q8_0.ref.json", None),
    ("arch/llama-d256-q4_k_s.gguf", "arch/llama-d256-q4_k_s.ref.json", EXACT),
    ("arch/llama-d256-q6_k.gguf", "arch/llama-d256-q6_k.ref.json", EXACT),
    ("stories/stories260K-f32.gguf", "stories/stories260K-f32.greedy.json", EXACT),
    ("stories/stories260K-f16.gguf", "stories/stories260K-f16.greedy.json", 2e-2),
    ("stories/stories260K-q8_0.gguf", "stories/stories260K-q8_0.greedy.json", None),
]


def ask(tool, model, ids, n, extra=()):
    command = [tool, "logprobs", model, "--ids", ",".join(map(str, ids)), "--generate", str(n),
               "--top", "1000000", "--kv", "f32", *extra]
    out = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    return json.loads(out)


def free_run(tool, model, want):
    """Per step: our choice, our log-probabilities by id; ends where the choices part."""
    ids = want["generated_ids"]
    got = ask(tool, model, want["prompt_ids"], len(ids))
    for i, row in enumerate(got["top10_logprobs"]):
        if got["generated_ids"][:i] != ids[:i]:
            return
        yield got["generated_ids"][i], dict(map(tuple, row))


def forced_run(tool, model, want):
    for i in range(len(want["generated_ids"])):
        got = ask(tool, model, want["prompt_ids"] + want["generated_ids"][:i], 1)
        row = got["top10_logprobs"][0]
        yield next(t for t, _ in row if t > LAST_FORBIDDEN), dict(map(tuple, row))


def architectures(tool, folder):
    """The other models of arch/ as cases."""
    cases = []
    for reference in sorted(glob.glob(os.path.join(folder, "arch", "*.ref.json"))):
        name = os.path.join("arch", os.path.basename(reference))
        model = name.replace(".ref.json", ".gguf")
        if any(model == case[0] for case in CASES):
            continue
        out = subprocess.run([tool, "info", os.path.join(folder, model), "--json"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        gelu = json.loads(out.stdout)["architecture"] in WITH_GELU
        cases.append((model, name, GELU if gelu else EXACT))
    return cases


def compare(tool, model, reference, tolerance, run):
    """One line of findings, and whether they pass."""
    with open(reference, encoding="utf-8") as f:
        want = json.load(f)
    same, differences = 0, []
    for i, (choice, ours) in enumerate(run(tool, model, want)):
        differences += [abs(ours[t] - p) for t, p in want["top10_logprobs"][i]]
        same += choice == want["generated_ids"][i]
    n = len(want["generated_ids"])
    mean, most = sum(differences) / len(differences), max(differences)
    line = f"{same}/{n} ids, mean {mean:.6f}, greatest {most:.6f}"
    if tolerance is None:
        return line, mean < 0.1 and same >= 0.8 * n
    return line, most < tolerance and same == n


def main():
    tool, root = sys.argv[1:3]
    shared = os.environ.get("CONFAB_SHARED", os.path.join(root, "..", "shared"))
    folder = os.path.join(shared, "reference")
    others = architectures(tool, folder)
    seen, failed = 0, 0
    for model, reference, tolerance in CASES + others:
        paths = [os.path.join(folder, p) for p in (model, reference)]
        if not all(map(os.path.exists, paths)):
            print(f"SKIP: {model}: no reference data")
            continue
        run = forced_run if model.startswith("arch/") else free_run
        line, ok = compare(tool, *paths, tolerance, run)
        print(f"{'ok' if ok else 'FAILED'}: {model}: {line}")
        seen += 1
        failed += not ok
    if not seen:
        return 77
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
