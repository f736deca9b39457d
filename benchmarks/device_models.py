"""Models with random weights made on the device they run on, and the least time that a step of theirs can take."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

from benchmarks.random_model import BUNDLED
from sluicegate.engine import LiveGeneration, LoadedModel
from sluicegate.engine.loop.core import EngineCore
from sluicegate.engine.loop.requests import Submission
from sluicegate.engine.model.checks import verify
from sluicegate.engine.sampling.params import draw_rule
from sluicegate.engine.text.detokenizer import Detokenizer
from sluicegate.plugins import Job, Prompt, Sampling


@dataclass(frozen=True, slots=True)
class Shape:
    family: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool
    """The vocabulary matrix at the end is that at the beginning."""

    @property
    def read_parameters(self) -> int:
        """Count the parameters of every matrix that a decode step multiplies with. Of the embeddings it reads but a few
        rows: they do not count."""
        attention = 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)
        return self.layers * (attention + 3 * self.hidden * self.intermediate) + self.vocab * self.hidden

    @property
    def kv_numbers(self) -> int:
        """Count the numbers that one position keeps."""
        return 2 * self.layers * self.kv_heads * self.head_dim

    def attention_operations(self, context: int) -> int:
        """Count the operations of attention for one token."""
        return 4 * self.layers * self.heads * self.head_dim * context


SHAPES = {
    "qwen3-8b": Shape("Qwen3Config", 4096, 36, 32, 8, 128, 12288, 151936, False),
    "llama-8b": Shape("LlamaConfig", 4096, 32, 32, 8, 128, 14336, 128256, False),
    "llama-1b": Shape("LlamaConfig", 2048, 16, 32, 8, 64, 8192, 128256, True),
    "tiny": Shape("LlamaConfig", 64, 2, 4, 2, 16, 128, 9216, True),
    "tiny-qwen3": Shape("Qwen3Config", 64, 2, 4, 2, 16, 128, 9216, True),
}


def make_model(
    name: str, device: torch.device, dtype: torch.dtype, context_length: int, *, layers: int | None = None
) -> LoadedModel:
    """Make a model of the shape `name` with random weights. `layers` takes the place of the shape's own number.

    The tokenizer is the bundled one: only its tokens are drawn, though logits are of the whole vocabulary."""
    shape = SHAPES[name]
    config = getattr(transformers, shape.family)(
        hidden_size=shape.hidden, num_hidden_layers=layers or shape.layers, num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads, head_dim=shape.head_dim, intermediate_size=shape.intermediate,
        vocab_size=shape.vocab, tie_word_embeddings=shape.tied, max_position_embeddings=context_length,
        bos_token_id=None, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    with device:
        module = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="eager")
    module = module.to(device).eval().requires_grad_(False)
    tokenizer = AutoTokenizer.from_pretrained(BUNDLED)
    shapes, rowwise, _ = verify(module, config, name)
    return LoadedModel(
        name=name, version=f"random-{name}", context_length=context_length, vocab_size=shape.vocab, eos_token_ids=(),
        tokenizer=tokenizer, usable_vocab=min(shape.vocab, len(tokenizer)), default_temperature=1.0, module=module,
        defaults={}, notes=(),
        layers=shapes, dtype=dtype, device=device, detokenizer=Detokenizer(tokenizer), rowwise=rowwise,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What this device does at best, measured: bytes a second copied (reads and writes counted) and read, and
    operations a second in matrix products of the model's dtype."""

    copied: float
    read: float
    operations: float

    @classmethod
    def of(cls, device: torch.device, dtype: torch.dtype, *, megabytes: int, width: int) -> Ceilings:
        """Measure the ceilings of a device, on random numbers: zeros are faster than what is computed with."""
        numbers = torch.randn(megabytes << 18, device=device)
        other = torch.empty_like(numbers)
        left, right = (torch.randn(width, width, device=device).to(dtype) for _ in range(2))
        size = 4 * numbers.numel()
        return cls(
            2 * size / seconds(lambda: other.copy_(numbers), device),
            size / seconds(lambda: numbers.sum(), device),
            2 * width**3 / seconds(lambda: left @ right, device),
        )

    def decode_step_s(self, shape: Shape, batch: int, context: int, bytes_a_number: int) -> float:
        """Return the least seconds that a decode step of `batch` sequences takes: every weight and every kept number is
        read once."""
        moved = bytes_a_number * (shape.read_parameters + batch * context * shape.kv_numbers)
        computed = batch * (2 * shape.read_parameters + shape.attention_operations(context))
        return max(moved / max(self.copied, self.read), computed / self.operations)


def seconds(work: Callable[[], Any], device: torch.device, repeats: int = 20) -> float:
    """Return the median seconds of one call, in the device's own time where it is asynchronous."""
    for _ in range(3):
        work()
    found: list[float] = []
    for _ in range(repeats):
        if device.type == "cuda":
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            start.record()
            work()
            end.record()
            end.synchronize()
            found.append(start.elapsed_time(end) / 1e3)
        else:
            began = time.perf_counter()
            work()
            found.append(time.perf_counter() - began)
    return sorted(found)[len(found) // 2]


def submit(core: EngineCore, asked: Sampling, seed: int, length: int, grammar: Any = None) -> LiveGeneration:
    """Hand a request over that does not end by itself; its prompt is `length` tokens drawn from `seed`."""
    drawn, model = random.Random(seed), core.model
    ids = tuple(drawn.randrange(5, model.usable_vocab) for _ in range(length))
    fields = {name: getattr(asked, name) for name in asked.__slots__}
    sampling = Sampling(**fields | {"ignore_eos": True})
    generation = LiveGeneration(Job(f"{seed}", model.name, Prompt("", ids), sampling, grammar=grammar), lambda _: None)
    rule = draw_rule(sampling, default_temperature=1.0, vocab_size=model.vocab_size)
    core.requests.submit(Submission(generation, rule, seed, model.context_length))
    return generation
