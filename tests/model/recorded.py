# SPDX-License-Identifier: MIT
"""Compares small models of every architecture with the recorded answers of an independent engine.

usage: recorded.py CONFAB_MODEL MAKE_MODEL
       recorded.py --keep FOLDER     (take over what `tools/parity --record FOLDER` has recorded)

recorded/NAME.json belongs to the model that `make-model FILE arch:NAME f32` writes: token ids, and the ten
best log-probabilities after some of them. Every model must have one. Log-probabilities must agree
within 1e-3, those of architectures with a GELU within 1e-2.
"""

import glob
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded")
STEPS = (0, 7, 15, 23)


def keep(folder):
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        if path.endswith("-long.json"):
            continue
        with open(path, encoding="utf-8") as f:
            all_steps = json.load(f)
        kept = {key: all_steps[key] for key in ("oracle", "prompt_ids", "generated_ids")}
        kept["top10_logprobs"] = {i: [[t, round(p, 5)] for t, p in all_steps["top10_logprobs"][i]]
                                  for i in STEPS}
        text = json.dumps(kept, separators=(",", ":"))
        with open(os.path.join(HERE, os.path.basename(path)), "w", encoding="utf-8") as f:
            f.write(text.replace('],"', '],\n"').replace(']],"', ']],\n"') + "\n")


def greatest_difference(tool, model, want):
    most = 0
    for step, best in want["top10_logprobs"].items():
        ids = want["prompt_ids"] + want["generated_ids"][:int(step)]
        out = subprocess.run([tool, "logprobs", model, "--ids", ",".join(map(str, ids)), "--generate", "1",
                              "--top", "1000000", "--kv", "f32"], stdout=subprocess.PIPE, check=True).stdout
        ours = dict(map(tuple, json.loads(out)["top10_logprobs"][0]))
        most = max([most] + [abs(ours[t] - p) for t, p in best])
    return most


def main():
    if sys.argv[1] == "--keep":
        keep(sys.argv[2])
        return 0
    tool, make = sys.argv[1:3]
    lines = subprocess.run([make, "--list"], stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
    models = [(line.split()[0], "gelu" in line.split()) for line in lines]
    failed = len(models) < 50
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model.gguf")
        for name, gelu in models:
            with open(os.path.join(HERE, name + ".json"), encoding="utf-8") as f:
                want = json.load(f)
            subprocess.run([make, model, "arch:" + name, "f32"], check=True)
            most = greatest_difference(tool, model, want)
            ok = len(want["top10_logprobs"]) == len(STEPS) and most < (1e-2 if gelu else 1e-3)
            print(f"{'ok' if ok else 'FAILED'}: {name}: greatest {most:.6f}")
            failed += not ok
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
