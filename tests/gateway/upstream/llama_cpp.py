"""The bundled model as a GGUF file, and llama.cpp's own server on it, from the wheel `xllamacpp`.

LLAMA_CPP_PYTHON=/path/to/a/venv/bin/python pytest tests/gateway/upstream/test_llama_cpp.py
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sluicegate import engine

BUNDLED = Path(engine.__file__).parent / "bundled"
LAYER = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
SERVE = """
import sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_parallel, params.n_ctx, params.port, params.endpoint_metrics = 4, 4096, 0, True
params.chat_template, params.use_jinja, params.n_gpu_layers = open(sys.argv[2]).read(), True, 0
params.cpuparams.n_threads = 1
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
time.sleep(1e6)
"""


def write_gguf(to: Path) -> Path:
    """Write the bundled model in float32. llama.cpp pairs neighbours where its rotation of positions turns two numbers,
    `transformers` halves of a head: rows of queries and keys are put in that order."""
    from gguf import GGUFWriter, TokenType
    from safetensors.numpy import load_file

    config = json.loads((BUNDLED / "config.json").read_text())
    tokenizer = json.loads((BUNDLED / "tokenizer.json").read_text())
    heads, layers = config["num_attention_heads"], config["num_hidden_layers"]
    written = GGUFWriter(to, "llama")
    written.add_context_length(config["max_position_embeddings"])
    written.add_embedding_length(config["hidden_size"])
    written.add_block_count(layers)
    written.add_feed_forward_length(config["intermediate_size"])
    written.add_head_count(heads)
    written.add_head_count_kv(config["num_key_value_heads"])
    written.add_key_length(config["head_dim"])
    written.add_value_length(config["head_dim"])
    written.add_rope_dimension_count(config["head_dim"])
    written.add_layer_norm_rms_eps(config["rms_norm_eps"])
    written.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    words = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].get)
    special = {token["id"] for token in tokenizer["added_tokens"]}
    by_id = dict(enumerate(words)) | {token["id"]: token["content"] for token in tokenizer["added_tokens"]}
    written.add_tokenizer_model("gpt2")
    written.add_tokenizer_pre("gpt-2")
    written.add_token_list([by_id[at] for at in range(config["vocab_size"])])
    kinds = [TokenType.CONTROL if at in special else TokenType.NORMAL for at in range(config["vocab_size"])]
    written.add_token_types(kinds)
    written.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    written.add_eos_token_id(config["eos_token_id"])
    written.add_add_bos_token(False)
    weights: dict[str, npt.NDArray[Any]] = load_file(BUNDLED / "model.safetensors")
    written.add_tensor("token_embd.weight", weights["model.embed_tokens.weight"].astype(np.float32))
    written.add_tensor("output_norm.weight", weights["model.norm.weight"].astype(np.float32))
    for layer in range(layers):
        for name, there in LAYER.items():
            weight = weights[f"model.layers.{layer}.{name}.weight"].astype(np.float32)
            if there in ("attn_q", "attn_k"):
                weight = _interleaved(weight, heads)
            written.add_tensor(f"blk.{layer}.{there}.weight", weight)
    written.write_header_to_file()
    written.write_kv_data_to_file()
    written.write_tensors_to_file()
    written.close()
    return to


def _interleaved(weight: npt.NDArray[Any], heads: int) -> npt.NDArray[Any]:
    rows, width = weight.shape
    halves = weight.reshape(heads, 2, rows // heads // 2, width)
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows, width))


@contextmanager
def llama_cpp(python: str, model: Path) -> Iterator[str]:
    """Run llama.cpp's server; yield its base URL."""
    command = [python, "-c", SERVE, str(model), str(BUNDLED / "chat_template.jinja")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            address = next((line for line in process.stdout if line.startswith("http")), "").strip()
            assert address, "llama.cpp's server did not start"
            yield f"{address}/v1"
        finally:
            process.kill()
