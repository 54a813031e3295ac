#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes the bundled model from nothing: tokenizer, training, export, evaluation of the checkpoint.
# Usage: models/make.sh WORK-FOLDER [MINUTES]; MINUTES of training on one core, 100 if not given.
# Needs Debian's python3-torch, python3-sentencepiece and a C compiler.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$1
minutes=${2:-100}
python=${PYTHON:-/usr/bin/python3}
mkdir -p "$work"

# Large blocks are allocated anew in every step; keeping them mapped saves a fifth of the time.
export GLIBC_TUNABLES="glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0"
GLIBC_TUNABLES="$GLIBC_TUNABLES:glibc.malloc.trim_threshold=8589934592"
GLIBC_TUNABLES="$GLIBC_TUNABLES:glibc.malloc.top_pad=268435456"

"$python" "$here/tokenizer.py" --out "$work/tokenizer.model"
"$python" "$here/train.py" --tokenizer "$work/tokenizer.model" --out "$work/checkpoint.pt" \
    --minutes "$minutes" --quick 30 --quick-every 400
for type in q8_0 q4_0; do
    "$python" "$here/export.py" "$work/checkpoint.pt" --tokenizer "$work/tokenizer.model" \
        --type "$type" --out "$work/confab-small.$type.gguf"
done
"$python" "$here/evaluate.py" --torch "$work/checkpoint.pt" --tokenizer "$work/tokenizer.model"
