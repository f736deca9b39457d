"""An encoder as judge of sameness: which one it must be, what it is not asked, and that its adapter gives back what was
trained. No download: the encoders are small random ones."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertModel, BertTokenizerFast

from sluicegate.cache import MemoryStore, TieredCache
from sluicegate.cache.semantic import HashedNgrams
from sluicegate.cache.semantic.judged.asked_kinds import ask_apart, asked_kinds
from sluicegate.cache.semantic.judged.encoder_judge import MOST_PIECES, EncoderJudge, package_adapter
from sluicegate.cache.semantic.judged.sameness import Sameness
from sluicegate.cache.semantic.tier import SemanticTier
from sluicegate.plugins import ConfigurationError
from tests.cache.encoders import adapter, encoder
from tests.cache.examples import answer, asked

ONE, OTHER = "Can I wash this coat in a machine?", "Is there a way to wash my new coat?"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, BertModel]:
    return encoder(tmp_path_factory.mktemp("encoders") / "base", 1)


def test_the_adapter_gives_the_scores_that_were_trained(base: tuple[Path, BertModel], tmp_path: Path) -> None:
    """Within what 8-bit integers lose."""
    folder, model = base
    tuned = copy.deepcopy(model)
    with torch.no_grad():
        for weights in tuned.encoder.parameters():
            weights += 0.05 * torch.randn_like(weights)
    tuned.save_pretrained(tmp_path)
    BertTokenizerFast.from_pretrained(folder).save_pretrained(tmp_path)
    unchanged = EncoderJudge(folder, adapter(folder, model, model)).score(ONE, OTHER)
    expected = EncoderJudge(tmp_path, adapter(tmp_path, tuned, tuned)).score(ONE, OTHER)
    found = EncoderJudge(folder, adapter(folder, model, tuned)).score(ONE, OTHER)
    assert abs(found - expected) < 0.05 * abs(unchanged - expected)


def test_the_order_of_two_questions_does_not_matter(base: tuple[Path, BertModel]) -> None:
    judge = EncoderJudge(base[0], adapter(*base, base[1]))
    assert judge.score(ONE, OTHER) == judge.score(OTHER, ONE)


def test_an_encoder_that_the_adapter_was_not_made_for_is_refused(base: tuple[Path, BertModel]) -> None:
    with pytest.raises(ConfigurationError, match="another model than all-MiniLM-L6-v2"):
        EncoderJudge(base[0])


def test_questions_that_are_too_long_for_it_are_two(base: tuple[Path, BertModel]) -> None:
    judge = EncoderJudge(base[0], adapter(*base, base[1], threshold=-1e6))
    long = " ".join(["way"] * (MOST_PIECES + 1))
    assert judge.score(long, ONE) == judge.score(ONE, long) == -np.inf


def test_a_pair_scores_the_same_alone_and_among_longer_ones(base: tuple[Path, BertModel]) -> None:
    judge = EncoderJudge(base[0], adapter(*base, base[1]))
    long = " ".join(["way"] * 30)
    found = judge._scorer.scores(
        [(ONE, OTHER), (long, ONE), (" ".join(["way"] * (MOST_PIECES + 1)), ONE), (OTHER, ONE)]
    )
    assert found == pytest.approx([judge.score(ONE, OTHER), judge.score(long, ONE), -np.inf, judge.score(OTHER, ONE)])


@pytest.mark.parametrize("guard", ["words", "judged"])
async def test_half_a_surrogate_pair_is_a_miss_not_an_error(guard: str, base: tuple[Path, BertModel]) -> None:
    """Neither a digest nor a tokenizer reads one."""
    judge = EncoderJudge(base[0], adapter(*base, base[1], threshold=-1e6))
    sameness = Sameness(judge, budget_s=30.0) if guard == "judged" else None
    cache = TieredCache(MemoryStore(10**8, 3600), SemanticTier(HashedNgrams(), threshold=0.01, sameness=sameness))
    first = asked(ONE, semantic=True)
    await cache.remember(first, answer("kept"), await cache.recall(first))
    assert (await cache.recall(asked(f"\ud800 {ONE} I have a machine.", semantic=True))).found is None
    stats = cache.stats()
    assert (stats["embedder_errors_total"], stats["semantic_not_comparable_total"]) == (0, 1)
    await cache.close()


def test_the_package_holds_an_adapter_of_four_megabytes_at_most() -> None:
    held = package_adapter()
    assert sum(array.nbytes for array in held.values()) < 4_000_000
    assert len(held["base"]) == 32
    assert float(held["threshold"]) > 0


# --- which pairs it decides -----------------------------------------------------------------------------------------


async def hit(base: tuple[Path, BertModel], threshold: float, kept: str, then: str) -> bool:
    judge = EncoderJudge(base[0], adapter(*base, base[1], threshold))
    tier = SemanticTier(HashedNgrams(), threshold=0.01, sameness=Sameness(judge, budget_s=30.0))
    cache = TieredCache(MemoryStore(10**8, 3600), tier)
    first, second = asked(kept, semantic=True), asked(then, semantic=True)
    await cache.remember(first, answer(f"of {kept}"), await cache.recall(first))
    found = (await cache.recall(second)).found is not None
    await cache.close()
    return found


async def test_a_score_from_its_threshold_on_serves_and_a_lower_one_does_not(base: tuple[Path, BertModel]) -> None:
    assert await hit(base, -1e6, ONE, OTHER)
    assert not await hit(base, 1e6, ONE, OTHER)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What are the three laws of robotics?", "Who wrote the three laws of robotics?"),
        ("When did Brazil become independent?", "From whom did Brazil become independent?"),
        ("Why was my card declined at the shop?", "When was my card declined at the shop?"),
        ("How do I clean an oven?", "How long does cleaning an oven take me?"),
        ("May I park here at night?", "Why may nobody park here at night? What's the reason?"),
        ("How much is it to post a parcel?", "Do I need to post the parcel?"),
    ],
)
async def test_questions_for_different_kinds_of_things_are_two_whatever_it_says(
    base: tuple[Path, BertModel], one: str, other: str
) -> None:
    assert not await hit(base, -1e6, one, other)
    assert not await hit(base, -1e6, other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Where can I buy a stamp?", "Which shop has stamps?"),
        ("How do I get rid of moss?", "What is the way to remove moss?"),
        ("Who can repair my bike?", "Where is a bike repaired?"),
        ("Can I freeze rice?", "rice freezer"),
        ("How long is a visa valid?", "When does a visa end?"),
    ],
)
def test_kinds_that_people_put_for_one_another_are_not_told_apart(one: str, other: str) -> None:
    assert not ask_apart(asked_kinds(one), asked_kinds(other))
