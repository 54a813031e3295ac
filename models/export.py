# SPDX-License-Identifier: MIT
"""Writes a checkpoint as GGUF (F32, Q8_0 or Q4_0), and reads one back to check it.

The reader, the dequantisation and the forward pass of check() are plain numpy and share nothing
with the trainer but the file, so a wrong layout shows as wrong logits.
"""

import argparse
import os
import struct
import sys

import numpy
import torch

import dialogues
import model as models
import tokenizer

ALIGNMENT = 32
F32, Q4_0, Q8_0 = 0, 2, 8
FILE_TYPES = {"f32": (0, F32), "q4_0": (2, Q4_0), "q8_0": (7, Q8_0)}
BLOCK_BYTES = {Q4_0: 18, Q8_0: 34}
TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
            "message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
U32, I32, FLOAT, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9


def round_away(x):
    """Rounds halves away from zero, as C's roundf."""
    return numpy.trunc(x + numpy.copysign(numpy.float32(0.5), x))


def quantise(x, kind):
    """Bytes of the float32 matrix X in tensor type KIND."""
    x = numpy.ascontiguousarray(x, dtype=numpy.float32)
    if kind == F32:
        return x.tobytes()
    blocks = x.reshape(-1, 32)
    if kind == Q8_0:
        d = numpy.abs(blocks).max(1) / numpy.float32(127)
        inverse = numpy.divide(1, d, out=numpy.zeros_like(d), where=d != 0)
        q = round_away(blocks * inverse[:, None]).astype(numpy.int8).view(numpy.uint8)
    else:
        largest = blocks[numpy.arange(len(blocks)), numpy.abs(blocks).argmax(1)]
        d = largest / numpy.float32(-8)
        inverse = numpy.divide(1, d, out=numpy.zeros_like(d), where=d != 0)
        n = numpy.minimum(15, numpy.trunc(blocks * inverse[:, None] + numpy.float32(8.5)))
        n = n.astype(numpy.uint8)
        q = n[:, :16] | n[:, 16:] << 4
    scales = d.astype("<f2").view(numpy.uint8).reshape(-1, 2)
    return numpy.concatenate([scales, q], 1).tobytes()


def dequantise(data, kind, n):
    if kind == F32:
        return numpy.frombuffer(data, "<f4", n)
    blocks = numpy.frombuffer(data, numpy.uint8).reshape(-1, BLOCK_BYTES[kind])
    d = blocks[:, :2].copy().view("<f2").astype(numpy.float32)
    q = blocks[:, 2:]
    if kind == Q8_0:
        values = q.copy().view(numpy.int8).astype(numpy.float32)
    else:
        values = numpy.concatenate([q & 15, q >> 4], 1).astype(numpy.float32) - 8
    return (values * d).reshape(-1)


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def scalar(kind, value):
    if kind == STRING:
        return string(value)
    return struct.pack({U32: "<I", I32: "<i", FLOAT: "<f", BOOL: "<?"}[kind], value)


def pair(key, kind, value):
    """One metadata entry; a list becomes an array of KIND."""
    if isinstance(value, list):
        body = b"".join(scalar(kind, item) for item in value)
        return string(key) + struct.pack("<iiQ", ARRAY, kind, len(value)) + body
    return string(key) + struct.pack("<i", kind) + scalar(kind, value)


def metadata(config, pieces, file_type):
    end = [piece for piece, _, _ in pieces].index(tokenizer.IM_END)
    start = [piece for piece, _, _ in pieces].index(tokenizer.IM_START)
    head = config["dim"] // config["heads"]
    return [
        pair("general.architecture", STRING, "llama"),
        pair("general.name", STRING, "confab-small"),
        pair("general.type", STRING, "model"),
        pair("general.author", STRING, "the confab project"),
        pair("general.license", STRING, "MIT"),
        pair("general.description", STRING,
             "A very small chat model for trying and testing confab, trained on written dialogues"),
        pair("general.file_type", U32, file_type),
        pair("general.quantization_version", U32, 2),
        pair("llama.context_length", U32, config["context"]),
        pair("llama.embedding_length", U32, config["dim"]),
        pair("llama.block_count", U32, config["layers"]),
        pair("llama.feed_forward_length", U32, config["ffn"]),
        pair("llama.attention.head_count", U32, config["heads"]),
        pair("llama.attention.head_count_kv", U32, config["kv_heads"]),
        pair("llama.attention.layer_norm_rms_epsilon", FLOAT, models.EPS),
        pair("llama.rope.dimension_count", U32, head),
        pair("llama.rope.freq_base", FLOAT, config["rope_base"]),
        pair("llama.vocab_size", U32, config["vocab"]),
        pair("tokenizer.ggml.model", STRING, "llama"),
        pair("tokenizer.ggml.tokens", STRING, [piece for piece, _, _ in pieces]),
        pair("tokenizer.ggml.scores", FLOAT, [score for _, score, _ in pieces]),
        pair("tokenizer.ggml.token_type", I32, [kind for _, _, kind in pieces]),
        pair("tokenizer.ggml.bos_token_id", U32, start),
        pair("tokenizer.ggml.eos_token_id", U32, end),
        pair("tokenizer.ggml.eot_token_id", U32, end),
        pair("tokenizer.ggml.unknown_token_id", U32, 0),
        pair("tokenizer.ggml.add_bos_token", BOOL, False),
        pair("tokenizer.ggml.add_eos_token", BOOL, False),
        pair("tokenizer.ggml.add_space_prefix", BOOL, False),
        pair("tokenizer.chat_template", STRING, TEMPLATE),
    ]


def tensors(config, weights):
    """(name, float32 array) in file order, under the names of the llama architecture."""
    hd = config["dim"] // config["heads"]
    q, k, f = config["heads"] * hd, config["kv_heads"] * hd, config["ffn"]
    out = [("token_embd.weight", weights["embedding"])]
    for i in range(config["layers"]):
        qkv, gu = weights["wqkv.%d" % i], weights["wgu.%d" % i]
        for name, value in (("attn_norm", weights["norms.%d" % (2 * i)]), ("attn_q", qkv[:q]),
                            ("attn_k", qkv[q:q + k]), ("attn_v", qkv[q + k:]),
                            ("attn_output", weights["wo.%d" % i]),
                            ("ffn_norm", weights["norms.%d" % (2 * i + 1)]), ("ffn_gate", gu[:f]),
                            ("ffn_up", gu[f:]), ("ffn_down", weights["wdown.%d" % i])):
            out.append(("blk.%d.%s.weight" % (i, name), value))
    out.append(("output_norm.weight", weights["norms.%d" % (2 * config["layers"])]))
    return [(name, value.numpy()) for name, value in out]


def pad(data):
    return data + bytes(-len(data) % ALIGNMENT)


def write(path, checkpoint, spm_path, kind_name):
    config = checkpoint["config"]
    file_type, wanted = FILE_TYPES[kind_name]
    pairs = metadata(config, tokenizer.pieces(tokenizer.Chat(spm_path).sp), file_type)
    infos, data, offset = [], [], 0
    for name, value in tensors(config, checkpoint["model"]):
        kind = F32 if value.ndim == 1 else wanted
        if name == "token_embd.weight" and wanted == Q4_0:
            kind = Q8_0     # also the output matrix, as the model is tied: four bits cost too much
        dims = value.shape[::-1]
        infos.append(string(name) + struct.pack("<I%dQiQ" % len(dims), len(dims), *dims, kind,
                                                offset))
        data.append(pad(quantise(value, kind)))
        offset += len(data[-1])
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(infos), len(pairs))
    with open(path + ".new", "wb") as out:
        out.write(pad(head + b"".join(pairs) + b"".join(infos)))
        out.write(b"".join(data))
    os.replace(path + ".new", path)


def read(path):
    """(metadata, tensors as float32) of a GGUF file."""
    with open(path, "rb") as file:
        data = file.read()
    at = 0

    def take(form):
        nonlocal at
        values = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return values[0] if len(values) == 1 else values

    def text():
        nonlocal at
        n = take("Q")
        at += n
        return data[at - n:at].decode()

    def value(kind):
        if kind == ARRAY:
            kind, n = take("iQ")
            return [value(kind) for _ in range(n)]
        return text() if kind == STRING else take({U32: "I", I32: "i", FLOAT: "f", BOOL: "?"}[kind])

    magic, version, n_tensors, n_pairs = take("4sIQQ")
    assert magic == b"GGUF" and version == 3
    meta = {}
    for _ in range(n_pairs):
        key = text()
        meta[key] = value(take("i"))
    infos = []
    for _ in range(n_tensors):
        name = text()
        dims = [take("Q") for _ in range(take("I"))]
        infos.append((name, dims, *take("iQ")))
    base = -(-at // ALIGNMENT) * ALIGNMENT
    out, expected = {}, 0
    for name, dims, kind, offset in infos:
        n = int(numpy.prod(dims))
        size = n * 4 if kind == F32 else n // 32 * BLOCK_BYTES[kind]
        assert offset == expected and base + offset + size <= len(data)
        expected += -(-size // ALIGNMENT) * ALIGNMENT
        piece = data[base + offset:base + offset + size]
        out[name] = dequantise(piece, kind, n).reshape(dims[::-1])
    return meta, out


def forward(meta, weights, tokens):
    """Logits [position][token] of the llama architecture, in numpy."""
    nh, nk = meta["llama.attention.head_count"], meta["llama.attention.head_count_kv"]
    hd, n = meta["llama.rope.dimension_count"], len(tokens)

    def norm(x, w):
        eps = meta["llama.attention.layer_norm_rms_epsilon"]
        return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + eps) * w

    angle = numpy.arange(n)[:, None, None] * (
        meta["llama.rope.freq_base"] ** (-numpy.arange(0, hd, 2) / hd))

    def rotate(x):
        z = (x[..., 0::2] + 1j * x[..., 1::2]) * numpy.exp(1j * angle)
        return numpy.stack([z.real, z.imag], -1).reshape(x.shape).astype(numpy.float32)

    x = weights["token_embd.weight"][tokens]
    for i in range(meta["llama.block_count"]):
        w = {key.split(".")[2]: value for key, value in weights.items()
             if key.startswith("blk.%d." % i)}
        y = norm(x, w["attn_norm"])
        q = rotate((y @ w["attn_q"].T).reshape(n, nh, hd))
        k = rotate((y @ w["attn_k"].T).reshape(n, nk, hd)).repeat(nh // nk, 1)
        v = (y @ w["attn_v"].T).reshape(n, nk, hd).repeat(nh // nk, 1)
        scores = numpy.einsum("ihd,jhd->hij", q, k) / hd ** 0.5
        scores[:, ~numpy.tri(n, dtype=bool)] = -numpy.inf
        p = numpy.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        x = x + numpy.einsum("hij,jhd->ihd", p, v).reshape(n, -1) @ w["attn_output"].T
        y = norm(x, w["ffn_norm"])
        gate = y @ w["ffn_gate"].T
        x = x + (gate / (1 + numpy.exp(-gate)) * (y @ w["ffn_up"].T)) @ w["ffn_down"].T
    return norm(x, weights["output_norm.weight"]) @ weights["token_embd.weight"].T


def check(path, checkpoint, spm_path, worst):
    """Compares the file's logits with the checkpoint's on an evaluation dialogue."""
    meta, weights = read(path)
    chat = tokenizer.Chat(spm_path)
    case = dialogues.eval_set(n_recall=1, n_unknown=0, n_sums=0, n_corrected=0, n_new=0)[0]
    tokens, _ = chat.dialogue(dialogues.case_messages(case))
    ours = forward(meta, weights, tokens)
    model = models.Model(checkpoint["config"], fast=False, dtype=torch.float32)
    model.load_state_dict(checkpoint["model"])
    with torch.no_grad():
        theirs = model.logits(model.hidden(torch.tensor([tokens]))).numpy()
    spm = tokenizer.Spm(list(zip(meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.scores"],
                                 meta["tokenizer.ggml.token_type"])))
    for text in case["user"] + ["user\n", "assistant\n"]:
        assert spm.encode(text) == chat.text(text)
    difference = numpy.abs(ours - theirs)
    same = (ours.argmax(1) == theirs.argmax(1)).mean()
    print("%s: %d bytes; %d tokens, logits differ by %.5f on average and %.4f at most, "
          "%.1f%% of the likeliest tokens equal" % (path, os.path.getsize(path), len(tokens),
                                                   difference.mean(), difference.max(), 100 * same))
    if difference.mean() > worst:
        sys.exit("the file does not say what the checkpoint says")


def main():
    parser = argparse.ArgumentParser(description="Write a checkpoint as GGUF and check it.")
    parser.add_argument("checkpoint")
    parser.add_argument("--tokenizer", default="tokenizer.model")
    parser.add_argument("--type", choices=sorted(FILE_TYPES), default="q8_0")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    checkpoint = torch.load(args.checkpoint, map_location="cpu")
    write(args.out, checkpoint, args.tokenizer, args.type)
    check(args.out, checkpoint, args.tokenizer, {"f32": 1e-3, "q8_0": 0.3, "q4_0": 3.0}[args.type])


if __name__ == "__main__":
    main()
