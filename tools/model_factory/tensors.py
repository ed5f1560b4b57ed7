"""One random tensor of a checkpoint."""

import hashlib
import math

import numpy as np

from numeric import from_fp8, from_mxfp4, round_bf16, to_fp8, to_mxfp4

CHUNK = 8 << 20  # elements generated at a time


class Tensor:
    """Name, shape, and how the values are drawn: offset + std * normal noise.

    The values depend only on (seed, name without "model.", shape), so every format of one family, size and seed
    holds the same model. All values are rounded to bfloat16, as published checkpoints store them.
    """

    def __init__(self, name, shape, std, offset=0.0, zero_centred=False):
        self.name, self.shape = name, tuple(shape)
        self.std, self.offset = float(std), float(offset)
        self.zero_centred = zero_centred  # a norm weight that means 1 + w

    @property
    def size(self):
        return math.prod(self.shape)

    def rows(self, seed):
        """Yields the values as float32 in blocks of whole rows."""
        digest = hashlib.sha256(f"{seed}/{self.name.removeprefix('model.')}/{self.shape}".encode()).digest()
        rng = np.random.Generator(np.random.SFC64(int.from_bytes(digest[:8], "little")))
        cols = self.shape[-1]
        total = self.size // cols
        step = max(128, CHUNK // cols // 128 * 128)
        for at in range(0, total, step):
            x = rng.standard_normal((min(step, total - at), cols), dtype=np.float32)
            x *= np.float32(self.std)
            if self.offset:
                x += np.float32(self.offset)
            yield round_bf16(x)

    def array(self, seed):
        return np.concatenate(list(self.rows(seed))).reshape(self.shape)


class Fp4Tensor(Tensor):
    """A matrix whose values are those of MXFP4, all with one scale, as gpt-oss's experts are published."""

    @property
    def exponent(self):
        return round(math.log2(self.std / 1.5))

    def rows(self, seed):
        for x in super().rows(seed):
            yield from_mxfp4(to_mxfp4(x, self.exponent), self.exponent)


class Fp8Tensor(Tensor):
    """A matrix whose values are those of E4M3 with a scale per 128 x 128, as MiniMax-M2 is published."""

    def rows(self, seed):
        for x in super().rows(seed):
            yield from_fp8(*to_fp8(x))


class Stacked(Tensor):
    """Tensors of one shape behind each other, [len(parts), *shape]: the matrices of all experts."""

    def __init__(self, name, parts):
        super().__init__(name, (len(parts), *parts[0].shape), parts[0].std)
        self.parts = parts

    def rows(self, seed):
        for part in self.parts:
            yield from part.rows(seed)


class HeadsOf(Tensor):
    """Some rows of each head of a matrix, [heads, rows, cols], or turned round."""

    def __init__(self, name, whole, heads, rows, turned):
        self.whole, self.taken, self.turned = whole, rows, turned
        n = len(range(whole.shape[0] // heads)[rows])
        shape = (n, whole.shape[1])
        super().__init__(name, (heads, *(shape[::-1] if turned else shape)), whole.std)

    def rows(self, seed):
        x = self.whole.array(seed).reshape(self.shape[0], -1, self.whole.shape[1])[:, self.taken]
        yield (x.swapaxes(1, 2) if self.turned else x).reshape(-1, self.shape[2])


class Joined(Tensor):
    """Matrices of one width below each other."""

    def __init__(self, name, parts):
        super().__init__(name, (sum(part.shape[0] for part in parts), parts[0].shape[1]), parts[0].std)
        self.parts = parts

    def rows(self, seed):
        for part in self.parts:
            yield from part.rows(seed)
