# SPDX-License-Identifier: MIT
"""Evaluates the model in unseen conversations: through the daemon, or from a checkpoint.

Every conversation is held message by message and the model's own replies stay in it.  The last
message asks for a fact told at least 20 messages before, for one never told, or for a sum.

The reply must hold the right value and no other value that was told in the conversation.  For what
was never told it must be, as a whole, that it was not told; a value before or after that is wrong.
Exits with 1 if a figure is under its aim.
"""

import argparse
import collections
import concurrent.futures
import re
import subprocess
import sys

import dialogues
from dialogues import holds

AIMS = {"recall": 0.95, "unknown": 0.90, "sum": 0.90}
MAX_TOKENS = 60


NOT_TOLD = ("i don't know", "you haven't told me")


def plain(text):
    """TEXT in lower case without punctuation and without the apostrophes that some leave out."""
    text = text.lower().replace("\u2019", "'").replace("'", "")
    return " ".join(re.findall(r"\w+", text))


def says_not_told(case, reply):
    """Whether REPLY is, as a whole, that the fact was not told: perhaps after its wording, but
    without any value."""
    phrases = "|".join(plain(phrase) for phrase in NOT_TOLD)
    wording = plain(case["replies"][-1].split("...")[0])
    return re.fullmatch(r"(%s )?(%s)( (%s))*" % (re.escape(wording), phrases, phrases),
                        plain(reply)) is not None


def right(case, reply):
    """Whether REPLY answers the last message of CASE."""
    if case["sort"] == "sum":
        numbers = re.findall(r"\d+", reply)
        return (bool(numbers) and numbers[-1] == case["want"][0]
                and re.search(r"\bor\b", reply) is None)
    if case["sort"] == "unknown":
        return says_not_told(case, reply)
    return (all(holds(reply, value) for value in case["want"])
            and not any(holds(reply, value) for value in case["avoid"])
            and not any(plain(phrase) in plain(reply) for phrase in NOT_TOLD))


def first(cases, n):
    """The first N cases of each sort."""
    seen, some = collections.Counter(), []
    for case in cases:
        seen[case["sort"]] += 1
        if seen[case["sort"]] <= n:
            some.append(case)
    return some


def through_daemon(case, name, args):
    """Holds the conversation with the command line client; returns all replies."""
    client = [args.confab] + (["--socket", args.socket] if args.socket else [])

    def run(*words):
        done = subprocess.run(client + list(words), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout.strip()

    run("open", name, *(["--system", case["system"]] if case["system"] else []))
    try:
        return [run("say", name, "--temperature", "0", "--max-tokens", str(MAX_TOKENS), text)
                for text in case["user"]]
    finally:
        run("close", name)


def run_daemon(cases, args):
    """Replies to every case, in order, with a few conversations at a time."""
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        waiting = [pool.submit(through_daemon, case, "evaluation-%d" % i, args)
                   for i, case in enumerate(cases)]
        return [future.result() for future in waiting]


def run_torch(cases, args):
    """The same from a checkpoint: all conversations advance together, a token each at a time."""
    import torch
    import model as models
    import tokenizer

    torch.set_num_threads(args.threads)
    chat = tokenizer.Chat(args.tokenizer)
    checkpoint = torch.load(args.torch, map_location="cpu")
    config = checkpoint["config"]
    model = models.Model(config, fast=False, dtype=torch.float32)
    model.load_state_dict(checkpoint["model"])
    order = sorted(range(len(cases)), key=lambda i: sum(map(len, cases[i]["user"])))
    out = [None] * len(cases)
    for at in range(0, len(order), args.batch):
        some = order[at:at + args.batch]
        for i, replies in zip(some, converse(torch, model, chat, [cases[i] for i in some])):
            out[i] = replies
    return out


def converse(torch, model, chat, cases):
    """Greedy replies to all messages of the cases, with the replies kept in the context."""
    from model import rotate
    config = model.config
    nh, nk, hd, n = model.nh, model.nk, model.hd, len(cases)
    limit = config["context"]
    shape = (config["layers"], n, nk, 256, hd)
    cache = [torch.zeros(shape), torch.zeros(shape)]
    queues, waiting, replies = [], [], []
    for case in cases:
        queue = chat.message("system", case["system"]) if case["system"] else []
        queues.append(queue)
        waiting.append(list(case["user"]))
        replies.append([])
    writing = [None] * n            # tokens of the reply being written
    lengths = torch.zeros(n, dtype=torch.long)
    active = [True] * n
    every = torch.arange(n)

    def next_user(i):
        """Queues the next message and the head of the reply; ends the case if there is none."""
        if not waiting[i] or int(lengths[i]) > limit - 120:
            active[i] = False
            return
        queues[i] += chat.message("user", waiting[i].pop(0)) + chat.header("assistant")

    for i in range(n):
        next_user(i)
    with torch.no_grad():
        while any(active):
            tokens = torch.tensor([queue[0] if queue else 0 for queue in queues])
            width = int(lengths.max()) + 1
            if width > cache[0].shape[3]:
                cache = [torch.cat([c, torch.zeros(shape)], 3) for c in cache]
            x = model.embedding[tokens]
            cos, sin = model.cos[lengths][:, None], model.sin[lengths][:, None]
            hidden = torch.arange(width)[None, :] > lengths[:, None]
            for layer in range(config["layers"]):
                y = model.norm(x, model.norms[2 * layer])
                qkv = (y @ model.wqkv[layer].t()).view(n, nh + 2 * nk, hd)
                q, k, v = qkv.split([nh, nk, nk], 1)
                cache[0][layer, every, :, lengths] = rotate(k, cos, sin)
                cache[1][layer, every, :, lengths] = v
                q = rotate(q, cos, sin).view(n, nk, nh // nk, hd)
                scores = q @ cache[0][layer, :, :, :width].transpose(2, 3) * hd ** -0.5
                scores = scores.masked_fill(hidden[:, None, None], float("-inf"))
                y = (scores.softmax(-1) @ cache[1][layer, :, :, :width]).view(n, nh * hd)
                x = x + y @ model.wo[layer].t()
                y = model.norm(x, model.norms[2 * layer + 1])
                x = x + model.swiglu(y @ model.wgu[layer].t()) @ model.wdown[layer].t()
            best = model.logits(model.norm(x, model.norms[-1])).argmax(-1).tolist()
            for i in range(n):
                if not active[i]:
                    continue
                lengths[i] += 1
                queues[i].pop(0)
                if queues[i]:
                    continue
                if writing[i] is None:
                    writing[i] = []
                if best[i] == chat.end or len(writing[i]) >= MAX_TOKENS:
                    replies[i].append(chat.decode(writing[i]).strip())
                    writing[i] = None
                    queues[i] = [chat.end] + chat.newline
                    next_user(i)
                else:
                    writing[i].append(best[i])
                    queues[i].append(best[i])
    return replies


def report(cases, answers, show):
    """Prints a line for each sort of case; returns whether all aims were met."""
    total, good = collections.Counter(), collections.Counter()
    kinds = collections.Counter()
    for case, replies in zip(cases, answers):
        ok = len(replies) == len(case["user"]) and right(case, replies[-1])
        total[case["sort"]] += 1
        good[case["sort"]] += ok
        part = None
        if case["sort"] == "sum":
            part = "sum, " + case["kind"]
        elif case["kind"] in dialogues.LITERAL_KINDS:
            part = case["sort"] + ", to be copied letter by letter"
        if part:
            total[part] += 1
            good[part] += ok
        if not ok:
            kinds[case["sort"] + " " + case["kind"]] += 1
            if show:
                print("%s %s: %r -> %r, wanted %r" % (
                    case["sort"], case["kind"], case["user"][-1],
                    replies[-1] if replies else None, case["replies"][-1]))
    met = True
    for sort in total:
        aim = AIMS.get(sort)
        under = aim is not None and good[sort] < aim * total[sort]
        met = met and not under
        print("%s: %d/%d (%.1f%%)%s%s" % (
            sort, good[sort], total[sort], 100 * good[sort] / total[sort],
            "" if aim is None else ", aim %d%%" % round(100 * aim), ", NOT MET" if under else ""))
    if show and kinds:
        print("wrong: " + ", ".join("%s %d" % item for item in kinds.most_common()))
    return met


def main():
    parser = argparse.ArgumentParser(description="Evaluate the model in unseen conversations.")
    parser.add_argument("--confab", default="confab", help="the command line client")
    parser.add_argument("--socket", help="the daemon's socket")
    parser.add_argument("--jobs", type=int, default=2, help="conversations at a time")
    parser.add_argument("--torch", metavar="CHECKPOINT", help="evaluate a checkpoint instead")
    parser.add_argument("--tokenizer", default="tokenizer.model", help="with --torch")
    parser.add_argument("--threads", type=int, default=1, help="with --torch")
    parser.add_argument("--batch", type=int, default=100, help="with --torch")
    parser.add_argument("--quick", type=int, metavar="N", help="only N cases of each sort")
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument("--show", action="store_true", help="print the wrong replies")
    args = parser.parse_args()
    cases = dialogues.eval_set(args.seed)
    if args.quick:
        cases = first(cases, args.quick)
    answers = run_torch(cases, args) if args.torch else run_daemon(cases, args)
    sys.exit(0 if report(cases, answers, args.show) else 1)


if __name__ == "__main__":
    main()
