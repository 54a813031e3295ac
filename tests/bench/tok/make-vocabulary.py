#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""make-vocabulary.py unigram|rwkv SIZE TEXT OUT.gguf: a vocabulary for bench-tok, which no file of shared data has.

unigram: what SentencePiece (Debian's python3-sentencepiece) learns of TEXT, with its normal form nmt_nfkc as T5 has it.
rwkv: all bytes, and TEXT's most frequent words with the space before them and their beginnings, as RWKV's "world"
vocabulary has them. SIZE is reached if TEXT has enough of them.
"""
import collections
import io
import re
import struct
import sys

UINT32, FLOAT32, STRING, ARRAY, INT32, UINT8 = 4, 6, 8, 9, 5, 0
NORMAL, UNKNOWN, CONTROL = 1, 2, 3


def string(b):
    return struct.pack("<Q", len(b)) + b


def array(kind, form, values):
    return struct.pack("<IIQ", ARRAY, kind, len(values)) + struct.pack(f"<{len(values)}{form}", *values)


def write(path, model, tokens, types, scores, more):
    fields = {"general.architecture": struct.pack("<I", STRING) + string(b"none"),
              "tokenizer.ggml.model": struct.pack("<I", STRING) + string(model),
              "tokenizer.ggml.tokens": struct.pack("<IIQ", ARRAY, STRING, len(tokens)) + b"".join(map(string, tokens)),
              "tokenizer.ggml.token_type": array(INT32, "i", types),
              "tokenizer.ggml.scores": array(FLOAT32, "f", scores), **more}
    with open(path, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(fields)))
        for key, value in fields.items():
            f.write(string(key.encode()) + value)


def unigram(size, text, out):
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2 as model_pb2

    model = io.BytesIO()
    lines = (line for line in text.splitlines() if line.strip())
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=lines, model_writer=model, model_type="unigram", vocab_size=size, hard_vocab_limit=False,
        normalization_rule_name="nmt_nfkc", max_sentence_length=1 << 20, minloglevel=2)
    proto = model_pb2.ModelProto.FromString(model.getvalue())
    kinds = {proto.SentencePiece.UNKNOWN: UNKNOWN, proto.SentencePiece.CONTROL: CONTROL}
    write(out, b"t5", [p.piece.encode() for p in proto.pieces], [kinds.get(p.type, NORMAL) for p in proto.pieces],
          [p.score for p in proto.pieces],
          {"tokenizer.ggml.unknown_token_id": struct.pack("<II", UINT32, proto.trainer_spec.unk_id),
           "tokenizer.ggml.precompiled_charsmap": array(UINT8, "B", list(proto.normalizer_spec.precompiled_charsmap))})


def rwkv(size, text, out):
    seen = collections.Counter()
    for word, n in collections.Counter(re.findall(r" ?\w+| ?[^\w\s]+|\s+", text)).items():
        for i in range(2, min(len(word), 24) + 1):
            seen[word[:i].encode()] += n
    tokens = [b"<s>"] + [b"\\x%02x" % i for i in range(256)]
    for word, _ in seen.most_common(size - len(tokens)):
        tokens.append(word.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\t", b"\\t").replace(b"\r", b"\\r"))
    write(out, b"rwkv", tokens, [CONTROL] + [NORMAL] * (len(tokens) - 1), [0.0] * len(tokens), {})


def main():
    kind, size, path, out = sys.argv[1:]
    with open(path, encoding="utf-8", errors="replace") as f:
        {"unigram": unigram, "rwkv": rwkv}[kind](int(size), f.read(), out)


if __name__ == "__main__":
    main()
