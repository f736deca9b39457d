"""Sizes that the engine agrees with, and a load that a real gateway answers."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from sluicegate import engine
from sluicegate.engine import load_model
from sluicegate.gateway.commands.bench import BenchLoad, measure, plot
from sluicegate.gateway.commands.bench.arrivals import TimedRequest, shot_of
from sluicegate.gateway.commands.bench.load import spread
from sluicegate.gateway.commands.cli import main
from sluicegate.gateway.commands.size.sizing import DEVICES, fit, need, read_shape, shape_of
from sluicegate.plugins import ConfigurationError
from tests.engine.tiny_models import save_tiny
from tests.gateway.conftest import RunningGateway

BUNDLED = Path(engine.__file__).parent / "bundled"
LLAMA_70B = {
    "model_type": "llama",
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 28672,
    "vocab_size": 128256,
}
LATENT = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "intermediate_size": 18432,
    "vocab_size": 129280,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "q_lora_rank": 1536,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048,
    "first_k_dense_replace": 3,
}


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "mistral", "gemma2", "gemma3", "mixtral"])
def test_the_engine_allocates_what_was_computed(family: str, tmp_path: Path) -> None:
    """Bytes of KV cache a token, and bytes of weights, of a model that is really loaded."""
    folder = save_tiny(tmp_path, family)
    needed = need(read_shape(folder), context=64, sequences=2, dtype="float32")
    model = load_model(folder)
    assert needed.kv_per_token == model.kv_bytes_per_token
    assert needed.weight_bytes == sum(p.numel() * p.element_size() for p in model.module.parameters())


def test_the_bundled_model_is_sized_from_its_files() -> None:
    shape = read_shape(BUNDLED)
    files = sum(path.stat().st_size for path in BUNDLED.glob("*.safetensors"))
    assert shape.weight_bytes is not None
    assert 0 < files - shape.weight_bytes < 20_000
    assert shape.kv_elements == 2 * 9 * 6 * 32  # keys and values, layers, heads, their width


@pytest.mark.parametrize(
    ("config", "billions", "kv_bytes", "attention"),
    [
        (LLAMA_70B, 70.6, 2 * 80 * 8 * 128 * 2, "grouped-query"),
        (LATENT, 671, 61 * (512 + 64) * 2, "multi-head latent"),
    ],
)
def test_known_models_have_their_known_sizes(
    config: dict[str, object], billions: float, kv_bytes: int, attention: str
) -> None:
    shape = shape_of(config)
    assert shape.parameters / 1e9 == pytest.approx(billions, rel=0.01)
    assert need(shape, context=1, sequences=1).kv_per_token == kv_bytes
    assert shape.attention == attention


def test_of_experts_only_the_chosen_ones_are_read() -> None:
    assert shape_of(LATENT).active / 1e9 == pytest.approx(37, rel=0.05)


def test_sliding_windows_bound_what_a_step_reads() -> None:
    kinds = ["sliding_attention", "full_attention"] * 40
    shape = shape_of({**LLAMA_70B, "sliding_window": 1024, "layer_types": kinds})
    assert shape.kv_elements_read(4096) == 40 * 2 * 8 * 128 * (1024 + 4096)


def test_a_model_takes_as_few_devices_as_hold_it_and_as_many_sequences_as_fit() -> None:
    needed = need(shape_of(LLAMA_70B), context=8192, sequences=64)
    h100, h200 = fit(needed, DEVICES["H100"]), fit(needed, DEVICES["H200"])
    assert (h100.devices, h200.devices) == (2, 2)
    assert 0 < h100.sequences < h200.sequences <= 64
    step_s = (needed.active_bytes + h200.sequences * 8192 * needed.kv_per_token) / (2 * 4.8e12)
    assert h200.step_s == pytest.approx(step_s)
    assert h200.cost(3.0) == pytest.approx(3.0 * 2 / 3600 / h200.tokens_per_s * 1e6)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["size", "/nowhere"], "cannot be read"),
        (["size", "bundled", "--device", "Abacus"], "unknown device 'Abacus'"),
        (["size", "bundled", "--dtype", "int3"], "dtype 'int3' is unknown"),
        (["size", "bundled", "--price", "H200"], "must look like"),
        (["size", "bundled", "--context", "0"], "at least 1"),
        (["bench", "http://127.0.0.1:9"], "names no model"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert complaint in capsys.readouterr().err


def test_the_command_prints_the_sizes_and_the_formula(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", "bundled", "--device", "H200", "--price", "H200=3.5"]) == 0
    told = capsys.readouterr().out
    assert "KV cache a token" in told
    assert "2 x KV heads x head size" in told
    assert main(["size", "bundled", "--json", "--device", "H200"]) == 0
    assert json.loads(capsys.readouterr().out)["devices"][0]["count"] == 1


def test_a_configuration_of_something_else_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="hidden_size"):
        shape_of({"model_type": "bert"})


async def test_a_load_is_measured_at_the_client_s_edge(gateway: RunningGateway) -> None:
    bodies = tuple(
        {"model": "bundled", "messages": [{"role": "user", "content": f"Order {n}"}], "max_tokens": 8, "seed": n}
        for n in range(6)
    )
    seen: list[tuple[int, int]] = []
    level = await measure(BenchLoad(gateway.url, bodies), 3, 6, lambda done, of: seen.append((done, of)))
    assert (level.requests, level.failed, seen[-1]) == (6, 0, (6, 6))
    assert 0 < level.first_s["p50"] <= level.first_s["p99"] <= level.total_s["p99"]
    assert level.tokens_per_s > 0
    broken = await measure(BenchLoad(gateway.url, ({"model": "none", "messages": []},)), 1, 2)
    assert (broken.failed, broken.goodput, sum(broken.errors.values())) == (2, 0.0, 2)
    drawn = ET.fromstring(plot([level, broken], "a < b"))
    assert "a < b" in "".join(drawn.itertext())


def test_the_bench_command_sweeps_and_plots(
    gateway: RunningGateway, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "sweep.svg"
    asked = ["bench", gateway.url, "--concurrency", "1,2", "--requests", "3", "--json", "--plot", str(picture)]
    assert main(asked) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [level["concurrency"] for level in told["levels"]] == [1, 2]
    assert ET.parse(picture).getroot().tag.endswith("svg")


def test_quantiles_are_by_the_nearest_rank() -> None:
    assert spread(float(n) for n in range(1, 101)) == {"p50": 50.0, "p90": 90.0, "p99": 99.0}
    assert spread([7.0]) == {"p50": 7.0, "p90": 7.0, "p99": 7.0}
    assert spread([]) == {}


def test_an_overload_prints_what_became_of_every_request(
    gateway: RunningGateway, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests come as they come: offered ones are answered, shed or failed, and none is forgotten."""
    monkeypatch.delenv("SLUICEGATE_API_KEY", raising=False)
    options = ["--concurrency", "2", "--requests", "4", "--max-tokens", "8", "--overload", "1,2", "--seconds", "1"]
    assert main(["bench", gateway.url, *options, "--capacity", "6", "--json"]) == 0
    out = capsys.readouterr().out
    assert "first text within 1 s" in out
    found = json.loads(out.splitlines()[-1])
    assert [level["factor"] for level in found["overload"]] == [1.0, 2.0]
    for level in found["overload"]:
        assert level["offered"] > 0
        assert level["shed"] == level["failed"] == 0
        assert 0 < level["first_s"]["p50"] <= level["first_s"]["p99"]


def test_what_came_is_read_as_it_was_cut_into_pieces() -> None:
    """Any cut of a response gives the same shot, with the time of the piece that ended each line."""
    event = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
    usage = b'data: {"choices":[],"usage":{"completion_tokens":2}}\n\n'
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2f\r\n"
    whole = head + event + b"\r\n" + event + usage + b"0\r\n\r\n"
    for size in (1, 7, 50, len(whole)):
        parts = [(float(at + size), whole[at : at + size]) for at in range(0, len(whole), size)]
        shot = shot_of(TimedRequest(0.0, 0.0, 9.0, parts))
        assert (shot.error, shot.tokens, len(shot.gaps_s)) == (None, 2, 1)
    assert shot_of(TimedRequest(0.0, 0.0, 1.0, [(1.0, b"HTTP/1.1 503 Busy\r\n\r\n{}")])).error == "HTTP 503"
    assert shot_of(TimedRequest(0.0, 0.0, 1.0)).error == "cut"
