"""Check what a GGUF file says of itself, where `transformers` would take it as it stands or not look at it.

Tensors lie one behind another, as ggml demands of a file; ids are those of tokens; and fields that change what is
computed are in the configuration or refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from sluicegate.engine.checkpoints.gguf.files import GgufFile
from sluicegate.plugins import ModelLoadError

_ENDS = "tokenizer.ggml.eos_token_id"
_IDS = ("bos", "eos", "unknown", "separator", "padding", "mask", "eot", "eom")
_HEEDED: Mapping[str, tuple[str, tuple[Any, ...]]] = {
    "attention.sliding_window": ("sliding_window", (0,)),
    "attn_logit_softcapping": ("attn_logit_softcapping", (0,)),
    "final_logit_softcapping": ("final_logit_softcapping", (0,)),
    "logit_scale": ("logit_scale", (0, 1)),
    "embedding_scale": ("embedding_multiplier", (0, 1)),
    "residual_scale": ("residual_multiplier", (0, 1)),
    "attention.scale": ("attention_multiplier", (0,)),
    "attention.clamp_kqv": ("clip_qkv", (0,)),
    "attention.max_alibi_bias": ("", (0,)),
    "attention.causal": ("", (True,)),
    "use_parallel_residual": ("use_parallel_residual", (False,)),
    "expert_count": ("num_experts", (0,)),
}
"""Fields of an architecture: name in a configuration ('' = none), and values that ask for nothing."""
_OTHER_NAMES = {"num_experts": ("num_local_experts", "n_routed_experts")}
_EPSILONS = ("attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon")
_CONTEXT = ("context_length",)
_NEEDED: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "gemma3": (("attention.sliding_window",), ("rope.freq_base",)),
}
"""Fields of an architecture, one of each group, for which `transformers` has another default than llama.cpp."""
_OF_NO_MODEL = ("general", "tokenizer", "split", "quantize", "imatrix")
"""First parts of names of fields that describe the file, or that are checked by themselves."""
_PLAIN_SPLITS = ("gpt-2", "gpt2", "mpt", "olmo", "jais", "trillion")
"""Names of the way that GPT-2 cuts texts, which a byte-level tokenizer has where its file says no other."""


def refuse_misplaced(file: GgufFile) -> None:
    """Raise `ModelLoadError` unless the tensors fill the file without gaps, overlaps or a rest, but for padding: with
    another number of tensors all of them would be read from the wrong place."""
    if (parts := file.value("split.count") or 1) != 1:
        raise ModelLoadError(
            f"{file.where!r} is one of {parts} parts of a model; join them (llama-gguf-split --merge), and name the "
            "whole"
        )
    end = file.data_offset
    for tensor in sorted(file.tensors, key=lambda tensor: int(tensor.data_offset)):
        if int(tensor.data_offset) != end:
            raise ModelLoadError(
                f"{file.where!r} is no whole GGUF file: {tensor.name} lies at {int(tensor.data_offset)}, and the "
                f"tensor before it ends at {end}. Its download or copy was not finished, or it is damaged; fetch it "
                "anew"
            )
        end += -(-int(tensor.n_bytes) // file.alignment) * file.alignment
    if not -file.alignment < (rest := file.path.stat().st_size - end) < file.alignment:
        raise ModelLoadError(
            f"{file.where!r} is no whole GGUF file: its tensors end at {end}, and the file {abs(rest)} bytes "
            f"{'behind' if rest > 0 else 'before'} that; it is damaged, or says another number of tensors. Fetch it "
            "anew"
        )


def refuse_strange_ids(file: GgufFile) -> None:
    """Raise `ModelLoadError` for special tokens that are none of the file's, and where nothing says how answers end."""
    count = file.length("tokenizer.ggml.tokens")
    for name in (f"tokenizer.ggml.{kind}_token_id" for kind in _IDS):
        found = file.value(name)
        if found is not None and not (type(found) is int and 0 <= found < count):
            raise ModelLoadError(
                f"{file.where!r}: {name} is {found!r}, and the file has {count} tokens; name the checkpoint that it "
                "was made of, or convert it anew"
            )
    if file.value(_ENDS) is None and file.value("tokenizer.ggml.model") == "gpt2":
        raise ModelLoadError(
            f"{file.where!r} does not say which token ends an answer ({_ENDS}); convert the checkpoint anew, or name it"
        )


def refuse_incomplete(file: GgufFile) -> None:
    """Raise `ModelLoadError` where a field is missing whose default differs between programs."""
    for names in (_EPSILONS, _CONTEXT, *_NEEDED.get(file.architecture, ())):
        if all(file.field(name) is None for name in names):
            said = " nor ".join(f"{file.architecture}.{name}" for name in names)
            raise ModelLoadError(
                f"{file.where!r} says no {said}, without which answers would be those of another model; it is damaged, "
                "or was converted by another program. Fetch it anew, or name the checkpoint that it was made of"
            )


def heed_fields(config: Any, file: GgufFile) -> None:
    """Write fields of the file that change what is computed into the configuration. Raises `ModelLoadError` for those
    that it has no place for."""
    text = config.get_text_config(decoder=True)
    for name, (ours, neutral) in _HEEDED.items():
        said = file.field(name)
        if said is None or said in neutral:
            continue
        found = next((one for one in (ours, *_OTHER_NAMES.get(ours, ())) if ours and hasattr(text, one)), None)
        if found is None:
            raise ModelLoadError(
                f"{file.where!r}: {name} is {said}, and {type(text).__name__} has nothing like it; answers would be "
                "wrong without it. Name the checkpoint that the file was made of"
            )
        setattr(text, found, said)
    _refuse_other_widths(text, file)


def _refuse_other_widths(text: Any, file: GgufFile) -> None:
    width = getattr(text, "head_dim", None) or text.hidden_size // max(1, text.num_attention_heads)
    for name in ("attention.key_length", "attention.value_length"):
        if (said := file.field(name)) is not None and said != width:
            raise ModelLoadError(
                f"{file.where!r}: {name} is {said}, and the model's heads are {width} wide (rope.dimension_count, or "
                "embedding_length over head_count); name the checkpoint that the file was made of"
            )


def file_notes(file: GgufFile) -> tuple[str, ...]:
    """Return sentences on what is in a file, or missing there, that an operator should know."""
    return _what_is_unknown(file) + _what_cuts_texts(file)


def _what_is_unknown(file: GgufFile) -> tuple[str, ...]:
    known = _known_fields(file.architecture)
    strange = [one for one in file.header.fields if one not in known and one.split(".")[0] not in _OF_NO_MODEL]
    if not strange:
        return ()
    more = f" and {len(strange) - 3} more" if len(strange) > 3 else ""
    return (f"its GGUF file has fields that are not known here, and not used: {', '.join(strange[:3])}{more}",)


@cache
def _known_fields(architecture: str) -> frozenset[str]:
    """Return the names of fields that the package `gguf` knows."""
    from gguf.constants import Keys

    groups = [group for group in vars(Keys).values() if isinstance(group, type)]
    names = [name for group in groups for name in vars(group).values() if isinstance(name, str)]
    return frozenset(name.replace("{arch}", architecture) for name in names)


def _what_cuts_texts(file: GgufFile) -> tuple[str, ...]:
    """Return a sentence on texts that are cut into words by another rule than the file names; () if they are not."""
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    named = file.value("tokenizer.ggml.pre")
    if file.value("tokenizer.ggml.model") != "gpt2" or named in GGUF_PRE_TOKENIZER_SPLITS or named in _PLAIN_SPLITS:
        return ()
    said = "names no rule" if named is None else f"names the rule {named!r}, which is not known here,"
    return (f"its GGUF file {said} by which texts are cut into words: they are cut as GPT-2 does",)
