"""A start for which everything is kept imports nothing that it does not need: that is most of its time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from sluicegate.engine.model.kept_load import loads_folder
from sluicegate.engine.model.loading import load_model

ROOT = Path(__file__).parents[2]
HEAVY = ("transformers", "torch._dynamo", "torch._inductor", "torch.distributed.tensor", "sympy", "triton", "httpx")
"""Each took between a twentieth and a half of a start."""
SERVED = f"""
import asyncio, json, sys
from sluicegate.gateway.app import create_app
from sluicegate.gateway.config import load
from sluicegate.gateway.lifecycle import close, start
from sluicegate.gateway.compose import compose

async def main():
    runtime = compose(load(None, {{}}, {{}}), {{}})
    create_app(runtime.settings, runtime=runtime)
    await start(runtime)
    print(runtime.progress.state, *(name for name in {HEAVY!r} if name in sys.modules))
    model = runtime.served_models["bundled"]
    chat = model.tokenizer.apply_chat_template([{{"role": "user", "content": "Hi"}}], tokenize=False)
    print(len(model.tokenizer.encode(chat)), *(name for name in {HEAVY!r} if name in sys.modules))
    await close(runtime)

asyncio.run(main())
"""


def test_a_start_with_everything_kept_imports_no_model_code() -> None:
    load_model("bundled")  # by transformers, or as it was kept: it is kept from here on
    assert list(loads_folder().path.glob("*.load"))
    done = subprocess.run([sys.executable, "-c", SERVED], cwd=ROOT, capture_output=True, text=True, check=True)
    ready, answered = done.stdout.splitlines()
    assert ready == "ready"
    assert answered.split()[0].isdigit()
    assert answered.split()[1:] == []
