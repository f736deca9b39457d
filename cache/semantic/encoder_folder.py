"""Load an encoder and its tokenizer from a folder that an operator names.

Not covered: a folder whose files are whole and its own, but of a model that is worth nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sluicegate.plugins.errors import ConfigurationError

REMEDY = "name a folder that holds config.json, model.safetensors and tokenizer.json, as the model was published"
MOST_QUOTED = 300


def load_encoder(folder: Path, role: str) -> tuple[Any, Any]:
    """Return the tokenizer and the encoder of a folder; messages name the `role` that it has. The weights are copied
    from the file, so that nothing done to it later reaches them: a mapped file that is cut short ends the process.
    Raises `ConfigurationError`."""
    from transformers import AutoModel, AutoTokenizer

    check_is_folder(folder, role)
    if not (folder / "config.json").is_file():
        raise ConfigurationError(f"{role}: {str(folder)!r} holds no config.json, so it is no model; {REMEDY}")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        encoder, found = AutoModel.from_pretrained(
            folder, trust_remote_code=False, local_files_only=True, output_loading_info=True
        )
    except Exception as error:  # a broken folder makes transformers and its readers raise nearly anything
        raise ConfigurationError(
            f"{role}: the model in {str(folder)!r} cannot be loaded: {_reason(error)}; fetch it anew, or {REMEDY}"
        ) from error
    _check_vocabulary(folder, role, tokenizer, encoder)
    _check_whole(folder, role, encoder, found["missing_keys"])
    for tensor in (*encoder.parameters(), *encoder.buffers()):
        tensor.data = tensor.data.clone()
    return tokenizer, encoder.eval()


def check_is_folder(folder: Path, role: str) -> None:
    """Raise `ConfigurationError` for a path that is no folder, or none that may be looked at."""
    try:
        if folder.is_dir():
            return
        found = "it is a file" if folder.exists() else "nothing is there"
    except OSError as error:
        found = error.strerror or type(error).__name__
    shown = str(folder)[:MOST_QUOTED]
    raise ConfigurationError(f"{role}: there is no folder {shown!r}: {found}; name one on this machine")


def _check_vocabulary(folder: Path, role: str, tokenizer: Any, encoder: Any) -> None:
    """Refuse a tokenizer that was made of no file, which transformers makes without complaint, and one whose pieces the
    encoder has no vectors for."""
    names = sorted({name for name in tokenizer.vocab_files_names.values() if type(name) is str} | {"tokenizer.json"})
    if not any((folder / name).is_file() for name in names):
        raise ConfigurationError(
            f"{role}: {str(folder)!r} holds no tokenizer: none of {', '.join(names)}; fetch it anew"
        )
    known = int(encoder.get_input_embeddings().weight.shape[0])
    if len(tokenizer) > known:
        raise ConfigurationError(
            f"{role}: the tokenizer in {str(folder)!r} has {len(tokenizer)} pieces, its model vectors for {known}, so "
            "they are of two models; fetch both anew"
        )


def _check_whole(folder: Path, role: str, encoder: Any, missing: Any) -> None:
    """Refuse weights that lack tensors, for which transformers takes random numbers. The pooler is not used here."""
    lost = sorted(name for name in missing if not name.startswith("pooler."))
    if lost:
        raise ConfigurationError(
            f"{role}: the model in {str(folder)!r} lacks {len(lost)} tensors of {type(encoder).__name__}, such as "
            f"{lost[0]!r}, which would be random numbers; fetch it anew"
        )


def _reason(error: BaseException) -> str:
    """Return the first line of what an error says. transformers writes about sizes to its log, and raises a hint."""
    if "ignore_mismatched_sizes" in str(error):
        return "its tensors have other sizes than its config.json says"
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].strip(" :;.")[:MOST_QUOTED]
