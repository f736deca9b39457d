"""Read the MTP layer in a model's own checkpoint, and draft with it.

It reads the model's last state, after the final norm, and the token after it; its own last state replaces the model's
for further draft tokens. After both are joined it is a one-layer model of the same architecture, and is built, checked
and tried as such. Embeddings and vocabulary are the model's, unless the checkpoint has others.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sluicegate.engine.attention.paged import AttentionStep, running
from sluicegate.engine.checkpoints.fitting import refuse_damaged, refuse_misnumbered, refuse_no_numbers
from sluicegate.engine.checkpoints.mtp_layers import EMBEDDING, HEAD, JOIN, STATE_NORM, TOKEN_NORM, MtpLayer, find_mtp
from sluicegate.engine.checkpoints.plausible import refuse_codes
from sluicegate.engine.checkpoints.quantised import fields_of, reads, whole_tensors
from sluicegate.engine.checkpoints.stored_tensors import LazyTensor, stored_tensors
from sluicegate.engine.cpu import rounds_activations
from sluicegate.engine.model.checks import verify
from sluicegate.engine.model.files import filled, weight_files
from sluicegate.engine.model.reading import config_of
from sluicegate.plugins import ModelLoadError

MTP = "mtp"
"""What `heads` says to have it."""
_BEFORE = (f"{TOKEN_NORM}.weight", f"{STATE_NORM}.weight", f"{JOIN}.weight")


class MtpHead:
    """An MTP layer as a `ChainHead`. Immutable; computes on the model's device, in its dtype."""

    def __init__(self, main: Any, layer: Any, before: Mapping[str, Tensor], state_first: bool, where: str) -> None:
        """Join `layer`, a model of one layer, with `before`: the two norms and the projection in front of it."""
        self.layers: tuple[int, ...] = (_count(main),)
        self._final_norm = main.base_model.norm
        self._layer = layer
        self._token_norm, self._state_norm = (_norm_with(self._final_norm, before[name]) for name in _BEFORE[:2])
        self._join = before[_BEFORE[2]]
        self._state_first = state_first
        (self.shape,), _, _ = verify(layer, layer.config, where, rounded=rounds_activations(layer))

    def features(self, states: Seq[Tensor]) -> Tensor:
        """Return the model's last state [T, d] after its final norm."""
        found: Tensor = self._final_norm(states[0].to(self._join.dtype))
        return found

    def advance(self, tokens: Tensor, states: Tensor, positions: Tensor, step: AttentionStep) -> Tensor:
        """Return the layer's state [T, d] after each of `tokens` [T], given the state before it: `states` [T, d]."""
        read = self._token_norm(self._layer.get_input_embeddings()(tokens).to(states.dtype))
        known = self._state_norm(states)
        joined = torch.cat([known, read] if self._state_first else [read, known], -1)
        with running(step):
            out = self._layer.base_model(
                inputs_embeds=torch.nn.functional.linear(joined, self._join)[None],
                position_ids=positions[None],
                use_cache=False,
                paged=step,
            )
        found: Tensor = out.last_hidden_state[0]
        return found

    def logits(self, states: Tensor) -> Tensor:
        """Return logits [R, V] float32 of the tokens after `states` [R, d]."""
        found: Tensor = self._layer.get_output_embeddings()(states)
        return found.float()


def _norm_with(norm: Any, weight: Tensor) -> Any:
    """Return a copy of `norm` with another weight."""
    made = copy.deepcopy(norm)
    made.weight = torch.nn.Parameter(weight, requires_grad=False)
    return made


def read_mtp(where: str, folder: Path, main: Any) -> MtpHead:
    """Read the first MTP layer of the checkpoint in `folder`, whose model is `main`; `where`: as the operator named it.
    Raises `ModelLoadError` where there is none, or one that does not fit."""
    files = _files(folder, where)
    tensors = stored_tensors(files, where)
    config = _plain_config(folder, where) if files else None
    found = [] if config is None else find_mtp(tensors, config.num_hidden_layers, where)
    if config is None or not found or not hasattr(main.base_model, "norm"):
        raise ModelLoadError(
            f"{where!r} has heads = {MTP!r}, but holds no layers for further tokens that are known here (as "
            "DeepSeek-V3, GLM-4.5, Qwen3-Next and MiMo name them, in safetensors files); leave out `heads`"
        )
    if fields := fields_of(config):
        if not reads(fields, where):
            raise ModelLoadError(
                f"{where!r} is quantised in a way from which layers for further tokens are not read; leave out `heads`"
            )
        tensors = whole_tensors(tensors, fields, where)
        del config.quantization_config
    return _head(found[0], tensors, config, main, where)


def mtp_note(where: str, folder: Path, main: Any, *, used: bool) -> tuple[str, ...]:
    """Return a note for operators on a checkpoint's MTP layers; `used`: the first of them drafts."""
    count = len(find_mtp(_names(folder, where), _count(main), where))
    if not used:
        said = f"its checkpoint holds {count} MTP layer{'s' if count > 1 else ''}, left aside: heads = {MTP!r} uses one"
        return (said,) if count else ()
    return (f"heads = {MTP!r} uses the first of {count} MTP layers",) if count > 1 else ()


def _names(folder: Path, where: str) -> list[str]:
    """Return the names of a checkpoint's tensors."""
    return list(stored_tensors(_files(folder, where), where))


def _files(folder: Path, where: str) -> list[Path]:
    return [] if where.endswith(".gguf") else weight_files(folder, where)


def _count(main: Any) -> int:
    return int(main.config.get_text_config(decoder=True).num_hidden_layers)


def _plain_config(folder: Path, where: str) -> Any:
    config = config_of(str(folder))
    text = copy.deepcopy(config.get_text_config(decoder=True))
    if fields_of(config) and not fields_of(text):
        text.quantization_config = config.quantization_config
    return text


def _head(found: MtpLayer, tensors: Mapping[str, LazyTensor], config: Any, main: Any, where: str) -> MtpHead:
    named = f"{where} (its MTP layer)"
    own = {ours: tensors[name] for name, ours in found.names.items() if name in tensors}
    refuse_codes(own, named)
    refuse_misnumbered(own, config, named)
    width = config.hidden_size
    shapes = dict(zip(_BEFORE, ((width,), (width,), (width, 2 * width)), strict=True))
    wrong = [name for name, shape in shapes.items() if name not in own or tuple(own[name].shape) != shape]
    if wrong:
        theirs = {ours: name for name, ours in found.names.items()}
        shown = ", ".join(f"{theirs.get(n, n)} ({list(own[n].shape) if n in own else 'missing'})" for n in wrong)
        raise ModelLoadError(f"{named!r} does not fit a model {width} wide: {shown}; fetch the checkpoint anew")
    before = {name: own.pop(name).read() for name in _BEFORE}
    for name, tensor in before.items():
        refuse_no_numbers(name, tensor, named)
    layer = _model_of_one(own, _shared(own, tensors, config), config, main, named)
    fitted = {name: tensor.to(main.device, main.dtype) for name, tensor in before.items()}
    return MtpHead(main, layer, fitted, found.form.state_first, named)


def _shared(own: Mapping[str, LazyTensor], tensors: Mapping[str, LazyTensor], config: Any) -> set[str]:
    """Return the tables of the layer that are the model's: absent from the checkpoint, or equal there."""
    tied = getattr(config, "tie_word_embeddings", False)
    theirs = {EMBEDDING: EMBEDDING, HEAD: HEAD if not tied or f"{HEAD}.weight" in tensors else EMBEDDING}
    return {
        part
        for part, name in theirs.items()
        if f"{part}.weight" not in own or _equal(own[f"{part}.weight"], tensors.get(f"{name}.weight"))
    }


def _equal(one: LazyTensor, other: LazyTensor | None) -> bool:
    if other is None or one.shape != other.shape:
        return False
    return all(torch.equal(a, b) for (_, a), (_, b) in zip(one.runs(), other.runs(), strict=True))


def _model_of_one(own: dict[str, LazyTensor], shared: set[str], config: Any, main: Any, where: str) -> Any:
    """Return a model of one layer that uses the tables of `main` named in `shared`."""
    asked = own | {f"{part}.weight": _stand_in((config.vocab_size, config.hidden_size), main.dtype) for part in shared}
    module = filled(asked, _config_of_one(config, own), main.dtype, where)
    if EMBEDDING in shared:
        module.set_input_embeddings(main.get_input_embeddings())
    if HEAD in shared:
        module.set_output_embeddings(main.get_output_embeddings())
    refuse_damaged(module, where)
    return module.to(main.device).eval().requires_grad_(False)


def _stand_in(shape: tuple[int, int], dtype: torch.dtype) -> LazyTensor:
    """Return a tensor of this shape that uses the memory of one number."""
    return LazyTensor(shape, dtype, lambda: torch.zeros(1, dtype=dtype).expand(shape))


def _config_of_one(config: Any, own: Mapping[str, LazyTensor]) -> Any:
    """Return the configuration of the layer alone. It attends to everything; whether it has experts is seen by its
    tensors: rules of families for that go by numbers of layers, which it has not."""
    made = copy.deepcopy(config)
    has_experts = any(".experts." in name for name in own)
    said = {
        "layer_types": ["full_attention"],
        "mlp_layer_types": ["sparse" if has_experts else "dense"],
        "first_k_dense_replace": 0 if has_experts else 1,
        "mlp_only_layers": [] if has_experts else [0],
        "decoder_sparse_step": 1,
        "moe_layer_freq": 1,
    }
    for name, value in said.items():
        if getattr(made, name, None) is not None:
            setattr(made, name, value)
    made.num_hidden_layers, made.tie_word_embeddings = 1, False
    return made
