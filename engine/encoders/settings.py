"""Define the settings of models that embed and score, and their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sluicegate.plugins.settings import Count, read_settings, wrong_value

STAGE = "stages.generate.encoders"
ReadsFor = Literal["auto", "embed", "score"]


@dataclass(frozen=True, slots=True)
class EncoderModelSettings:
    """`path`: a local folder, or a name on the Hugging Face hub."""

    path: str
    """A local folder, or a name on the Hugging Face hub."""
    name: str | None = None
    """What requests call it; None = the last part of `path`."""
    version: str | None = None
    """The operator's own word for these weights; it comes before the digest of the files."""
    aliases: tuple[str, ...] = ()
    """Other names that requests may use."""
    task: ReadsFor = "auto"
    """`auto`: a cross-encoder where config.json names a model for sequence classification, else an embedder."""
    truncate: bool = False
    """Read the beginning of a text that is too long, and say so in the answer; otherwise it is refused."""
    max_tokens: Count | None = None
    """Longest text in tokens; None = the limit of the folder."""
    dimensions: tuple[Count, ...] = ()
    """Lengths that vectors may be cut to, if the model was trained for it (matryoshka), in addition to those in
    config.json."""
    device: str = "cpu"
    """`cpu`, `cuda` or `cuda:N`."""

    @property
    def served_name(self) -> str:
        return self.name or Path(self.path).name


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    models: tuple[EncoderModelSettings, ...]
    """Loaded at start: a list, or a table by name."""
    max_batch_tokens: Count = 4096
    """Most tokens of a forward pass, padding included; a longer text is read alone."""
    max_waiting: Count = 256
    """Requests beyond this are refused with `Overloaded`."""
    threads: Count | None = None
    """Threads of a forward pass; None = as for the engine: one for tiny models, else all cores but one."""

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> EncoderSettings:
        """Read the stage's table, whose `models` may be a list or a table by name. Raises `ConfigurationError`."""
        return read_settings(cls, {**table, "models": _models(table["models"])} if "models" in table else table, STAGE)

    def __post_init__(self) -> None:
        if not self.models:
            raise ValueError("models is empty; name at least one, such as {path = 'models/e5-small'}")
        names = [name for model in self.models for name in (model.served_name, *model.aliases)]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"{', '.join(twice)} would lead to more than one model; set other names")


def _models(found: Any) -> Any:
    """Return the tables of a list of entries, or of a table by name."""
    if isinstance(found, Mapping):
        return [{"name": name, **_as_table(entry)} for name, entry in found.items()]
    return [_as_table(entry) for entry in found] if isinstance(found, list | tuple) else found


def _as_table(entry: Any) -> dict[str, Any]:
    table = {"path": entry} if isinstance(entry, str) else entry
    if not isinstance(table, Mapping):
        raise wrong_value(STAGE, "models", "paths or tables such as {path = '...'}", entry)
    return dict(table)
