"""The heads together, and the file that holds their weights: int8, one scale for each array."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from sluicegate.plugins.errors import ConfigurationError
from sluicegate.safety.detection.features import BUCKETS, CONCEPT_BUCKETS
from sluicegate.safety.detection.scoring.head import Head
from sluicegate.safety.detection.scoring.network import ROWS, WIDTH, TextNetwork
from sluicegate.safety.detection.scoring.occurrences import Floats
from sluicegate.safety.detection.segments import CONTEXT
from sluicegate.safety.detection.settings import WEIGHTS

HEADS = ("injection", "document", "harm")
FORMAT = 7
READABLE = (1, 2, 3, 4, 5, 6, FORMAT)
"""Format 1 is that of weights of which no head reads concepts, format 2 of those of which none reads parts, format 3 of
those that all count every occurrence, format 4 of those without rivals and network, format 5 of those to which a run of
Chinese characters was one word, format 6 of those without specialists."""

_SCALARS = ("bias", "slope", "midpoint", "document_midpoint", "part_share", "rival_share", "network_share")
_PARTS = ("words", "chars", "concepts", "words_once", "chars_once")


@dataclass(frozen=True, slots=True)
class Classifier:
    """Immutable; shared by requests and threads. `about` describes its training data and results."""

    heads: Mapping[str, Head]
    about: Mapping[str, Any]

    def save(self, path: Path) -> None:
        """Write the weights as int8 with one scale for each array."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        for name, head in self.heads.items():
            arrays |= _arrays(name, head)
            for kind, members in (("rival", head.rivals), ("specialist", head.specialists)):
                for i, member in enumerate(members):
                    arrays |= _arrays(f"{name}.{kind}{i}", member)
            if head.network is not None:
                arrays |= _network_arrays(f"{name}.network", head.network)
        about = json.dumps({"format": FORMAT, **self.about}, sort_keys=True)
        arrays["about"] = np.frombuffer(about.encode(), dtype=np.uint8)
        np.savez_compressed(path, allow_pickle=False, **arrays)


def _arrays(name: str, head: Head) -> dict[str, npt.NDArray[Any]]:
    arrays: dict[str, npt.NDArray[Any]] = {}
    for part in _PARTS:
        if (weights := getattr(head, part)) is not None:
            arrays[f"{name}.{part}"], arrays[f"{name}.{part}.scale"] = _to_int8(weights)
    arrays[f"{name}.context"] = head.context
    scalars = [getattr(head, part) for part in _SCALARS]
    arrays[f"{name}.scalars"] = np.array(scalars, dtype=np.float32)
    return arrays


def _network_arrays(name: str, network: TextNetwork) -> dict[str, npt.NDArray[Any]]:
    table, scale = _to_int8(network.table)
    last = np.concatenate((network.hidden, network.output, [network.bias])).astype(np.float32)
    return {f"{name}.table": table, f"{name}.table.scale": scale, f"{name}.last": last}


def _to_int8(weights: Floats) -> tuple[npt.NDArray[np.int8], Floats]:
    scale = float(np.abs(weights).max()) / 127.0 or 1.0
    return np.rint(weights / scale).astype(np.int8), np.array([scale], dtype=np.float32)


_DAMAGED = (OSError, KeyError, ValueError, EOFError, TypeError, NotImplementedError, BadZipFile, zlib.error)
"""What reading an archive of arrays raises where bytes of it were changed, or arrays are missing."""


def load(path: Path = WEIGHTS) -> Classifier:
    """Load the weights. Raises `ConfigurationError` for a file that is missing, damaged or of another format."""
    try:
        with np.load(path, allow_pickle=False) as packed:
            about = json.loads(packed["about"].tobytes())
            if about["format"] not in READABLE:
                raise ValueError(f"format {about['format']}, expected {FORMAT}")
            arrays = {name: _finite(name, packed[name]) for name in packed.files}
        return Classifier({name: _whole(arrays, name) for name in HEADS}, about)
    except _DAMAGED as error:
        raise ConfigurationError(
            f"detection weights {str(path)!r} cannot be read: {error}; "
            "`sluicegate safety tune --apply` writes them, as does `python -m training.detector.train --data FOLDER`"
        ) from error


def _finite(name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array of numbers. Raises `ValueError` for one that is not finite: no score would reach a threshold."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name} holds a number that is not finite")
    return array


def _whole(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> Head:
    """Read a head with its rivals, its network and its specialists."""
    network = _network(arrays, f"{name}.network") if f"{name}.network.table" in arrays else None
    rivals, specialists = (_members(arrays, f"{name}.{kind}") for kind in ("rival", "specialist"))
    return replace(_head(arrays, name), rivals=rivals, network=network, specialists=specialists)


def _members(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> tuple[Head, ...]:
    count = len({key.split(".")[1] for key in arrays if key.startswith(prefix)})
    return tuple(_head(arrays, f"{prefix}{i}") for i in range(count))


def _head(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> Head:
    parts = {part: _from_int8(arrays, f"{name}.{part}") for part in _PARTS if f"{name}.{part}" in arrays}
    context = arrays[f"{name}.context"]
    shapes = {part: (CONCEPT_BUCKETS if part == "concepts" else BUCKETS,) for part in parts}
    if {part: weights.shape for part, weights in parts.items()} != shapes or context.shape != (len(CONTEXT),):
        raise ValueError(f"head {name!r} has the wrong shape")
    scalars = dict(zip(_SCALARS, (float(x) for x in arrays[f"{name}.scalars"]), strict=False))
    return Head(context=context.astype(np.float32), **parts, **scalars)  # type: ignore[arg-type]  # two kinds of values


def _network(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> TextNetwork:
    table, last = _from_int8(arrays, f"{name}.table"), arrays[f"{name}.last"]
    if table.shape != (ROWS, WIDTH) or last.shape != (2 * WIDTH + 1,):
        raise ValueError(f"{name} has the wrong shape")
    return TextNetwork(table, last[:WIDTH], last[WIDTH : 2 * WIDTH], float(last[-1]))


def _from_int8(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> Floats:
    weights: Floats = arrays[name].astype(np.float32) * arrays[f"{name}.scale"]
    return weights
