"""Check checkpoint folders before any slow import."""

from __future__ import annotations

import json
from pathlib import Path

from sluicegate.engine.settings import ModelSettings
from sluicegate.plugins.errors import ConfigurationError, ModelLoadError

WEIGHTS = ("*.safetensors", "*.bin", "*.gguf")
READ = ("*.json", "*.jinja", "*.safetensors", "*.bin", "*.model", "*.txt", "*.tiktoken")
TOKENIZERS = ("tokenizer*", "vocab*", "*.model", "*.tiktoken")
WHAT_TO_NAME = "name a folder with config.json, safetensors weights and a tokenizer, a name on the hub, or a GGUF file"


def check_folders(models: tuple[ModelSettings, ...]) -> None:
    """Check that the models' paths can be checkpoints. Raises `ConfigurationError` for the first that cannot; names on
    the hub are not checked."""
    for model in models:
        _check(model.path, adapter=model.base is not None)
        if model.adapter is not None:
            _check(model.adapter, adapter=True)
        if model.draft is not None:
            _check(model.draft)


def check_encoder_folder(name: str) -> None:
    """Check that a path can be an embedding or scoring model; one with modules.json may lack config.json. Raises
    `ConfigurationError`."""
    path = Path(name)
    if path.exists() or _is_path(name):
        if not path.is_dir():
            raise ConfigurationError(
                f"there is no folder {name!r} here (looked at {path.absolute()}); name one as sentence-transformers or "
                "transformers write it, or a name on the hub"
            )
        if not (path / "modules.json").is_file():
            _check(name)


def _check(name: str, *, adapter: bool = False) -> None:
    path = Path(name)
    if not name.isprintable():
        raise ConfigurationError(f"the name of the model {name!r} holds control characters; {WHAT_TO_NAME}")
    try:
        is_there = path.exists()
    except OSError as error:
        raise ConfigurationError(f"there is no {name!r} here: {error.strerror}; {WHAT_TO_NAME}") from error
    if name == "bundled" or (not is_there and not _is_path(name)):
        return
    if not is_there:
        raise ConfigurationError(f"there is no {name!r} here (looked at {path.absolute()}); {WHAT_TO_NAME}")
    if path.is_file():
        if path.suffix != ".gguf":
            raise ConfigurationError(f"{name!r} is a file and no model; {WHAT_TO_NAME}")
        return
    try:
        _check_folder(name, path, "adapter_config.json" if adapter else "config.json")
    except OSError as error:
        raise ConfigurationError(f"the model folder {name!r} cannot be read: {error.strerror or error}") from error


def irregular_files(folder: Path) -> list[str]:
    """Return the names of a checkpoint's entries that are no files, though they are named as such: pipes, from which
    reading never returns, folders, links to nothing. A link to a file is one: the hub's cache is made of them."""
    return sorted(path.name for kind in READ for path in folder.glob(kind) if not path.is_file())


def refuse_irregular(folder: Path, where: str) -> None:
    """Raise `ModelLoadError` for a folder with pipes or dangling links named as a checkpoint's files."""
    if folder.is_dir() and (odd := irregular_files(folder)):
        raise ModelLoadError(
            f"{odd[0]} of {where!r} is no file (a pipe, a folder, or a link to nothing); copy it there, or remove it"
        )


def _is_path(name: str) -> bool:
    """Return whether `name` is a path rather than a name on the hub (`owner/name`)."""
    return name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name


def _check_folder(name: str, path: Path, described: str) -> None:
    if odd := irregular_files(path):
        raise ConfigurationError(
            f"{odd[0]} of the model folder {name!r} is no file (a pipe, a folder, or a link to nothing); copy it there"
        )
    if not (path / described).is_file():
        other = "; it holds a LoRA adapter: name it as `adapter`, or with a `base`"
        more = other if described == "config.json" and (path / "adapter_config.json").is_file() else f"; {WHAT_TO_NAME}"
        raise ConfigurationError(f"the folder {name!r} has no {described}{more}")
    try:
        config = json.loads((path / described).read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{described} of the model folder {name!r} is not JSON: {error}") from error
    if not isinstance(config, dict) or (described == "config.json" and "model_type" not in config):
        raise ConfigurationError(
            f"config.json of the model folder {name!r} names no model_type, so it describes no model of transformers"
        )
    if not any(next(path.glob(pattern), None) for pattern in WEIGHTS):
        raise ConfigurationError(
            f"the model folder {name!r} holds no weights (model.safetensors); is its download finished?"
        )
    if described == "config.json" and not any(next(path.glob(pattern), None) for pattern in TOKENIZERS):
        raise ConfigurationError(f"the model folder {name!r} holds no tokenizer (tokenizer.json); copy it there")
