"""Judge a probe beside the shipped text classifier: by source, each with rows that it has not seen."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from sluicegate.engine.probes.probe import read_probe
from sluicegate.gateway.commands.probe.features import layers_of, model_of, states
from sluicegate.gateway.commands.probe.fitting import Floats, auc, sample_of, scores
from sluicegate.gateway.commands.probe.rows import LabelledAnswer
from sluicegate.gateway.commands.probe.training import TOKENS, chosen, fold_of, left_out, limit
from sluicegate.gateway.commands.statistics import share
from sluicegate.gateway.commands.tables import table
from sluicegate.safety.detection import load as load_classifier
from sluicegate.safety.detection.detector import Detector
from sluicegate.safety.judging.settings import AnswerHarmSettings
from sluicegate.safety.judging.units import UnitCutter

DRAWS = 1000


def evaluated(parsed: argparse.Namespace, rows: Sequence[LabelledAnswer]) -> dict[str, Any]:
    """Return AUC and recall at 1 % false alarms, over all rows and by source. Raises `ModelLoadError`."""
    model = model_of(parsed)
    bad = np.array([row.bad for row in rows])
    if parsed.probe is not None:
        probe = read_probe(parsed.probe, name=model.name, version=model.version, module=model.module)
        tokens = TOKENS if "w1" in probe.weights else 0
        found = states(model, rows, probe.layers, parsed.unit_chars, tokens=tokens)
        sample = sample_of(found, [row.bad for row in rows], range(len(probe.layers)))
        held, cut, layers = scores(dict(probe.weights), sample), "as trained", probe.layers
    else:
        layers = layers_of(parsed.layers, model)
        found = states(model, rows, layers, parsed.unit_chars, tokens=TOKENS if parsed.hidden else 0)
        places, _ = chosen(parsed.layers, layers, found, rows)
        layers = tuple(layers[at] for at in places)
        folds, cut = _folds(rows)
        held = left_out(sample_of(found, [row.bad for row in rows], places), folds, parsed.hidden, parsed.seed)
    judges = {"probe": held, "harm (text classifier)": _text_scores(rows)}
    return {
        "model": model.name,
        "layers": list(layers),
        "cut": cut,
        "rows": len(rows),
        "bad": int(bad.sum()),
        "judges": {name: _figures(found, bad, rows) for name, found in judges.items()},
    }


def _folds(rows: Sequence[LabelledAnswer]) -> tuple[list[str], str]:
    """Return the fold of each row, and in words what is left out in turn: whole sources, but fifths of those without
    which only one class would be left to learn from."""
    only = {source for source in {row.source for row in rows} if len({r.bad for r in rows if r.source != source}) < 2}
    folds = [f"{row.source}/{fold_of(row.group)}" if row.source in only else row.source for row in rows]
    if len(only) == len({row.source for row in rows}):
        return folds, "fifths left out, by prompt: without a source only one class, or none, would be left"
    fifths = f"; of {', '.join(sorted(only))} fifths, by prompt: one class would be left without it" if only else ""
    return folds, f"whole sources left out{fifths}"


def _figures(found: Floats, bad: np.ndarray[Any, Any], rows: Sequence[LabelledAnswer]) -> dict[str, Any]:
    at = limit(found[~bad])
    hits = share(int((found[bad] >= at).sum()), int(bad.sum()))
    assert hits is not None
    rng = np.random.default_rng(0)
    drawn = [
        auc(rng.choice(found[bad], int(bad.sum())), rng.choice(found[~bad], int((~bad).sum()))) for _ in range(DRAWS)
    ]
    low, high = np.quantile(drawn, [0.025, 0.975])
    by_source = {}
    for source in sorted({row.source for row in rows}):
        for kind in (True, False):
            mine = np.array([row.source == source and row.bad == kind for row in rows])
            rang = share(int((found[mine] >= at).sum()), int(mine.sum()))
            if rang is not None:
                by_source[f"{source}: {'bad' if kind else 'harmless'}"] = [
                    rang.n,
                    *_three(rang.value, rang.low, rang.high),
                ]
    return {
        "auc": _three(auc(found[bad], found[~bad]), float(low), float(high)),
        "limit": round(at, 4),
        "recall": _three(hits.value, hits.low, hits.high),
        "rang": by_source,
    }


def _three(*values: float) -> list[float]:
    return [round(value, 4) for value in values]


def _text_scores(rows: Sequence[LabelledAnswer]) -> Floats:
    """Return the worst unit's score by the text classifier, as `harm` of slot `moderate` reads: a unit alone, and with
    what came before it."""
    detector, own = Detector(load_classifier()), AnswerHarmSettings()
    found = []
    for row in rows:
        cutter, before, worst = UnitCutter(own.unit_chars, own.longest_unit), "", 0.0
        for unit in [*cutter.feed(row.text), *cutter.close()]:
            worst = max(worst, detector.harm(unit.text).score, detector.harm(before + unit.text).score if before else 0)
            before = (before + unit.text)[-own.window_chars :]
        found.append(worst)
    return np.array(found)


def table_of(report: dict[str, Any]) -> str:
    """Return the report for people."""
    head = f"{report['model']}, layers {report['layers']}; {report['rows']} rows, {report['bad']} bad; {report['cut']}"
    lines = [
        (name, _with_interval(found["auc"], 3), f"{found['limit']:.3f}", _percent(found["recall"]))
        for name, found in report["judges"].items()
    ]
    parts = [head, table(("judge", "AUC (95 %)", "limit", "recall at 1 % false alarms (95 %)"), lines)]
    for name, found in report["judges"].items():
        rows = [(source, values[0], _percent(values[1:])) for source, values in found["rang"].items()]
        parts.append(table((f"{name}: rings on", "rows", "share (95 %)"), rows))
    return "\n\n".join(parts)


def _with_interval(values: Sequence[float], digits: int) -> str:
    middle, low, high = (f"{value:.{digits}f}" for value in values)
    return f"{middle} ({low} - {high})"


def _percent(values: Sequence[float]) -> str:
    middle, low, high = (f"{value:.1%}" for value in values)
    return f"{middle} ({low} - {high})"
