"""One random tensor of a checkpoint."""

import hashlib
import math

import numpy as np

from numeric import round_bf16

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
