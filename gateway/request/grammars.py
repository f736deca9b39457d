"""Grammars of a request: of its constraint, and of the tools that another server's model may call."""

from __future__ import annotations

import contextlib
from functools import partial

from sluicegate.gateway.rails.stage_calls import answered, expect, failed_stage
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.upstream.model import judged
from sluicegate.plugins import (
    CompiledGrammar,
    Constraint,
    FairConstrainer,
    GrammarError,
    SluicegateError,
)


async def compiled(exchange: Exchange, constraint: Constraint) -> CompiledGrammar:
    """Compile a constraint of the request, counted against its tenant where the stage shares out its threads. Raises
    `GrammarError`, and what the stage raises."""
    _, constrainer = exchange.stages.constrain
    if isinstance(constrainer, FairConstrainer):
        work = partial(constrainer.compile_for, exchange.caller.tenant, constraint, exchange.served)
    else:
        work = partial(constrainer.compile, constraint, exchange.served)
    return await answered(constrainer, work, "compile()")


async def grammars_of_tools(exchange: Exchange) -> dict[str, CompiledGrammar]:
    """Return grammars that judge tool arguments while they stream; a schema that is not enforced here judges them at
    their end. A custom tool with a form gets the grammar of its text. Raises `GrammarError` for such a form."""
    found: dict[str, CompiledGrammar] = {}
    for tool in exchange.request.callable_tools:
        if tool.form is not None:
            try:
                found[tool.name] = await _tool_grammar(exchange, tool.form)
            except GrammarError as error:
                place = f"tools[{exchange.request.tools.index(tool)}].form.value"
                raise type(error)(error.reason, pointer=error.pointer, param=place) from error
    for tool in exchange.request.callable_tools if exchange.request.stream else ():
        constraint = judged(Constraint("json_schema", tool.parameters)) if tool.form is None else None
        if constraint is not None:
            with contextlib.suppress(GrammarError):
                found[tool.name] = await _tool_grammar(exchange, constraint)
    return found


async def _tool_grammar(exchange: Exchange, constraint: Constraint) -> CompiledGrammar:
    try:
        grammar = await compiled(exchange, constraint)
        expect(grammar, CompiledGrammar, "compile()")
    except SluicegateError:
        raise
    except Exception as error:
        raise failed_stage("constrain", exchange.stages.constrain[0], error) from error
    return grammar
