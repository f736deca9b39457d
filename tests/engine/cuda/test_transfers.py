"""Copies between host and device, and waits of the host, are counted in whole steps, so that they do not grow unseen.

Where Triton is, the steps are those of a CUDA device, kernels interpreted; elsewhere attention is gathered and draws
are torch's, which take more copies to the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor

from benchmarks.pretended_device import CUDA, PretendedTensor, pretended_device
from benchmarks.transfers import STEPS, CountedEngine, counted_engine, table

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a device that is there cannot be pretended")
HAS_TRITON = find_spec("triton") is not None
MOST = {"penalties": 3, "grammar": 3, "mixed": 4}
"""Copies to the device of a step, from pinned memory; 2 where nothing is said. Today's numbers: whoever needs fewer
lowers them."""


@pytest.fixture(scope="module")
def engine() -> Iterator[CountedEngine]:
    with torch.inference_mode(), counted_engine("auto" if HAS_TRITON else "reference") as made:
        yield made


@pytest.mark.parametrize("name", [*STEPS, "grammar", "mixed"])
def test_a_step_waits_once_and_more_requests_are_no_more_copies(name: str, engine: CountedEngine) -> None:
    """One copy to the host; none to the device from memory that the host would have to wait for."""
    found = {f"{name}, {batch} requests": engine.count(name, batch) for batch in (1, 4)}
    few, many = found.values()
    for step in (few, many):
        assert (step.of("to host"), step.of("wait")) == (1, 0), step.places
        assert not [place for kind, place in step.places if kind == "pageable" and ".paged." not in place], step.places
    assert few.of("to device") == many.of("to device"), many.places
    if HAS_TRITON:
        assert many.of("to device") <= MOST.get(name, 2), table(found)


HOST, DEVICE = torch.arange(6.0), torch.arange(6.0).as_subclass(PretendedTensor)
CROSSINGS: list[tuple[str, Callable[[], object]]] = [
    ("to host", lambda: DEVICE.tolist()),
    ("to host", lambda: DEVICE.sum().item()),
    ("to host", lambda: DEVICE.cpu()),
    ("to host", lambda: DEVICE.to("cpu")),
    ("to host", lambda: DEVICE.to(HOST)),
    ("to host", lambda: float(DEVICE[1])),
    ("to host", lambda: bool((DEVICE > 2).any())),
    ("to host", lambda: torch.empty(6).copy_(DEVICE)),
    ("to host", lambda: torch.equal(DEVICE, DEVICE)),
    ("wait", lambda: DEVICE.nonzero()),
    ("wait", lambda: torch.unique(DEVICE)),
    ("wait", lambda: DEVICE[DEVICE > 2]),
    ("pageable", lambda: torch.tensor([1, 2], device="cuda")),
    ("pageable", lambda: HOST.to("cuda", non_blocking=True)),
    ("pageable", lambda: HOST.pin_memory().to("cuda")),
    ("pageable", lambda: DEVICE[[0, 1]]),
    ("pageable", lambda: DEVICE[torch.tensor([0, 1])]),
    ("to device", lambda: HOST.pin_memory().to("cuda", non_blocking=True)),
    ("to device", lambda: DEVICE.clone().copy_(HOST.pin_memory()[:6], non_blocking=True)),
    ("", lambda: torch.zeros(3, device="cuda") + DEVICE[:3].double().long()),
    ("", lambda: torch.where(DEVICE > 2, DEVICE, 0).max(-1)),
]


@pytest.mark.parametrize("at", range(len(CROSSINGS)))
def test_every_crossing_is_seen(at: int) -> None:
    kind, work = CROSSINGS[at]
    with torch.inference_mode(), pretended_device() as found:
        work()
    assert {name: count for (name, _), count in found.items()} == ({kind: 1} if kind else {})


MIXTURES: list[Callable[[], object]] = [
    lambda: DEVICE + HOST,
    lambda: torch.cat([DEVICE, HOST]),
    lambda: DEVICE.index_select(0, torch.tensor([1])),
    lambda: torch.nn.functional.linear(HOST[None], DEVICE[None]),
    lambda: DEVICE.numpy(),
]


@pytest.mark.parametrize("at", range(len(MIXTURES)))
def test_what_a_device_refuses_is_refused(at: int) -> None:
    with torch.inference_mode(), pretended_device(), pytest.raises((RuntimeError, TypeError), match="cuda:0"):
        MIXTURES[at]()


def test_what_is_made_there_stays_there_and_holds_what_was_copied() -> None:
    with torch.inference_mode(), pretended_device():
        made: list[Tensor] = [HOST.to("cuda"), DEVICE.view(2, 3)[1], DEVICE.topk(2)[1], torch.ones(2, 2, device=CUDA).T]
        assert {one.device for one in made} == {CUDA}
        copied = HOST.to("cuda")
        copied += 1
        assert copied.tolist() == (HOST + 1).tolist()
    assert HOST.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
