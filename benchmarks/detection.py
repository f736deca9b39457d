"""Measure the input rails: recall of attacks at one false alarm in a hundred harmless texts, and time.

    python -m benchmarks.detection --data FOLDER --catalogues FOLDER --packages FOLDER

Two ways of measuring. On the sets that the shipped weights were trained on, by cross-validation: near-duplicates and
translations stay on one side, and of documents both the document and the kind of planted instruction are new. On any
other sets, with the shipped weights as they are. `--mode` forces one of the two.

The threshold of a head is the least that keeps the false alarms on the three harmless sets together within 1 %, and
for `harm` those on the safe half of XSTest within 5 %; for documents it is 1 % of the clean documents.

`--leave-source-out` trains without each source in turn and measures it at the shipped thresholds, with 95 % intervals
after Wilson, the worst of the harmless ones last; some minutes. `calibration` of the JSON says how often texts with a
score were attacks, at the share of attacks that the scores suppose.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import common
from sluicegate.gateway.commands.statistics import share
from sluicegate.safety.detection import Detector, load
from training.detector import data, recipe
from training.detector.evaluate import (
    FALSE_POSITIVES,
    FOLDS,
    SAFE_LOOK_ALIKES,
    Calibration,
    Scored,
    calibrated,
    classes,
    cross_validated,
    prevalences,
    probability,
    shipped,
    threshold,
)
from training.detector.published import NOTHING_PUBLISHED, Published, fetched
from training.detector.sources import left_out

RANGES = (0.0, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 1.01)
Numbers = npt.NDArray[np.float64]

HEAD_OF = {
    **dict.fromkeys(data.INJECTION, "injection"),
    **dict.fromkeys(data.HARM, "harm"),
    "indirect_bipia_email": "document",
    "indirect_bipia_table": "document",
    "indirect_bipia_code": "document",
}


def measure(scored: Sequence[Scored], calibration: Calibration) -> dict[str, Any]:
    """Recall, AUC and intervals by set; false alarms by set; one threshold for each head."""
    harmless = {head: _harmless(scored, calibration, head) for head in ("injection", "harm", "document")}
    limits = {head: threshold(scores, FALSE_POSITIVES) for head, scores in harmless.items() if len(scores)}
    look_alikes = _scores(scored, calibration, "harm", "harm_xstest", bad=False)
    if len(look_alikes):
        limits["harm"] = max(limits.get("harm", 0.0), threshold(look_alikes, SAFE_LOOK_ALIKES))
    sets = {}
    for name, head in HEAD_OF.items():
        scores = _scores(scored, calibration, head, name, bad=True)
        if len(scores) and head in limits:
            sets[name] = {"head": head, **_row(scores, harmless[head], limits[head])}
    return {
        "recall": {name: row["recall"] for name, row in sets.items()},
        "false_positive_rate": _together(harmless, limits),
        "false_positive_rate_any_head": _either(scored, calibration, limits),
        "threshold": {head: round(limit, 4) for head, limit in limits.items()},
        "sets": sets,
        "false_positives": _false_alarms(scored, calibration, limits),
    }


def _together(harmless: dict[str, Numbers], limits: dict[str, float]) -> float:
    """Return the worse rate of the two heads that read the user's words, on the three harmless sets together."""
    rates = [float(np.mean(harmless[head] > limits[head])) for head in ("injection", "harm") if head in limits]
    return round(max(rates, default=0.0), 4)


def _either(scored: Sequence[Scored], calibration: Calibration, limits: dict[str, float]) -> float:
    """Return the share of harmless texts that at least one of the two heads for the user's words flags: what switching
    both on costs."""
    heads = [head for head in ("injection", "harm") if head in limits]
    flagged = [_harmless(scored, calibration, head) > limits[head] for head in heads]
    return round(float(np.mean(np.any(flagged, axis=0))), 4) if flagged else 0.0


def _harmless(scored: Sequence[Scored], calibration: Calibration, head: str) -> Numbers:
    if head == "document":
        chosen = [s for s in scored if s.is_document and not s.example.bad and s.example.set.startswith("indirect")]
    else:
        chosen = [s for s in scored if not s.is_document and s.example.set in data.BENIGN]
    return np.array([probability(s, calibration, head) for s in chosen])


def _scores(scored: Sequence[Scored], calibration: Calibration, head: str, name: str, *, bad: bool) -> Numbers:
    chosen = [s for s in scored if s.example.kind == name and s.example.bad == bad]
    return np.array([probability(s, calibration, head) for s in chosen if s.is_document == (head == "document")])


def _row(scores: Numbers, harmless: Numbers, limit: float) -> dict[str, Any]:
    hits = scores > limit
    low, high = bootstrap(hits.astype(np.float64))
    return {
        "rows": len(scores),
        "recall": round(float(hits.mean()), 4),
        "interval": [round(low, 4), round(high, 4)],
        "auc": round(auc(scores, harmless), 4),
    }


def _false_alarms(scored: Sequence[Scored], calibration: Calibration, limits: dict[str, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name in dict.fromkeys(s.example.kind for s in scored if not s.example.bad):
        for head, limit in limits.items():
            scores = _scores(scored, calibration, head, name, bad=False)
            if len(scores):
                found[f"{name} ({head})"] = round(float(np.mean(scores > limit)), 4)
    return found


def bootstrap(values: Numbers, draws: int = 2000, seed: int = 0) -> tuple[float, float]:
    """Return the 95 % interval of the mean, by resampling."""
    rng = np.random.default_rng(seed)
    means = values[rng.integers(0, len(values), (draws, len(values)))].mean(axis=1)
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def auc(bad: Numbers, harmless: Numbers) -> float:
    """Compute how often a bad text stands above a harmless one. Ties count half."""
    ordered = np.sort(harmless)
    below, upto = np.searchsorted(ordered, bad, "left"), np.searchsorted(ordered, bad, "right")
    return float(np.mean((below + upto) / 2) / len(harmless))


def reliability(scored: Sequence[Scored], calibration: Calibration) -> dict[str, list[dict[str, float]]]:
    """Return for each head and each range of scores the mean score, and the share of attacks among its texts, both
    where attacks are as frequent as the head's scores suppose."""
    shares = prevalences(scored, calibration)
    found = {}
    for head, (slope, midpoint, _) in calibration.items():
        bad, harmless = (1 / (1 + np.exp(-slope * (raw - midpoint))) for raw in classes(head, scored))
        found[head] = [_bin(bad, harmless, shares[head], low, high) for low, high in pairwise(RANGES)]
    return found


def _bin(bad: Numbers, harmless: Numbers, share: float, low: float, high: float) -> dict[str, float]:
    parts = [(p[(p >= low) & (p < high)], weight / len(p)) for p, weight in ((bad, share), (harmless, 1 - share))]
    mass = [len(p) * weight for p, weight in parts]
    said = sum(float(p.sum()) * weight for p, weight in parts)
    total = sum(mass) or 1.0
    return {"from": low, "said": round(said / total, 3), "found": round(mass[0] / total, 3)}


def leave_source_out(
    folder: Path, catalogues: Sequence[Path], others: Published = NOTHING_PUBLISHED, limit: int = 0
) -> dict[str, dict[str, Any]]:
    """Return for each `source kind (head)` the share flagged, at the shipped thresholds, by a model that never saw the
    source."""
    sets = fewer(data.load(folder), limit)
    limits = {name: head.midpoint for name, head in load().heads.items()}
    found: dict[str, dict[str, Any]] = {}
    for one in left_out(sets, recipe.gather(sets, catalogues, others)):
        for head in one.heads:
            for kind, bad in sorted({(s.example.kind, s.example.bad) for s in one.scored}):
                mine = [s for s in one.scored if head in s.raw and (s.example.kind, s.example.bad) == (kind, bad)]
                hits = sum(s.raw[head] > limits[head] for s in mine)
                of_all = share(hits, len(mine))
                found[f"{kind} ({head}, {'attacks' if bad else 'harmless'})"] = {
                    "rows": len(mine),
                    "share": round(hits / len(mine), 4),
                    "interval": [round(edge, 4) for edge in ((of_all.low, of_all.high) if of_all else ())],
                }
    return found


def show_left_out(found: dict[str, dict[str, Any]]) -> None:
    for name, row in sorted(found.items(), key=lambda pair: ("harmless" in pair[0], pair[1]["share"])):
        low, high = row["interval"]
        print(f"{name:<58}{row['rows']:>6}{row['share']:>8.1%}{f'{low:.1%} - {high:.1%}':>18}")


def latency(detector: Detector, sets: dict[str, list[data.Example]], most: int = 400) -> dict[str, dict[str, float]]:
    """Measure the milliseconds of processor time for one text, by reading. All harmless and attack sets are mixed."""
    user = [e.text for name in (*data.BENIGN, *data.INJECTION) for e in sets.get(name, ())]
    documents = [e.text for name in data.DOCUMENT for e in sets.get(name, ())]
    readings = (("injection", detector.injection, user), ("harm", detector.harm, user))
    rows = {name: _timed(read, texts[:: max(len(texts) // most, 1)]) for name, read, texts in readings if texts}
    if documents:
        rows["document"] = _timed(detector.document, documents)
    return rows


def _timed(read: Callable[[str], object], texts: Sequence[str]) -> dict[str, float]:
    spent = []
    for text in texts:
        began = time.thread_time()
        read(text)
        spent.append((time.thread_time() - began) * 1e3)
    p50, p99 = np.quantile(spent, [0.5, 0.99])
    return {
        "p50_ms": round(float(p50), 3),
        "p99_ms": round(float(p99), 3),
        "characters": sum(map(len, texts)) // len(texts),
    }


def run(folder: Path, catalogues: Sequence[Path], others: Published, mode: str, limit: int = 0) -> dict[str, Any]:
    classifier = load()
    detector = Detector(classifier)
    sets = data.load(folder)
    cross = mode == "cross" or (mode == "auto" and data.fingerprint(sets) == classifier.about.get("data"))
    sets = fewer(sets, limit)
    if cross:
        folds = min(FOLDS, limit + 1) if limit else FOLDS  # each is a training
        scored = cross_validated(sets, recipe.gather(sets, catalogues, others), folds)
        calibration = calibrated(scored)
    else:
        scored = shipped(sets, detector)
        calibration = {
            name: (head.slope, head.midpoint, head.document_midpoint) for name, head in classifier.heads.items()
        }
    as_shipped = _false_alarms(scored, calibration, dict.fromkeys(classifier.heads, 0.5))
    return {
        "mode": "cross-validated" if cross else "shipped weights",
        **measure(scored, calibration),
        "at_default_threshold": {"false_positives": as_shipped, "recall": _recall_at(scored, calibration, 0.5)},
        "calibration": reliability(scored, calibration),
        "latency": latency(detector, sets),
        "machine": common.machine(),
    }


def fewer(sets: dict[str, list[data.Example]], limit: int) -> dict[str, list[data.Example]]:
    """Return `limit` attacks and `limit` harmless texts of each set, always the same ones; 0 means all.

    What is left out is not trained on either in cross-validation, so that few texts show that the program runs and not
    what the detector finds.
    """
    if not limit:
        return sets
    order = {id(e): random.Random(f"{e.set} {e.id}").random() for examples in sets.values() for e in examples}
    kept = {}
    for name, examples in sets.items():
        mixed = sorted(examples, key=lambda e: order[id(e)])
        kept[name] = [e for bad in (True, False) for e in [e for e in mixed if e.bad is bad][:limit]]
    return kept


def _recall_at(scored: Sequence[Scored], calibration: Calibration, limit: float) -> dict[str, float]:
    found = {name: _scores(scored, calibration, head, name, bad=True) for name, head in HEAD_OF.items()}
    return {name: round(float(np.mean(scores > limit)), 4) for name, scores in found.items() if len(scores)}


def show(result: dict[str, Any]) -> None:
    print(f"{result['mode']}; {result['machine']}\n")
    print(f"{'attack set':<30}{'head':<12}{'rows':>6}{'recall':>9}{'95 % interval':>18}{'AUC':>8}")
    for name, row in result["sets"].items():
        low, high = row["interval"]
        print(
            f"{name:<30}{row['head']:<12}{row['rows']:>6}{row['recall']:>9.1%}"
            f"{f'{low:.1%} - {high:.1%}':>18}{row['auc']:>8.3f}"
        )
    print(f"\nthresholds: {result['threshold']}; false alarms together: {result['false_positive_rate']:.2%}")
    for name, rate in result["false_positives"].items():
        print(f"  {name:<44}{rate:>8.1%}")
    for name, row in result["latency"].items():
        print(f"{name:<12} p50 {row['p50_ms']:.2f} ms, p99 {row['p99_ms']:.2f} ms ({row['characters']} characters)")


def main() -> None:
    options = common.parser(__doc__, "safety", 0, "texts of each set, attacks and harmless ones each")
    options.add_argument("--catalogues", type=Path, nargs="*", default=[], help="as for training.detector.train")
    options.add_argument("--packages", type=Path, help="as for training.detector.train")
    options.add_argument("--mode", choices=("auto", "cross", "shipped"), default="auto")
    options.add_argument("--leave-source-out", action="store_true", help="train without each source, and measure it")
    given = options.parse_args()
    others = fetched(given.packages)
    if given.leave_source_out:
        found = leave_source_out(given.data, given.catalogues, others, given.limit)
        show_left_out(found)
        common.report(given, found)
        return
    result = run(given.data, given.catalogues, others, given.mode, given.limit)
    show(result)
    common.report(given, result)


if __name__ == "__main__":
    main()
