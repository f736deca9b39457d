"""Trains the three heads and writes the weights that the rail ships with.

    python -m training.detector.train --data FOLDER --catalogues FOLDER --packages FOLDER

The folder of `--data` holds the evaluation sets as gzipped JSON lines (see `data`). The packages listed in
`packages.txt` and `attack_packages.txt` are fetched into theirs, some 350 MB, unless they lie there. The same data give
the same weights.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sluicegate.safety.detection.classifier import HEADS, Classifier
from sluicegate.safety.detection.settings import WEIGHTS
from training.detector import data, recipe
from training.detector.evaluate import Scored, Sets, calibrated, cross_validated, prevalences, with_calibration
from training.detector.fit import sparsity
from training.detector.material import Material
from training.detector.published import fetched


def train(folder: Path, folders: list[Path], others: Path | None) -> Classifier:
    """Calibrate on cross-validated scores, then fit each head on everything."""
    sets = data.load(folder)
    material = recipe.gather(sets, folders, fetched(others))
    return shipped(sets, material, cross_validated(sets, material), len(folders))


def shipped(sets: Sets, material: Material, scored: list[Scored], catalogues: int) -> Classifier:
    """Make the classifier: thresholds and slopes from `scored`, whose texts had no hand in their scores; weights from
    everything."""
    calibration = calibrated(scored)
    heads = with_calibration({head: material.train(head) for head in HEADS}, calibration)
    about = {
        "data": data.fingerprint(sets),
        "sets": {name: len(examples) for name, examples in sets.items() if name not in data.NOT_TRAINED_ON},
        "rows": {**{head: len(items) for head, items in material.items.items()}, "concepts": len(material.concepts)},
        "catalogues": catalogues,
        "prevalence": {head: round(share, 4) for head, share in prevalences(scored, calibration).items()},
    }
    return Classifier(heads, about)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the evaluation sets")
    parser.add_argument(
        "--catalogues", type=Path, nargs="*", default=[], help="folders of packages with translated messages"
    )
    parser.add_argument("--packages", type=Path, help="folder of the packages of other authors; may be empty")
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="where to write the weights")
    options = parser.parse_args()
    classifier = train(options.data, options.catalogues, options.packages)
    classifier.save(options.out)
    share = sparsity(classifier.heads.values())
    print(f"{options.out}: {options.out.stat().st_size / 1e6:.2f} MB, {share:.0%} of the weights kept")


if __name__ == "__main__":
    main()
