# SPDX-License-Identifier: MIT
"""Trains the model on written dialogues; may be stopped and resumed at any time.

The dialogues are generated while training, so none is seen twice.  They grow from a few turns,
where finding a fact is learned quickly, to as long as the context.  The matrices are trained with
Muon (momentum made orthogonal), the embedding and norms with Adam; the rate is constant and falls
to zero over the last part.  Progress is measured in tokens or, with --minutes, in time.
"""

import argparse
import os
import random
import time

import torch

import dialogues
import model as models
import tokenizer


def orthogonal(g):
    """Nearest orthogonal matrix, roughly: five Newton-Schulz steps, as Muon does."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = (g / (g.norm() + 1e-7)).bfloat16()
    tall = x.shape[0] > x.shape[1]
    if tall:
        x = x.t()
    for _ in range(5):
        s = x @ x.t()
        x = a * x + (b * s + c * (s @ s)) @ x
    return (x.t() if tall else x).to(g.dtype)


class Optimizer:
    """Muon for matrices (each part of a fused one by itself), Adam for the rest."""

    def __init__(self, model, args):
        config = model.config
        hd = config["dim"] // config["heads"]
        q, k = config["heads"] * hd, config["kv_heads"] * hd
        f = config["ffn"]
        self.args = args
        self.matrices = []
        for name, p in model.named_parameters():
            if name.startswith("w"):
                parts = {"wqkv": [q, k, k], "wgu": [f, f]}.get(name.split(".")[0], [p.shape[0]])
                self.matrices.append((p, torch.zeros_like(p), parts))
        others = [p for n, p in model.named_parameters() if not n.startswith("w")]
        self.adam = torch.optim.AdamW(others, lr=args.adam_rate, betas=(0.9, 0.95), eps=1e-10,
                                      weight_decay=0.0)

    @torch.no_grad()
    def step(self, factor, momentum):
        for group in self.adam.param_groups:
            group["lr"] = self.args.adam_rate * factor
        self.adam.step()
        rate = self.args.muon_rate * factor
        for p, buffer, parts in self.matrices:
            buffer.mul_(momentum).add_(p.grad, alpha=1 - momentum)
            update = p.grad * (1 - momentum) + buffer * momentum
            p.mul_(1 - rate * self.args.decay)
            for target, g in zip(p.split(parts), update.split(parts)):
                scale = max(1.0, g.shape[0] / g.shape[1]) ** 0.5
                target.add_(orthogonal(g), alpha=-rate * scale)

    def state(self):
        return {"adam": self.adam.state_dict(), "muon": [b for _, b, _ in self.matrices]}

    def load(self, state):
        self.adam.load_state_dict(state["adam"])
        for (_, buffer, _), saved in zip(self.matrices, state["muon"]):
            buffer.copy_(saved)


def turns(rng, progress):
    """How many exchanges the next dialogue has: few at first, then mostly about thirty."""
    if progress < 0.06:
        return rng.randrange(2, 7)
    if progress < 0.15:
        return rng.randrange(3, 14)
    if progress < 0.30:
        return rng.randrange(4, 28)
    if rng.random() < 0.30:
        return rng.randrange(2, 10)
    if progress > 0.6 and rng.random() < 0.12:
        return rng.randrange(44, 56)
    return rng.randrange(10, 40)


class Data:
    """Batches of dialogues of like length, about a fixed number of tokens each."""

    def __init__(self, chat, args, context):
        self.chat, self.args, self.context = chat, args, context
        self.ready = []
        self.count = 0

    def fill(self, progress):
        pool = []
        rng = random.Random("train-%d-%d" % (self.args.seed, self.count))
        self.count += 1
        total = 0
        while total < 24 * self.args.batch:
            messages = dialogues.training_dialogue(rng, turns(rng, progress))
            tokens, learn = self.chat.dialogue(messages)
            pool.append((tokens[:self.context], learn[:self.context]))
            total += len(pool[-1][0])
        pool.sort(key=lambda item: len(item[0]))
        while pool:
            length = (len(pool[-1][0]) + 15) // 16 * 16
            n = max(1, self.args.batch // length)
            self.ready.append((pool[-n:], length))
            del pool[-n:]
        rng.shuffle(self.ready)

    def next(self, progress):
        if not self.ready:
            self.fill(progress)
        batch, length = self.ready.pop()
        tokens = torch.zeros(len(batch), length, dtype=torch.long)
        rows, targets, weights = [], [], []
        n_tokens = 0
        for i, (ids, learn) in enumerate(batch):
            n_tokens += len(ids)
            tokens[i, :len(ids)] = torch.tensor(ids)
            for j in range(1, len(ids)):
                if learn[j]:
                    rows.append(i * length + j - 1)
                    targets.append(ids[j])
                    weights.append(learn[j])
        weights = torch.tensor(weights, dtype=torch.float32)
        return tokens, torch.tensor(rows), torch.tensor(targets), weights / weights.sum(), n_tokens


class Quick:
    """A quick look at held-out dialogues: is every token of the last reply the likeliest one?"""

    def __init__(self, chat, n):
        rng = random.Random("quick")
        self.sets = {}
        for name, sort, distance in (("near", "recall", 3), ("far", "recall", 20),
                                     ("fixed", "corrected", 12), ("unknown", "unknown", 15)):
            self.sets[name] = [dialogues.eval_dialogue(rng, sort, distance) for _ in range(n)]
        self.sets["sums"] = [dialogues.eval_sum(rng, True) for _ in range(n)]
        self.chat = chat

    @torch.no_grad()
    def run(self, model, device):
        out = []
        for name, cases in self.sets.items():
            right = 0
            for case in cases:
                tokens, learn = self.chat.dialogue(dialogues.case_messages(case))
                last = max(i for i, weight in enumerate(learn) if weight)
                first = last
                while learn[first - 1]:
                    first -= 1
                hidden = model.hidden(torch.tensor([tokens], device=device))
                guess = model.logits(hidden[first - 1:last]).argmax(-1).tolist()
                right += guess == tokens[first:last + 1]
            out.append("%s %.2f" % (name, right / len(cases)))
        return ", ".join(out)


def factor_at(progress, step, args):
    warm = min(1.0, (step + 1) / 40)
    return warm * max(0.0, min(1.0, (1 - progress) / args.cooldown))


def main():
    parser = argparse.ArgumentParser(description="Train the bundled model.")
    parser.add_argument("--tokenizer", default="tokenizer.model")
    parser.add_argument("--out", default="checkpoint.pt")
    parser.add_argument("--init", help="continue the weights (not the schedule) of a checkpoint")
    parser.add_argument("--resume", action="store_true", help="go on where --out stopped")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tokens", type=float, default=18e6, help="how many to train on")
    parser.add_argument("--minutes", type=float, help="train this long instead")
    parser.add_argument("--batch", type=int, default=4096, help="tokens a step")
    parser.add_argument("--muon-rate", type=float, default=0.01)
    parser.add_argument("--adam-rate", type=float, default=0.003)
    parser.add_argument("--decay", type=float, default=0.02)
    parser.add_argument("--cooldown", type=float, default=0.6, help="part in which the rate falls")
    parser.add_argument("--start-at", type=float, default=0.0, help="skip this part of the plan")
    parser.add_argument("--log-every", type=int, default=25)
    parser.add_argument("--quick-every", type=int, default=200)
    parser.add_argument("--quick", type=int, default=40, help="dialogues of each sort to look at")
    for key in ("layers", "ffn", "heads", "kv_heads"):
        parser.add_argument("--" + key.replace("_", "-"), type=int, default=models.CONFIG[key])
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    chat = tokenizer.Chat(args.tokenizer)
    config = dict(models.CONFIG, vocab=chat.sp.get_piece_size())
    for key in ("layers", "ffn", "heads", "kv_heads"):
        config[key] = getattr(args, key)
    saved = None
    if args.resume and os.path.exists(args.out):
        saved = torch.load(args.out, map_location=args.device)
        config = saved["config"]
    elif args.init:
        config = torch.load(args.init)["config"]
    model = models.Model(config, fast=args.device == "cpu").to(args.device)
    optimizer = Optimizer(model, args)
    data = Data(chat, args, config["context"])
    state = {"step": 0, "tokens": 0, "seconds": 0.0, "pools": 0}
    if saved:
        model.load_state_dict(saved["model"])
        optimizer.load(saved["optimizer"])
        state = saved["state"]
        data.count = state["pools"]
    elif args.init:
        init = torch.load(args.init, map_location=args.device)
        model.load_state_dict(init["model"])
        optimizer.load(init["optimizer"])
        state["before"] = init["state"]
    print("%d parameters, %s" % (sum(p.numel() for p in model.parameters()), config), flush=True)
    quick = Quick(chat, args.quick)

    def save():
        state["pools"] = data.count
        torch.save({"config": config, "model": model.state_dict(), "state": state,
                    "optimizer": optimizer.state(), "args": vars(args)}, args.out + ".new")
        os.replace(args.out + ".new", args.out)

    clock, tokens_then, losses = time.time(), state["tokens"], []
    while True:
        began = time.time()
        done = (state["seconds"] / 60 / args.minutes if args.minutes
                else state["tokens"] / args.tokens)
        if done >= 1:
            break
        progress = args.start_at + done * (1 - args.start_at)
        tokens, rows, targets, weights, n_tokens = data.next(progress)
        tokens, rows, targets, weights = (t.to(args.device) for t in (tokens, rows, targets,
                                                                      weights))
        model.zero_grad(set_to_none=True)
        loss = model.loss(tokens, rows, targets, weights)
        loss.backward()
        optimizer.step(factor_at(progress, state["step"], args),
                       0.85 + 0.10 * min(1.0, state["step"] / 300))
        losses.append(float(loss))
        state["step"] += 1
        state["tokens"] += n_tokens
        state["seconds"] += time.time() - began
        if state["step"] % args.log_every == 0:
            now = time.time()
            print("%s step %d, %.2fM tokens, %.0f/s, %.3f done, loss %.4f" %
                  (time.strftime("%H:%M:%S"), state["step"], state["tokens"] / 1e6,
                   (state["tokens"] - tokens_then) / (now - clock), progress,
                   sum(losses) / len(losses)), flush=True)
            clock, tokens_then, losses = now, state["tokens"], []
        if state["step"] % args.quick_every == 0:
            began = time.time()
            print("    " + quick.run(model, args.device), flush=True)
            save()
            state["seconds"] += time.time() - began
            clock = time.time()
    print("    " + quick.run(model, args.device), flush=True)
    save()
    print("trained on %.2fM tokens in %.1f minutes" % (state["tokens"] / 1e6,
                                                       state["seconds"] / 60))


if __name__ == "__main__":
    main()
