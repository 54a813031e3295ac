#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""make-unigram.py > unigram-data.h: the data of test-unigram.c.

Trains small Unigram models with SentencePiece (Debian's python3-sentencepiece and
python3-protobuf, PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python) on text made up here,
and lets SentencePiece tokenise some texts with them. Run by hand; the result is in the tree.
"""
import io
import random
import re
import sys

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as model_pb2

random.seed(20261122)

# A normal form of our own: long and short sources, sources that begin others, nothing, several spaces.
RULES = [('ﬁ', 'fi'), ('ﬂ', 'fl'), ('…', '...'), ('\t', ' '), ('\n', ' '), ('\r\n', ' '), ('\u00a0', ' '),
         ('\u3000', ' '), ('\u200b', ''), ('é', 'e'), ('e\u0301', 'e'), ('Ⅷ', 'VIII'), ('①', '1'),
         ('½', '1 2'), ('ａ', 'a'), ('ｂ', 'b'), ('ß', 'ss'), ('ŉ', 'ʼn'), ('가', '\u1100\u1161')]
SYLLABLES = ['ka', 'to', 'mi', 'ren', 'sol', 'va', 'chi', 'du', 'per', 'lan', 'fi', 'os']
TEXTS = ['', ' ', 'a', ' a', 'a ', '  a  b  ', 'kato miren', 'Kato, Miren!', 'ﬁﬂ…', 'kato\tmiren\n\n  sol', '\u3000kato\u3000',
         'a\u200bb', 'kate\u0301', 'katé', 'Ⅷ①½', '½ ½', 'ａｂｃ', 'straße', '中文', 'ka中文to', '中 文', '가나', '🙂🙂 ka🙂',
         'a▁b', 'katomirensolvachidu', 'x' * 40, ' '.join('kato' for _ in range(20)), '<unk>', '<s>', '</s>', '<0x41>',
         'e', 'e\u0301\u0301', '\u0301', 'vadu fios!!! 1234 5.6', 'perlanperlan\u00a0\u00a0os', '   ', '\n', 'ka\x00to']


def corpus():
    words = [''.join(random.choice(SYLLABLES) for _ in range(random.randint(1, 4))) for _ in range(300)]
    for _ in range(2000):
        line = ' '.join(words[min(299, int(random.expovariate(0.02)))] for _ in range(random.randint(3, 12)))
        yield line.capitalize() + random.choice(['.', '!', '?', ', 12', ' 3.5', ' a b c'])


def train(folder, name, **options):
    rules = f'{folder}/rules.tsv'
    with open(rules, 'w', encoding='utf-8') as f:
        for source, target in RULES:
            f.write(' '.join(f'{ord(c):X}' for c in source) + '\t' + ' '.join(f'{ord(c):X}' for c in target) + '\n')
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(list(corpus())), model_writer=model, model_type='unigram', vocab_size=options.pop('vocab_size'),
        normalization_rule_tsv=rules, hard_vocab_limit=False, minloglevel=2, num_threads=1, **options)
    return model.getvalue()


def c_string(data):
    """One C string literal; each escape is closed, so that no digit after it joins it."""
    return '"' + re.sub(r'(\\x..)(?=[0-9a-fA-F])', r'\1" "', ''.join(
        chr(b) if 32 <= b < 127 and b not in b'"\\?' else f'\\x{b:02x}' for b in data)) + '"'


def emit(name, model, texts, out):
    proto = model_pb2.ModelProto.FromString(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    out.write(f'static const struct unigram_token {name}_tokens[] = {{\n')
    for p in proto.pieces:
        out.write(f'        {{{c_string(p.piece.encode())}, {p.type}, {p.score!r}f}},\n')
    out.write('};\n')
    cases, all_ids = [], []
    for text in texts:
        ids = processor.encode(text)
        cases.append((text.encode(), len(all_ids), len(ids)))
        all_ids += ids
    out.write(f'static const int32_t {name}_ids[] = {{')
    for i, token in enumerate(all_ids):
        out.write(('\n        ' if i % 16 == 0 else ' ') + f'{token},')
    out.write('\n};\n')
    out.write(f'static const struct unigram_case {name}_cases[] = {{\n')
    for text, start, n in cases:
        out.write(f'        {{{c_string(text)}, {len(text)}, {start}, {n}}},\n')
    out.write('};\n')


def emit_charsmap(model, out):
    out.write('static const uint8_t charsmap[] = {')
    for i, b in enumerate(model_pb2.ModelProto.FromString(model).normalizer_spec.precompiled_charsmap):
        out.write(('\n        ' if i % 20 == 0 else ' ') + f'{b},')
    out.write('\n};\n')


def random_texts(n):
    parts = SYLLABLES + [s for s, _ in RULES] + [' ', ' ', '  ', '.', '1', 'é', '中', 'K', 'x', '🙂']
    return [''.join(random.choice(parts) for _ in range(random.randint(1, 14))) for _ in range(n)]


def main():
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        plain = train(folder, 'plain', vocab_size=200)
        bytes_ = train(folder, 'bytes', vocab_size=400, byte_fallback=True, remove_extra_whitespaces=False)
    out = sys.stdout
    out.write('/* SPDX-License-Identifier: MIT */\n#pragma once\n')
    out.write('/* Made by make-unigram.py. Do not edit. */\n/* clang-format off */\n#include <stddef.h>\n#include <stdint.h>\n\n')
    out.write('struct unigram_token {\n        const char *text;\n        int32_t type;\n        float score;\n};\n')
    out.write('struct unigram_case {\n        const char *text;\n        size_t size;\n        unsigned start, n; /* in the ids */\n};\n')
    texts = TEXTS + random_texts(150)
    emit_charsmap(plain, out)
    emit('plain', plain, texts, out)
    emit('bytes', bytes_, texts, out)


main()
