"""Measures llama.cpp with the rows of `emberbank bench`, once each, and prints one JSON object.

Run by bench/compare with the Python of the environment that bench/install_llama_cpp made. The work is the same on both
sides: random token ids, steps of 512 prompt tokens, logits of the last position (of every sequence when decoding), no sampling.
"""

import argparse
import ctypes
import json
import random
import sys
import time

import llama_cpp as api

PARALLEL_DEPTH = 256  # tokens before sequences are decoded together
WARM_UP_TOKENS = 64
STEP_TOKENS = 512
MARGIN = 100  # special tokens are at the ends of a vocabulary


def numbers(text):
    return [int(part) for part in text.split(",")]


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--prefill", type=int, required=True)
    parser.add_argument("--decode", type=int, required=True)
    parser.add_argument("--depth", type=numbers, required=True)
    parser.add_argument("--parallel", type=numbers, required=True)
    return parser.parse_args()


class Session:
    """A model with one context; sequences are numbered from 0."""

    def __init__(self, options):
        api.llama_backend_init()
        self._no_log = api.llama_log_callback(lambda level, text, data: None)  # kept alive: the library calls it
        api.llama_log_set(self._no_log, ctypes.c_void_p(0))
        self._model = api.llama_model_load_from_file(options.model.encode(), api.llama_model_default_params())
        if not self._model:
            sys.exit(f"llama.cpp cannot load {options.model}")
        single = max(options.depth) + options.prefill + options.decode
        together = max(options.parallel) * (PARALLEL_DEPTH + options.decode)
        parameters = api.llama_context_default_params()
        parameters.n_ctx = max(single, together) + WARM_UP_TOKENS
        parameters.n_batch = STEP_TOKENS
        parameters.n_ubatch = STEP_TOKENS
        parameters.n_seq_max = max(options.parallel)
        parameters.n_threads = options.threads
        parameters.n_threads_batch = options.threads
        parameters.kv_unified = True
        self._context = api.llama_init_from_model(self._model, parameters)
        self._n_vocab = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self._model))
        self._batch = api.llama_batch_init(STEP_TOKENS, 0, 1)
        self._random = random.Random(1)

    def clear(self):
        api.llama_memory_clear(api.llama_get_memory(self._context), True)

    def _step(self, rows):
        """rows: (position, sequence, wants_logits) of each token; returns when all is computed."""
        batch = self._batch
        batch.n_tokens = len(rows)
        for i, (position, sequence, wants_logits) in enumerate(rows):
            batch.token[i] = self._random.randrange(MARGIN, self._n_vocab - MARGIN)
            batch.pos[i] = position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = wants_logits
        if api.llama_decode(self._context, batch) != 0:
            sys.exit("llama.cpp could not compute a step")
        api.llama_synchronize(self._context)

    def prefill(self, n, depth=0, sequence=0):
        for start in range(0, n, STEP_TOKENS):
            end = min(start + STEP_TOKENS, n)
            self._step([(depth + i, sequence, i == n - 1) for i in range(start, end)])

    def decode(self, n, depth, n_sequences=1):
        for i in range(n):
            self._step([(depth + i, sequence, True) for sequence in range(n_sequences)])


def speed(session, n_tokens, prepare, work):
    session.clear()
    prepare()
    start = time.perf_counter()
    work()
    return round(n_tokens / (time.perf_counter() - start), 2)


def measure(options):
    session = Session(options)
    session.prefill(WARM_UP_TOKENS)
    n_prefill, n_decode = options.prefill, options.decode
    speeds = {}
    for depth in options.depth:
        speeds[f"prefill{n_prefill}@{depth}"] = speed(
            session, n_prefill, lambda: session.prefill(depth), lambda: session.prefill(n_prefill, depth)
        )
        speeds[f"decode{n_decode}@{depth}"] = speed(
            session, n_decode, lambda: session.prefill(depth), lambda: session.decode(n_decode, depth)
        )
    for n in options.parallel:
        speeds[f"decode{n_decode}x{n}@{PARALLEL_DEPTH}"] = speed(
            session,
            n_decode * n,
            lambda: [session.prefill(PARALLEL_DEPTH, sequence=i) for i in range(n)],
            lambda: session.decode(n_decode, PARALLEL_DEPTH, n),
        )
    return speeds


if __name__ == "__main__":
    print(json.dumps(measure(parse_arguments())))
