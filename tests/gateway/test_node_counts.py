"""How many nodes a day needs: more for more, fewer for what is read, kept or accepted, and prices that add up."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.commands.cli import main
from sluicegate.gateway.commands.size.capacity import DailyDemand, NodeFigures, nodes_of, read_figures
from sluicegate.plugins import ConfigurationError

NODE = NodeFigures(prefill_tokens_per_s=10_000, step_s=0.01, step_each_s=0.001, places=11)
DEMAND = DailyDemand(1e6, 600, 100)


def test_a_count_by_hand() -> None:
    """600 tokens take 60 ms to read; a step of 20 ms draws 11 tokens, so that 100 take 182 ms of a node."""
    found = nodes_of(DEMAND, NODE, utilisation=0.5, price_per_hour=3.6)
    assert found.node_s == pytest.approx(0.06 + 100 * 0.02 / 11)
    assert found.nodes == 12  # 23.1 requests a second, times 0.242 s, by a half
    assert found.input_price == pytest.approx(1e6 / 10_000 * 0.001 * 2 / 0.5)
    assert found.output_price == pytest.approx(1e6 * 0.02 / 11 * 0.001 * 2 / 0.5)


def test_prices_of_tokens_pay_for_the_nodes() -> None:
    """A day's tokens at these prices are what its nodes cost, but for the last one, which is rounded up."""
    dice = random.Random(4)
    for _ in range(200):
        demand = DailyDemand(1e9, dice.uniform(1, 5000), dice.uniform(1, 900), dice.random() * 0.9)
        found = nodes_of(demand, NODE, utilisation=dice.uniform(0.1, 1), price_per_hour=2.0)
        earned = 1e9 * (demand.prompt * found.input_price + demand.answer * found.output_price) / 1e6
        assert earned == pytest.approx(found.nodes * 24 * 2.0, rel=0.01)


def test_everything_counts_in_its_direction() -> None:
    def nodes(demand: DailyDemand = DEMAND, node: NodeFigures = NODE, utilisation: float = 0.5) -> int:
        return nodes_of(demand, node, utilisation=utilisation).nodes

    fewer = [
        nodes(replace(DEMAND, read=0.5)),
        nodes(replace(DEMAND, kept=0.3)),
        nodes(replace(DEMAND, peak=1.2)),
        nodes(node=replace(NODE, tokens_per_step=1.6)),
        nodes(utilisation=0.8),
    ]
    assert all(count < nodes() for count in fewer)
    assert nodes(replace(DEMAND, requests=1e8)) == pytest.approx(100 * nodes(), rel=0.1)
    assert nodes(replace(DEMAND, requests=1)) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--utilisation", "0"], "utilisation must be above 0"),
        (["--utilisation", "1.5"], "at most 1"),
        (["--kept", "1"], "from 0 to below 1"),
        (["--prompt", "0"], "above 0"),
        (["--peak", "0.5"], "at least 1"),
        (["--acceptance", "-1"], "at least 0"),
        (["--figures", "none.json"], "cannot be read"),
    ],
)
def test_what_makes_no_sense_is_told(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", "bundled", "--requests-per-day", "1e6", *arguments]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[]", "{", '{"places": 8}', '{"figures": {"places": "x"}}', "1"])
def test_figures_that_are_none_are_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "figures.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match="figures"):
        read_figures(path)


def test_the_command_counts_devices_and_measured_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> dict[str, Any]:
        assert main(["size", "bundled", "--requests-per-day", "1e8", "--json", *arguments]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
        return found

    best = run("--device", "H100", "--price", "H100=2.5")["nodes"]["H100"]
    assert best["input_price"] > 0
    assert best["output_price"] > best["input_price"]
    figures = tmp_path / "figures.json"
    figures.write_text(
        json.dumps({"figures": {"prefill_tokens_per_s": 9000, "step_s": 0.01, "step_each_s": 0.001, "places": 8}})
    )
    measured = run("--figures", str(figures))["nodes"]["measured"]
    assert measured["nodes"] > best["nodes"]
    assert run("--figures", str(figures), "--acceptance", "1")["nodes"]["measured"]["nodes"] < measured["nodes"]
    assert main(["size", "bundled", "--requests-per-day", "1e8", "--device", "L4"]) == 0
    assert "seconds each" in capsys.readouterr().out
