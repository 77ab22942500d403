"""A real inference engine (llama.cpp) serving a Llama of 114 000 random weights on this machine.

The weights are drawn here, so nothing is downloaded. The text is noise, but tokenizer, attention,
KV cache, sampling and the HTTP server are real and not ours.
"""

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gguf
import numpy as np

MODEL = "tiny-random-llama"
WHY_NOT = "xllamacpp has no wheel for this platform; in CI it must be there"
_WIDTH, _LAYERS, _HEADS, _KV_HEADS, _INNER = 64, 2, 4, 2, 128
_TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "


def available() -> bool:
    return importlib.util.find_spec("xllamacpp") is not None or bool(os.environ.get("CI"))


def write_model(path: Path, *, seed: int = 0) -> None:
    """Writes a Llama in GGUF whose tokens are bytes and single letters."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["\u2581", *(f"\u2581{letter}" for letter in letters), *letters]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *words]
    kinds = [
        gguf.TokenType.UNKNOWN,
        gguf.TokenType.CONTROL,
        gguf.TokenType.CONTROL,
        *[gguf.TokenType.BYTE] * 256,
        *[gguf.TokenType.NORMAL] * len(words),
    ]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(MODEL)
    writer.add_context_length(512)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(_LAYERS)
    writer.add_feed_forward_length(_INNER)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(_WIDTH // _HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * 3 + [-1.0] * 256 + [-2.0] * len(words))
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_chat_template(_TEMPLATE)

    draw = np.random.default_rng(seed)

    def random(*shape: int) -> np.ndarray:
        return (draw.standard_normal(shape) * 0.3).astype(np.float32)

    def ones(*shape: int) -> np.ndarray:
        return np.ones(shape, np.float32)

    output = random(len(tokens), _WIDTH)
    output[: len(tokens) - len(words)] *= 0.01  # so that letters are likelier than bytes
    writer.add_tensor("token_embd.weight", random(len(tokens), _WIDTH))
    writer.add_tensor("output_norm.weight", ones(_WIDTH))
    writer.add_tensor("output.weight", output)
    kv_width = _WIDTH // _HEADS * _KV_HEADS
    for layer in range(_LAYERS):
        block = {
            "attn_norm": ones(_WIDTH),
            "attn_q": random(_WIDTH, _WIDTH),
            "attn_k": random(kv_width, _WIDTH),
            "attn_v": random(kv_width, _WIDTH),
            "attn_output": random(_WIDTH, _WIDTH),
            "ffn_norm": ones(_WIDTH),
            "ffn_gate": random(_INNER, _WIDTH),
            "ffn_up": random(_INNER, _WIDTH),
            "ffn_down": random(_WIDTH, _INNER),
        }
        for name, weights in block.items():
            writer.add_tensor(f"blk.{layer}.{name}.weight", weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Runs the engine in a process of its own and gives its address."""
    path = folder / "tiny.gguf"
    write_model(path)
    command = [sys.executable, __file__, str(path)]
    log = folder / "engine.log"
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), log.read_text()
        yield address
    finally:
        process.kill()
        process.communicate()


def _main(path: str) -> None:
    import xllamacpp  # noqa: PLC0415  loads 100 MB of engine, and only this process needs it

    parameters = xllamacpp.CommonParams()
    parameters.model.path = path
    parameters.model_alias = {MODEL}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_ctx = 2048
    parameters.n_parallel = 4
    parameters.cpuparams.n_threads = 1
    parameters.warmup = False
    parameters.ui = False
    server = xllamacpp.Server(parameters)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    time.sleep(600)


if __name__ == "__main__":
    _main(sys.argv[1])
