"""`unevaluatedProperties` and `unevaluatedItems`: what no other keyword of the same value evaluates."""

from __future__ import annotations

from dataclasses import replace

from sluicegate.grammar.schema.containers import Array, Conjunction, Items, Members, Object, SchemaRef
from sluicegate.grammar.schema.document import Subschema
from sluicegate.grammar.schema.value_set import ValueSet


def without_unevaluated(node: Subschema, value_set: ValueSet) -> ValueSet:
    """Narrow `value_set`, what else `node` says, by its `unevaluatedProperties` and `unevaluatedItems`."""
    schema = node.value
    if "unevaluatedProperties" in schema:
        rest = (SchemaRef(node.child("unevaluatedProperties")),)
        objects = (_objects_without(spec, rest, node) for spec in value_set.objects)
        value_set = replace(value_set, objects=tuple(o for o in objects if o is not None))
    if "unevaluatedItems" in schema:
        rest = (SchemaRef(node.child("unevaluatedItems")),)
        arrays = (_arrays_without(spec, rest, node) for spec in value_set.arrays)
        value_set = replace(value_set, arrays=tuple(a for a in arrays if a is not None))
    return value_set


def _objects_without(spec: Object, rest: Conjunction, node: Subschema) -> Object | None:
    if any(isinstance(check, SchemaRef) and check.positive for check in spec.checks):
        return replace(spec, checks=spec.checks | {SchemaRef(node)})
    heard = [part for part in spec.parts if not part.silent]
    if any(part.rest is not None for part in heard):
        return spec
    named = dict.fromkeys(name for part in heard for name, _ in part.named)
    patterns = dict.fromkeys(text for part in heard for text, _ in part.patterns)
    members = Members(tuple((n, ()) for n in named), tuple((p, ()) for p in patterns), rest)
    return spec.meet(Object(parts=(members,)))


def _arrays_without(spec: Array, rest: Conjunction, node: Subschema) -> Array | None:
    counted = tuple([wanted.term for wanted in spec.contains if not wanted.silent])
    told = node.draft >= 2020 and all(isinstance(term, SchemaRef) and term.positive for term in counted)
    if (counted and not told) or any(isinstance(check, SchemaRef) and check.positive for check in spec.checks):
        return replace(spec, checks=spec.checks | {SchemaRef(node)})
    heard = [part for part in spec.parts if not part.silent]
    if any(part.rest is not None for part in heard):
        return spec
    size = max((len(part.prefix) for part in heard), default=0)
    if counted:  # what `contains` counts is evaluated
        parts = [fact.node for fact in (*counted, *rest) if isinstance(fact, SchemaRef)]
        rest = (SchemaRef(node.document.either(tuple(dict.fromkeys(parts)))),)
    return spec.meet(Array(parts=(Items(((),) * size, rest),)))
