"""`sluicegate warm`: compile now, and keep, what a first start would compile; for images, and before a roll-out."""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path

from sluicegate.gateway.settings import Settings
from sluicegate.plugins import ReadingModel, ServedModel
from sluicegate.plugins.compiled.compile_mode import Compilable
from sluicegate.plugins.errors import ConfigurationError


def define(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `warm`."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="that of the gateway: its models, weights and KV")
    parser.add_argument("--model", action="append", metavar="PATH", help="in place of the models of the configuration")
    parser.set_defaults(run=_warm)


def _warm(parsed: argparse.Namespace) -> int:
    from sluicegate.gateway.config import load

    models = {"stages": {"generate": {"engine": {"models": parsed.model}}}} if parsed.model else {}
    return warm(load(parsed.config, os.environ, models))


def warm(settings: Settings) -> int:
    """Compile what the models of `settings` need, and print what and how long. Raises `ConfigurationError` where
    nothing can be kept, `ModelLoadError` for a model that cannot be served."""
    from sluicegate.engine.checkpoints.folders import check_folders
    from sluicegate.engine.construction import load_for
    from sluicegate.engine.kernel_list import ADAPTER_KERNELS, kernels_of
    from sluicegate.engine.settings import EngineSettings
    from sluicegate.grammar.kernel_list import GRAMMAR_KERNELS
    from sluicegate.plugins.compiled.kernels import folder

    engine = EngineSettings.of(settings.of_stage("generate", "engine"))
    check_folders(engine.models)
    began = time.perf_counter()
    kernels: list[Compilable] = [*GRAMMAR_KERNELS]
    made = _build(kernels)
    models = [load_for(engine, wanted) for wanted in engine.models if wanted.base is None]
    if any(wanted.base is not None for wanted in engine.models):
        kernels += ADAPTER_KERNELS
    kernels += [kernel for model in models for kernel in kernels_of(model, engine)]
    kernels = list(dict.fromkeys(kernels))
    made += _build(kernels[len(GRAMMAR_KERNELS) :])
    asyncio.run(_prepare(settings, models))
    if (failure := folder().failure) is not None:
        raise ConfigurationError(f"{failure}; set NUMBA_CACHE_DIR or SLUICEGATE_CACHE_DIR to a folder of your own")
    took = time.perf_counter() - began
    print(f"{made} of {len(kernels)} loops compiled now; all are kept in {folder().path} ({took:.1f} s)")
    return 0


def _build(kernels: Sequence[Compilable]) -> int:
    """Load or compile kernels, with a line for each that takes long; returns how many were compiled."""
    made = 0
    for kernel in kernels:
        began = time.process_time()
        if not kernel.load():
            kernel.build()
            made += 1
            module, name, _ = kernel.origin
            print(f"{time.process_time() - began:6.2f} s  {module.removeprefix('sluicegate.')}.{name}", flush=True)
    return made


async def _prepare(settings: Settings, models: Sequence[ServedModel]) -> None:
    """Work out the tables of the models' vocabularies, which are kept beside."""
    from sluicegate.grammar.constrainer import GrammarConstrainer
    from sluicegate.grammar.settings import STAGE, GrammarSettings
    from sluicegate.plugins.settings import read_settings

    found = settings.of_stage("constrain", "grammar")
    constrainer = GrammarConstrainer(read_settings(GrammarSettings, found, STAGE))
    for model in models:
        if isinstance(model, ReadingModel):
            continue
        await constrainer.warm(model)
        print(f"vocabulary of {model.name}: {model.vocab_size} tokens", flush=True)
    await constrainer.close()
