"""Seeded random weights in which every term of the forward pass matters."""
import math
import zlib

import torch


def generator(name, seed):
    """A generator that depends only on the tensor's name and the seed."""
    return torch.Generator().manual_seed(zlib.crc32(name.encode()) + 1_000_003 * seed)


def random_tensor(name, shape, seed, zero_centred):
    """Norms away from their neutral value, decay rates over two decades, non-zero dt_bias, matrices that keep the scale.

    zero_centred: layer norms are stored around 0 (Qwen3.5) rather than around 1.
    """
    g = generator(name, seed)
    normal = torch.randn(shape, generator=g)
    uniform = torch.rand(shape, generator=g)
    if name.endswith("A_log"):
        return math.log(0.05) + uniform * (math.log(6.0) - math.log(0.05))
    if name.endswith("dt_bias"):
        return normal
    if name.endswith("conv1d.weight"):
        return 0.5 * normal
    if "norm" in name and len(shape) == 1:
        plain = name.endswith("linear_attn.norm.weight") or not zero_centred
        return 0.3 * normal + (1.0 if plain else 0.0)
    if name.endswith("embed_tokens.weight"):
        return 0.35 * normal
    if name.endswith("in_proj_a.weight") or name.endswith("in_proj_b.weight"):
        return 1.5 * normal / math.sqrt(shape[-1])
    if name.endswith("lm_head.weight"):
        return 1.5 * normal / math.sqrt(shape[-1])
    if len(shape) == 1:
        return 0.1 * normal
    return normal / math.sqrt(math.prod(shape[1:]))


def randomise(model, seed, zero_centred):
    """Replace all parameters of a module; tied parameters are drawn once, under their first name."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(random_tensor(name, p.shape, seed, zero_centred))
