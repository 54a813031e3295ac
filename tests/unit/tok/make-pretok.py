#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make-pretok.py > pretok-data.h: what pre-tokenizers make of difficult texts.

The rules are written here once more, in the syntax of Python's `regex` module (python3-regex), which
backtracks, has all of Unicode's properties, and shares nothing with lib/tok. Run by hand; the result
is in the tree. The texts use no character that is newer than Unicode 14.
"""
import random

import regex

random.seed(88)

TAIL = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
SPACES = r'\s*[\r\n]+|\s+(?!\S)|\s+'
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"


def llama3(digits):
    return TAIL + r'|[^\r\n\p{L}\p{N}]?\p{L}+|' + digits + r'| ?[^\s\p{L}\p{N}]+[\r\n]*|' + SPACES


def cased(tail, digits, not_han='', end=r'[\r\n/]*'):
    upper = r'[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}%s]' % not_han
    lower = r'[\p{Ll}\p{Lm}\p{Lo}\p{M}%s]' % not_han
    first = r'[^\r\n\p{L}\p{N}]?'
    return (f'{first}{upper}*{lower}+{tail}|{first}{upper}+{lower}*{tail}|{digits}'
            rf'| ?[^\s\p{{L}}\p{{N}}]+{end}|' + SPACES)


O200K = cased(TAIL + '?', r'\p{N}{1,3}')
DEEPSEEK3 = (r'''[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+'''
             r'| ?[\p{P}\p{S}]+[\r\n]*|' + SPACES)
CJK = '[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+'
BLOOM = r' ?[^(\s|.,!?…。，、।۔،)]+'
KANA = '[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+'
# The cased letters that deepseek-llm lists: of these texts' letters, those with case but one.
CASED_LETTERS = '\\s?[[\\p{Lu}\\p{Ll}\\p{Lt}]--[\U0001d400]]+'

RULES = {
    'default': [r'[\p{P}\$\+<=>\^~\|]+', GPT2, r'\p{N}+', '[0-9][0-9][0-9]'],
    'minicpm5': [r'\p{N}{1,3}', llama3(r'\p{N}+')],
    'llama-bpe': [llama3(r'\p{N}{1,3}')],
    'glm4': [llama3(r'\p{N}{1,3}')],
    'deepseek-llm': [r'[\r\n]', CASED_LETTERS, '\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+', r'\s+$', CJK, r'\p{N}+'],
    'deepseek-coder': [r'[\r\n]', r'\s?\p{L}+', r'\s?\p{P}+', CJK, r'\p{N}'],
    'deepseek-v3': [r'\p{N}{1,3}', KANA, DEEPSEEK3],
    'youtu': ['[\uac00-\ud7a3\u3131-\u318e]+|[！…“”‘’—：；，\u3001-\u303f\ufe30-\ufe4f]+|[\u3105-\u312f]+|' + KANA,
              cased(TAIL + '?', r'\p{N}')],
    'falcon': [r'[\p{P}\$\+<=>\^~\|`]+', GPT2, '[0-9][0-9][0-9]'],
    'gpt-2': [GPT2],
    'starcoder': [r'\p{N}', GPT2],
    'jais-2': [TAIL + r'|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|'
               + '|'.join(r'\s{%d}(?!\S)' % (1 << i) for i in range(9, 1, -1)) + r'|\s{1,2}(?!\S)|\s{1}'],
    'gemma4': [r'[^\n]+|[\n]+'],
    'whitespace': [r'\S+'],
    'qwen2': [llama3(r'\p{N}')],
    'qwen35': [TAIL + r'|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|' + SPACES],
    'bloom': [BLOOM],
    'viking': [BLOOM, r'\p{N}'],
    'tekken': [cased('', r'\p{N}')],
    'exaone-moe': [TAIL + r'|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?'
                   r'|\s*[\r\n]|\s+(?!\S)|\s+'],
    'chameleon': ['<sentinel:[0-9]+>', '(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z', r'([\t\n]|    |  )', r'\p{N}',
                  r'[\p{P}!-/:-@\[-`{-~]', GPT2],
    'gpt-4o': [O200K],
    'granite-embed-multi-97m': [O200K],
    'tiny_aya': [r'\d{1,3}(?=(?:\d{3})*\b)', O200K],
    'superbpe': [r'\p{N}+', r'(?=(\d{3})+(?!\d))'],
    'bailingmoe': [r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                   r'|\s*[\r\n]|\s+(?!\S)|\s+'],
    'seed-coder': [TAIL + r'|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|' + SPACES],
    'kimi-k2': [r'\p{Han}+|' + cased(TAIL + '?', r'\p{N}{1,3}', r'&&[^\p{Han}]', r'[\r\n]*')],
    'afmoe': [r'\p{N}{1,2}(?=(?:\p{N}{3})*(?!\p{N}))(?<!\p{N}{3})|\p{N}{3}',
              '[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f'
              '\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+', DEEPSEEK3],
    'laguna': [r'[^\n]+|[\n]+', llama3(r'\p{N}')],
}

PARTS = [' ', ' ', ' ', '  ', '\n', '\r\n', '\t', '\u00a0', '\u3000', '\u0085', '\u2028', '\u180e', '\u200b', '\u200d',
         'a', 'z', 'B', 'HTML', 'camelCase', 'é', 'É', 'ß', 'ǅ', 'ʰ', 'ª', 'Ω', 'ж', 'Ж', '\u0301', '\u0903', '\u20dd', 'ا', 'ש',
         '中', '文字', 'か', 'カ', 'ー', '々', '〇', '가', 'ㄱ', 'ㄅ', 'ไทย', 'ກ', 'ខ', 'မ', '\U00020000', '\U0001d400', '𐍈',
         '1', '23', '456', '7890', '٣', '٤٥', '½', 'Ⅷ', '²', '１', '④', "'", "'s", "'LL", "'Re", "'d", "'ſ", '’s', '.', ',', '!',
         '?', '/', '//', '_', '-', '—', '…', '。', '，', '、', '।', '۔', '“', '$', '+', '<', '=', '>', '^', '~', '|', '`', '(', ')',
         '€', '😀', '👍🏽', '\u2603', '\x00', '\x1c', '<sentinel:12>', '<sentinel:', 'IMGIMGABZ', 'IMGIMGABCDEZ', '\\', '"', '{', '}']
TEXTS = ["Hello World! I'll've 12345 things, don't you?\n\n  Yes  ", '   \n  \n   x', "'s't're've'm'll'd'S'T'RE'VE'M'LL'D", '\r\n\r\n \r\n',
         'a' + ' ' * 700 + 'b', ' ' * 512, ' ' * 515 + '\n', '1234567 12345x x12345 1 12 123 1234', '12٣٤5 ½½½½ ²²', 'ABCdefGHIʰJ', 'ʰAAAA ʰAAAAʰA',
         'word\u0301s \u0301x \u0301\u0301', 'a b c\u0301 d  e', 'foo/bar//baz\n/qux', 'print("x")\r\n\tif x:\n', '中文 中文。ABC中', 'が ガ ｶﾞ',
         'x\u00a0y\u3000z\u2009\u2009w', '\ufeffBOM', '<|im_end|></s>', 'a.b,c;d', '...!!!???', ' .', ' ..\n\n..', '$100 €5', 'É é ÉCOLE École ǅungla']


def split(rules, text):
    pieces = [text]
    for rule in rules:
        rule = regex.compile(rule.replace(r'\s', r'\p{White_Space}').replace(r'\S', r'\P{White_Space}'), regex.V1)
        after = []
        for piece in pieces:
            cuts = {0, len(piece)}
            for m in rule.finditer(piece):
                cuts |= {m.start(), m.end()}
            cuts = sorted(cuts)
            after += [piece[a:b] for a, b in zip(cuts, cuts[1:])]
        pieces = after
    return pieces


def c_string(text):
    data = text.encode()
    out = ''
    for i, b in enumerate(data):
        if 32 <= b < 127 and b not in b'"\\?':
            if out.endswith('" "') is False and i > 0 and not (32 <= data[i - 1] < 127 and data[i - 1] not in b'"\\?'):
                out += '" "'
            out += chr(b)
        else:
            out += f'\\x{b:02x}'
    return f'"{out}"'


def main():
    texts = TEXTS + [''.join(random.choice(PARTS) for _ in range(random.randint(3, 16))) for _ in range(150)]
    texts += [''.join(random.choice(PARTS[:14]) for _ in range(random.randint(3, 12))) + random.choice(['', 'a', '1', '!']) for _ in range(30)]
    print('/* SPDX-License-Identifier: MIT */\n#pragma once\n/* Made by make-pretok.py. Do not edit. */\n/* clang-format off */')
    print('#include <stddef.h>\n')
    print('static const struct {\n        const char *text;\n        size_t size;\n} pretok_texts[] = {')
    for t in texts:
        print(f'        {{{c_string(t)}, {len(t.encode())}}},')
    print('};')
    print('/* The sizes of the pieces of each text, texts divided by a comma. */')
    print('static const struct {\n        const char *name, *sizes;\n} pretok_splits[] = {')
    for name, rules in RULES.items():
        print(f'        {{"{name}",')
        lines = [' '.join(str(len(p.encode())) for p in split(rules, t)) for t in texts]
        row = ','.join(lines)
        for i in range(0, len(row), 100):
            print(f'         "{row[i:i + 100]}"')
        print('        },')
    print('};')


main()
