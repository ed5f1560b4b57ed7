"""What the end-to-end tests share: where things are, and a server started once per test class."""

import os
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/http_cases"))

import http_client  # noqa: E402, F401  (its folder is on the path only now; for the tests)
from server_process import ServerProcess  # noqa: E402

BINARY = os.environ.get("EMBERBANK_BINARY", str(ROOT / "build/emberbank"))
MODELS = pathlib.Path(os.environ.get("EMBERBANK_TEST_MODELS", ROOT / "models"))
SMOLLM2 = str(MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf")
# Tiny ones with random weights, of tests/model_golden/make_models.py.
MADE_MODELS = pathlib.Path(os.environ.get("EMBERBANK_MADE_MODELS", ROOT / "build-test/test_models"))
QWEN3_5 = str(MADE_MODELS / "qwen3_5-hf")
LFM2 = str(MADE_MODELS / "lfm2-hf")
GEMMA3 = str(MODELS / "gemma-3-270m-q4_k_m.gguf")


class ServerCase(unittest.TestCase):
    """Tests against one server; subclasses name MODEL and, if they like, FLAGS."""

    MODEL = SMOLLM2
    NAME = "test-model"
    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.server = ServerProcess(BINARY, cls.MODEL, cls.NAME, extra=cls.FLAGS)
        cls.url = f"http://127.0.0.1:{cls.server.port}"

    @classmethod
    def tearDownClass(cls):
        status = cls.server.stop()
        if status != 0:
            raise AssertionError(f"the server exited with {status}:\n" + "".join(cls.server.lines[-30:]))
