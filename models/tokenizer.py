# SPDX-License-Identifier: MIT
"""The tokenizer: trains it with sentencepiece, and encodes text as a GGUF reader does.

A GGUF file of tokenizer model "llama" carries pieces and scores and no normaliser; the
reader joins the adjacent pair with the highest score until nothing joins.  Spm below does
just that, and check() proves that sentencepiece, which the trainer uses for speed, gives
the same tokens on text that the tokenizer has not seen.
"""

import argparse
import os
import random
import sys
import tempfile

import sentencepiece

import dialogues

IM_START, IM_END = "<|im_start|>", "<|im_end|>"
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
SPACE = "\u2581"
DECISION_WEIGHT = 4


class Spm:
    """The encoder of GGUF's 'llama' tokenizer, over a list of (piece, score, type)."""

    def __init__(self, pieces):
        self.pieces = pieces
        self.ids = {piece: i for i, (piece, _, kind) in enumerate(pieces) if kind == NORMAL}
        self.bytes = {piece: i for i, (piece, _, kind) in enumerate(pieces) if kind == BYTE}

    def encode(self, text):
        symbols = list(text.replace(" ", SPACE))
        while True:
            best = None
            for i in range(len(symbols) - 1):
                token = self.ids.get(symbols[i] + symbols[i + 1])
                if token is not None and (best is None or self.pieces[token][1] > best[0]):
                    best = (self.pieces[token][1], i)
            if best is None:
                break
            i = best[1]
            symbols[i:i + 2] = [symbols[i] + symbols[i + 1]]
        out = []
        for symbol in symbols:
            if symbol in self.ids:
                out.append(self.ids[symbol])
            else:
                out += [self.bytes["<0x%02X>" % byte] for byte in symbol.encode()]
        return out

    def decode(self, tokens):
        data = b""
        for token in tokens:
            piece, _, kind = self.pieces[token]
            if kind == BYTE:
                data += bytes([int(piece[3:5], 16)])
            elif kind == NORMAL:
                data += piece.replace(SPACE, " ").encode()
        return data.decode(errors="replace")


class Chat:
    """Turns messages into tokens: every part on its own, control tokens only from the template."""

    def __init__(self, path):
        self.sp = sentencepiece.SentencePieceProcessor(model_file=path)
        self.start = self.sp.piece_to_id(IM_START)
        self.end = self.sp.piece_to_id(IM_END)
        self.newline = self.text("\n")

    def text(self, text):
        """Sentencepiece would drop or reinterpret nothing here: no prefix, no normalisation."""
        out = []
        for i, line in enumerate(text.split("\n")):
            if i:
                out.append(self.sp.piece_to_id("<0x0A>"))
            out += self.sp.encode(line)
        return out

    def decode(self, tokens):
        return Spm(pieces(self.sp)).decode(tokens)

    def header(self, role):
        return [self.start] + self.text(role + "\n")

    def message(self, role, text):
        return self.header(role) + self.text(text) + [self.end] + self.newline

    def dialogue(self, messages):
        """Tokens of the messages, and for each the weight of its loss.

        Where a message names its beginning, the token after that weighs more: there the reply
        turns to the value or to not knowing.
        """
        tokens, learn = [], []
        for role, text, wanted in messages:
            head = self.header(role)
            body = self.text(text) + [self.end]
            tokens += head + body + self.newline
            weights = [int(bool(wanted))] * len(body)
            if isinstance(wanted, str):
                weights[len(self.text(wanted))] = DECISION_WEIGHT
            learn += [0] * len(head) + weights + [0] * len(self.newline)
        return tokens, learn


def pieces(sp):
    """(piece, score, GGUF token type) of every token."""
    out = []
    for i in range(sp.get_piece_size()):
        kind = (UNKNOWN if sp.is_unknown(i) else CONTROL if sp.is_control(i) else
                BYTE if sp.is_byte(i) else NORMAL)
        out.append((sp.id_to_piece(i), sp.get_score(i), kind))
    return out


def corpus(seed, n):
    """Lines of text: messages of written dialogues, and values alone so that all words occur."""
    rng = random.Random("tokenizer-%d" % seed)
    yield " ".join(chr(code) for code in range(33, 127))
    for _ in range(n):
        for role, text, _ in dialogues.training_dialogue(rng, 14):
            yield role
            yield text
        values = dialogues.Values(rng)
        yield " ".join(values.draw("person") for _ in range(4))


def train(path, seed, n, vocab_size):
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "corpus.txt")
        with open(text, "w", encoding="utf-8") as out:
            for line in corpus(seed, n):
                out.write(line + "\n")
        sentencepiece.SentencePieceTrainer.train(
            input=text, model_prefix=os.path.join(folder, "spm"), model_type="bpe",
            vocab_size=vocab_size, normalization_rule_name="identity", add_dummy_prefix=False,
            remove_extra_whitespaces=False, byte_fallback=True, split_digits=True,
            character_coverage=1.0, bos_id=-1, eos_id=-1, pad_id=-1, unk_id=0,
            control_symbols=[IM_START, IM_END], num_threads=1, minloglevel=2)
        os.replace(os.path.join(folder, "spm.model"), path)


def check(path, seed, n):
    """Exits if sentencepiece and the GGUF algorithm differ on any unseen message."""
    chat = Chat(path)
    spm = Spm(pieces(chat.sp))
    rng = random.Random("check-%d" % seed)
    texts = [text for _ in range(n) for _, text, _ in dialogues.training_dialogue(rng, 12)]
    texts += ["user\n", "assistant\n", "\n", "  two  spaces ", "na\u00efve caf\u00e9 \U0001f600",
              "a\nb\n\nc", "<|im_end|>", " 12 + 34 = 46", "x" * 50, "aaa bbb\tccc"]
    n_tokens = n_chars = 0
    for text in texts:
        ours, theirs = spm.encode(text), chat.text(text)
        if ours != theirs or spm.decode(ours) != text:
            sys.exit("tokens differ for %r: %r, %r" % (text, ours, theirs))
        n_tokens += len(ours)
        n_chars += len(text)
    print("%d texts equal, %.2f characters a token" % (len(texts), n_chars / n_tokens))


def main():
    parser = argparse.ArgumentParser(description="Train the tokenizer and check it.")
    parser.add_argument("--out", default="tokenizer.model")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dialogues", type=int, default=8000)
    parser.add_argument("--vocab", type=int, default=1536)
    args = parser.parse_args()
    train(args.out, args.seed, args.dialogues, args.vocab)
    check(args.out, args.seed, 200)


if __name__ == "__main__":
    main()
