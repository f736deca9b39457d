"""The schemas of JSON Schema itself: known without being fetched, as the JSON Schema library carries them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jsonschema_rs

DIALECTS = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    7: "http://json-schema.org/draft-07/schema#",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: "https://json-schema.org/draft/2020-12/schema",
}
_DRAFTS = {
    4: jsonschema_rs.Draft4,
    6: jsonschema_rs.Draft6,
    7: jsonschema_rs.Draft7,
    2019: jsonschema_rs.Draft201909,
    2020: jsonschema_rs.Draft202012,
}
_PARTS = {
    2019: ("core", "applicator", "validation", "meta-data", "format", "content"),
    2020: ("core", "applicator", "unevaluated", "validation", "meta-data", "format-annotation", "content"),
}
_ASKING = "http://schema.invalid/asking"


@lru_cache(maxsize=1)
def meta_schemas() -> dict[str, Any]:
    """Return the meta-schemas of drafts 4 to 2020-12 and their parts, by URI without a fragment. Must not be
    changed."""
    found = {}
    for draft, dialect in DIALECTS.items():
        registry = jsonschema_rs.Registry([(_ASKING, {"$ref": dialect})], draft=_DRAFTS[draft])
        resolver, whole = registry.resolver(_ASKING), dialect.rstrip("#")
        for uri in (whole, *(whole.removesuffix("schema") + f"meta/{part}" for part in _PARTS.get(draft, ()))):
            found[uri] = resolver.lookup(uri).contents
    return found
