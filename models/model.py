# SPDX-License-Identifier: MIT
"""The model in PyTorch: a Llama with tied embedding, and its fast path on one CPU core.

Weights are float32 and are rounded to bfloat16 for the matrix products.  On a CPU the parts
between the products run in train_kernels.c, compiled on first use; without a compiler, and on a
GPU, PyTorch's own operations do the same.
"""

import ctypes
import os
import subprocess
import tempfile

import torch
import torch.nn.functional as F

CHUNK = 128
EPS = 1e-5
CONFIG = {"vocab": 1536, "dim": 256, "layers": 5, "heads": 4, "kv_heads": 2, "ffn": 512,
          "context": 2048, "rope_base": 10000.0}


def build_kernels():
    """The compiled kernels, or None where they cannot be had."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "train_kernels.c")
    with tempfile.TemporaryDirectory(prefix="confab-kernels-") as folder:
        target = os.path.join(folder, "kernels.so")
        try:
            subprocess.run(["cc", "-O3", "-march=native", "-ffast-math", "-fPIC", "-shared",
                            "-o", target, source, "-lm"], check=True)
            lib = ctypes.CDLL(target)
        except (OSError, subprocess.CalledProcessError):
            return None
    lib.cross_entropy.restype = ctypes.c_float
    return lib


def pointer(tensor):
    assert tensor.is_contiguous()
    return ctypes.c_void_p(tensor.data_ptr())


def long(n):
    return ctypes.c_int64(n)


class FastNorm(torch.autograd.Function):
    lib = None

    @staticmethod
    def forward(ctx, x, w):
        n, d = x.shape
        y = torch.empty(n, d, dtype=torch.bfloat16)
        rstd = torch.empty(n)
        FastNorm.lib.rms_forward(pointer(x), pointer(w), pointer(y), pointer(rstd), long(n),
                                 long(d),
                                 ctypes.c_float(EPS))
        ctx.save_for_backward(x, w, rstd)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, w, rstd = ctx.saved_tensors
        dx, dw = torch.empty_like(x), torch.zeros_like(w)
        FastNorm.lib.rms_backward(pointer(dy.contiguous()), pointer(x), pointer(w), pointer(rstd),
                                  pointer(dx), pointer(dw), long(x.shape[0]), long(x.shape[1]))
        return dx, dw


class FastSwiglu(torch.autograd.Function):
    lib = None

    @staticmethod
    def forward(ctx, gu):
        n, f = gu.shape[0], gu.shape[1] // 2
        y = torch.empty(n, f, dtype=torch.bfloat16)
        FastSwiglu.lib.swiglu_forward(pointer(gu), pointer(y), long(n), long(f))
        ctx.save_for_backward(gu)
        return y

    @staticmethod
    def backward(ctx, dy):
        gu, = ctx.saved_tensors
        dgu = torch.empty_like(gu)
        FastSwiglu.lib.swiglu_backward(pointer(dy.contiguous()), pointer(gu), pointer(dgu),
                                       long(gu.shape[0]), long(gu.shape[1] // 2))
        return dgu


class FastAttention(torch.autograd.Function):
    """Rotary positions and causal attention; keys beyond a chunk of queries are never touched."""
    lib = None

    @staticmethod
    def forward(ctx, qkv, cos, sin, shape):
        nb, nt, nh, nk, hd = shape
        group, scale = nh // nk, hd ** -0.5
        q = torch.empty(nb * nk, group, nt, hd, dtype=torch.bfloat16)
        k = torch.empty(nb * nk, nt, hd, dtype=torch.bfloat16)
        v = torch.empty_like(k)
        FastAttention.lib.split_forward(pointer(qkv), pointer(cos), pointer(sin), pointer(q),
                                        pointer(k), pointer(v), *map(long, shape))
        out = torch.empty(nb, nt, nh * hd, dtype=torch.bfloat16)
        view = out.view(nb, nt, nk, group, hd)
        probs = []
        for first in range(0, nt, CHUNK):
            last = min(first + CHUNK, nt)
            rows = group * (last - first)
            qc = q[:, :, first:last].reshape(nb * nk, rows, hd)
            p = torch.bmm(qc, k[:, :last].transpose(1, 2))
            FastAttention.lib.softmax_forward(pointer(p), long(nb * nk), long(rows), long(last),
                                              long(first), long(last - first),
                                              ctypes.c_float(scale))
            o = torch.bmm(p, v[:, :last]).view(nb, nk, group, last - first, hd)
            view[:, first:last] = o.permute(0, 3, 1, 2, 4)
            probs.append(p)
        ctx.save_for_backward(q, k, v, cos, sin, *probs)
        ctx.shape = shape
        return out.view(nb * nt, nh * hd)

    @staticmethod
    def backward(ctx, dout):
        q, k, v, cos, sin = ctx.saved_tensors[:5]
        nb, nt, nh, nk, hd = ctx.shape
        group, scale = nh // nk, hd ** -0.5
        dout = dout.reshape(nb, nt, nk, group, hd)
        dq = torch.empty_like(q)
        dk = torch.zeros(k.shape)
        dv = torch.zeros(v.shape)
        for i, first in enumerate(range(0, nt, CHUNK)):
            last = min(first + CHUNK, nt)
            rows = group * (last - first)
            p = ctx.saved_tensors[5 + i]
            do = dout[:, first:last].permute(0, 2, 3, 1, 4).reshape(nb * nk, rows, hd)
            dv[:, :last] += torch.bmm(p.transpose(1, 2), do)
            dp = torch.bmm(do, v[:, :last].transpose(1, 2))
            FastAttention.lib.softmax_backward(pointer(p), pointer(dp), long(nb * nk), long(rows),
                                               long(last), long(first), long(last - first),
                                               ctypes.c_float(scale))
            dq[:, :, first:last] = torch.bmm(dp, k[:, :last]).view(nb * nk, group, last - first, hd)
            qc = q[:, :, first:last].reshape(nb * nk, rows, hd)
            dk[:, :last] += torch.bmm(dp.transpose(1, 2), qc)
        dqkv = torch.empty(nb * nt, (nh + 2 * nk) * hd, dtype=torch.bfloat16)
        FastAttention.lib.split_backward(pointer(dq), pointer(dk), pointer(dv), pointer(cos),
                                         pointer(sin), pointer(dqkv), *map(long, ctx.shape))
        return dqkv, None, None, None


class FastLoss(torch.autograd.Function):
    """Weighted sum of cross entropies; the logits' memory is reused for their gradient."""
    lib = None

    @staticmethod
    def forward(ctx, logits, targets, weights):
        loss = FastLoss.lib.cross_entropy(pointer(logits), pointer(targets), pointer(weights),
                                          long(logits.shape[0]), long(logits.shape[1]))
        ctx.save_for_backward(logits)
        return torch.tensor(loss)

    @staticmethod
    def backward(ctx, grad):
        return ctx.saved_tensors[0], None, None


def rope_tables(config, n):
    """cos and sin of [position][pair], in double precision as the angles grow."""
    hd = config["dim"] // config["heads"]
    freq = config["rope_base"] ** (-torch.arange(0, hd, 2, dtype=torch.float64) / hd)
    angle = torch.arange(n, dtype=torch.float64)[:, None] * freq
    return angle.cos().float().contiguous(), angle.sin().float().contiguous()


def rotate(x, cos, sin):
    """Rotates pairs (2i, 2i+1) of [..., position, head size]."""
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


class Model(torch.nn.Module):
    def __init__(self, config, fast=True, dtype=torch.bfloat16):
        super().__init__()
        self.config, self.dtype = config, dtype
        d, f = config["dim"], config["ffn"]
        self.nh, self.nk = config["heads"], config["kv_heads"]
        self.hd = d // self.nh
        layers = range(config["layers"])

        def matrices(n_out, n_in, scale):
            return torch.nn.ParameterList(
                torch.nn.Parameter(torch.randn(n_out, n_in) * scale * n_in ** -0.5) for _ in layers)

        self.embedding = torch.nn.Parameter(torch.randn(config["vocab"], d) * 0.04)
        self.wqkv = matrices((self.nh + 2 * self.nk) * self.hd, d, 1.0)
        self.wo = matrices(d, self.nh * self.hd, 0.1)
        self.wgu = matrices(2 * f, d, 1.0)
        self.wdown = matrices(d, f, 0.1)
        self.norms = torch.nn.ParameterList(
            torch.nn.Parameter(torch.ones(d)) for _ in range(2 * config["layers"] + 1))
        cos, sin = rope_tables(config, config["context"])
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self.fast = None
        if fast and dtype == torch.bfloat16:
            self.fast = build_kernels()
            for function in (FastNorm, FastSwiglu, FastAttention, FastLoss):
                function.lib = self.fast

    def norm(self, x, w):
        if self.fast:
            return FastNorm.apply(x, w)
        return (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * w).to(self.dtype)

    def attention(self, qkv, nb, nt):
        nh, nk, hd = self.nh, self.nk, self.hd
        if self.fast:
            return FastAttention.apply(qkv, self.cos, self.sin, (nb, nt, nh, nk, hd))
        q, k, v = qkv.view(nb, nt, nh + 2 * nk, hd).transpose(1, 2).split([nh, nk, nk], 1)
        cos, sin = self.cos[:nt], self.sin[:nt]
        q = rotate(q.float(), cos, sin).to(self.dtype)
        k = rotate(k.float(), cos, sin).to(self.dtype).repeat_interleave(nh // nk, 1)
        scores = (q @ k.transpose(2, 3)).float() * hd ** -0.5
        future = torch.ones(nt, nt, dtype=torch.bool, device=q.device).triu(1)
        p = scores.masked_fill(future, float("-inf")).softmax(-1).to(self.dtype)
        out = p @ v.repeat_interleave(nh // nk, 1)
        return out.transpose(1, 2).reshape(nb * nt, nh * hd)

    def swiglu(self, gu):
        if self.fast:
            return FastSwiglu.apply(gu)
        gate, up = gu.float().chunk(2, -1)
        return (F.silu(gate) * up).to(self.dtype)

    def hidden(self, tokens):
        """The normed output of the last layer, [batch * time, dim]."""
        nb, nt = tokens.shape
        x = F.embedding(tokens.reshape(-1), self.embedding)
        for i in range(self.config["layers"]):
            y = self.norm(x, self.norms[2 * i])
            y = self.attention(F.linear(y, self.wqkv[i].to(self.dtype)), nb, nt)
            x = x + F.linear(y, self.wo[i].to(self.dtype))
            y = self.norm(x, self.norms[2 * i + 1])
            y = self.swiglu(F.linear(y, self.wgu[i].to(self.dtype)))
            x = x + F.linear(y, self.wdown[i].to(self.dtype))
        return self.norm(x, self.norms[-1])

    def logits(self, hidden):
        return F.linear(hidden, self.embedding.to(self.dtype))

    def loss(self, tokens, rows, targets, weights):
        """Weighted sum of the losses of predicting TARGETS after the positions ROWS."""
        logits = self.logits(self.hidden(tokens)[rows])
        if self.fast:
            return FastLoss.apply(logits, targets, weights)
        return (F.cross_entropy(logits.float(), targets, reduction="none") * weights).sum()
