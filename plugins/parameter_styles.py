"""Formats in which models write tool-call arguments other than as one JSON object: delimiters of each value.

Data only, shared by the grammar that generates them and the judge that parses them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ParameterStyle:
    """`opens`: what stands before a value, with `{name}` and, where it tells kinds of values apart, `{kind}`, in all
    ways that models write it; `closes`: what stands behind it.

    `text`: the kind of a string, which is written as it is; `other`: the kinds of values that are written as JSON, by
    their type in JSON Schema, "" for all others.
    """

    opens: tuple[str, ...]
    closes: str
    text: str = ""
    other: tuple[tuple[str, str], ...] = (("", ""),)

    def begins(self, name: str, kind: str) -> tuple[str, ...]:
        return tuple(opens.replace("{name}", name).replace("{kind}", kind) for opens in self.opens)

    def around(self, kind: str) -> tuple[tuple[str, str], ...]:
        """Return what stands before and behind a name, in all ways in which an argument begins."""
        cut = (opens.replace("{kind}", kind).split("{name}", 1) for opens in self.opens)
        return tuple((before, after) for before, after in cut)

    @property
    def kinds(self) -> tuple[str, ...]:
        return (self.text, *dict(self.other).values())


PARAMETER_STYLES = {
    "qwen_xml": ParameterStyle(("<parameter={name}>",), "</parameter>"),
    "minimax_xml": ParameterStyle(('<parameter name="{name}">',), "</parameter>"),
    "deepseek_xml": ParameterStyle(
        ('<｜DSML｜parameter name="{name}" string="{kind}">',),
        "</｜DSML｜parameter>",
        "true",
        (("", "false"),),
    ),
    "deepseek_v4_1_xml": ParameterStyle(
        ('<｜DSML｜ parameter name="{name}" string="{kind}">',),
        "</｜DSML｜ parameter>",
        "true",
        (("", "false"),),
    ),
    "glm_xml": ParameterStyle(
        ("<arg_key>{name}</arg_key>\n<arg_value>", "<arg_key>{name}</arg_key><arg_value>"), "</arg_value>"
    ),
    "cohere_xml": ParameterStyle(
        ('<cofl:value name="{name}" type="{kind}">',), "</cofl:value>", "raw", (("", "json"),)
    ),
    "kimi_k3_xml": ParameterStyle(
        ('<|open|>argument key="{name}" type="{kind}"<|sep|>',),
        "<|close|>argument<|sep|>",
        "string",
        (
            ("integer", "number"),
            ("number", "number"),
            ("boolean", "boolean"),
            ("null", "null"),
            ("array", "array"),
            ("object", "object"),
        ),
    ),
}
BETWEEN = 32
"""Most blanks before, between and behind arguments, and one line break at each end of a value."""
NAME_CHARS, NAME_LENGTH = '[^<>"&\\r\\n]', 100
"""Characters of a name that the schema does not list, as a regular expression, and most of them."""
