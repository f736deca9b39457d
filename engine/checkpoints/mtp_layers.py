"""Find layers that predict further tokens (MTP, DeepSeek-AI, "DeepSeek-V3", 2024) by tensor names in a checkpoint.

Such a layer joins a state of the model with the embedding of the token after it, and is a decoder layer from there on.
Three naming schemes are known: numbered after the decoder layers (DeepSeek-V3, GLM-4.5 and 4.6), under `mtp.`
(Qwen3-Next) and under `model.mtp_layers.` (MiMo).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sluicegate.plugins import ModelLoadError

TOKEN_NORM, STATE_NORM, JOIN = "token_norm", "state_norm", "join"
"""Own names of what stands before the decoder layer."""
NORM, HEAD, EMBEDDING = "model.norm", "lm_head", "model.embed_tokens"
_LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)")
_NUMBER = re.compile(r"\.\d+\.")


@dataclass(frozen=True, slots=True)
class MtpForm:
    """The naming scheme of MTP layers in some model families."""

    families: str
    names: re.Pattern[str]
    """Of a tensor in layer `n`: (n, name within it)."""
    parts: Mapping[str, str]
    """Modules within it that are not the decoder layer's -> own names."""
    state_first: bool = False
    """Whether the state comes before the embedding where both are joined."""


_BESIDE = MtpForm(
    "DeepSeek-V3, GLM-4.5",
    _LAYER,
    {
        "enorm": TOKEN_NORM,
        "hnorm": STATE_NORM,
        "eh_proj": JOIN,
        "shared_head.norm": NORM,
        "shared_head.head": HEAD,
        "embed_tokens": EMBEDDING,
    },
)
_BELOW = MtpForm(
    "Qwen3-Next",
    re.compile(r"mtp(?:\.layers\.(\d+))?\.(.+)"),
    {
        "pre_fc_norm_embedding": TOKEN_NORM,
        "pre_fc_norm_hidden": STATE_NORM,
        "fc": JOIN,
        "norm": NORM,
        "embed_tokens": EMBEDDING,
        "shared_head.head": HEAD,
    },
)
_APART = MtpForm(
    "MiMo",
    re.compile(r"model\.mtp_layers\.(\d+)\.(.+)"),
    {"token_layernorm": TOKEN_NORM, "hidden_layernorm": STATE_NORM, "input_proj": JOIN, "final_layernorm": NORM},
    state_first=True,
)


@dataclass(slots=True)
class MtpLayer:
    """One MTP layer: its naming scheme, and names in the checkpoint -> names in a model of one layer."""

    form: MtpForm
    names: dict[str, str] = field(default_factory=dict)


def find_mtp(names: Iterable[str], count: int, where: str) -> list[MtpLayer]:
    """Return the MTP layers among the tensors `names` of a model with `count` layers, in order. Raises `ModelLoadError`
    where one has a tensor that neither such layers nor the model's own layers have."""
    names = list(names)
    beside = _beside(names, count)
    usual = {_suffix(match[2]) for name in names if (match := _LAYER.fullmatch(name)) and int(match[1]) < count}
    found: dict[int, MtpLayer] = {}
    strange = []
    for name in names:
        form, number, inner = _place(name, beside)
        if form is None:
            continue
        module, _, kind = inner.rpartition(".")
        own = form.parts.get(module)
        if own is None and _suffix(inner) not in usual:
            strange.append(name)
        layer = found.setdefault(number, MtpLayer(form))
        layer.names[name] = f"model.layers.0.{inner}" if own is None else f"{own}.{kind}"
    if strange:
        more = f" and {len(strange) - 3} more" if len(strange) > 3 else ""
        raise ModelLoadError(
            f"{where!r}: its layers for further tokens (MTP) hold tensors that are not known there: "
            f"{', '.join(strange[:3])}{more}. Fetch it anew, or name a checkpoint of an architecture that is known"
        )
    return [found[number] for number in sorted(found)]


def mtp_names(names: Iterable[str], count: int, where: str) -> set[str]:
    """Return those of `names` that belong to MTP layers. Raises as `find_mtp` does."""
    return {name for layer in find_mtp(names, count, where) for name in layer.names}


def _beside(names: Iterable[str], count: int) -> set[int]:
    """Return the layer numbers from `count` on that are MTP layers."""
    found = (_LAYER.fullmatch(name) for name in names if name.endswith(".eh_proj.weight"))
    return {int(match[1]) for match in found if match and int(match[1]) >= count}


def _place(name: str, beside: set[int]) -> tuple[MtpForm | None, int, str]:
    """Return (scheme, layer number, name within the layer); scheme None = not an MTP tensor."""
    for form in (_BESIDE, _BELOW, _APART):
        match = form.names.fullmatch(name)
        if match is not None and (form is not _BESIDE or int(match[1]) in beside):
            return form, int(match[1] or 0), match[2]
    return None, 0, ""


def _suffix(inner: str) -> str:
    """Replace expert numbers in a name within a layer by `N`."""
    return _NUMBER.sub(".N.", inner)
