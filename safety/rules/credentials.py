"""Compile the patterns of keys, tokens and passwords, by the formats that their issuers use.

Not covered: passwords and keys without a known prefix (entropy alone would match hashes and identifiers), truncated
tokens, and a private key without its header.
"""

from __future__ import annotations

from collections.abc import Iterable

from sluicegate.plugins.errors import ConfigurationError
from sluicegate.safety.matching import symbols as text
from sluicegate.safety.matching.automaton import Automaton
from sluicegate.safety.matching.nfa import Nfa, Rule

SHORT = 8
"""Symbols of an unfinished secret or number that may be released where a text is cut short."""


def mostly_revealed(there: int, missing: int) -> bool:
    """Return whether at least two thirds of the shortest match are present: the rest could be guessed."""
    return there >= SHORT and 2 * missing <= there


def nearly_revealed(there: int, missing: int) -> bool:
    """Return whether at most two symbols are missing: check digits determine them."""
    return there >= SHORT and missing <= 2


_T = "[A-Za-z0-9]"
_U = "[A-Za-z0-9_-]"
_PEM = "-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
_BREAK = "(?:\\s|\\\\n|\\\\r)"  # a line break, also as a JSON or shell string spells it
# Headers (`Proc-Type: ...`), then long lines, then an optional short one and an optional footer.
_PEM_BODY = f"(?:{_BREAK}{{1,4}}[A-Za-z-]{{1,24}}: [^\\n\\\\]{{1,80}}){{0,6}}(?:{_BREAK}{{1,6}}[A-Za-z0-9+/=]{{16,}})+"
_PEM_FOOTER = f"(?:{_BREAK}{{1,4}}[A-Za-z0-9+/=]{{1,76}})?{_BREAK}{{0,4}}-----END [A-Z0-9 ]{{3,40}}-----"
_PEM_END = f"(?:{_PEM_FOOTER}|(?:[\\n\\r]|\\\\n|\\\\r)+[A-Za-z0-9+/=]{{1,76}})?"
_HOST = "[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?"

PATTERNS: tuple[tuple[str, str], ...] = (
    ("private_key", _PEM + _PEM_BODY + _PEM_END),
    ("private_key", "AGE-SECRET-KEY-1[02-9AC-HJ-NP-Z]{40,}"),
    ("aws_access_key_id", "(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16,}"),
    ("github_token", f"gh[pousr]_{_T}{{36,}}"),
    ("github_token", "github_pat_[A-Za-z0-9_]{60,}"),
    ("gitlab_pat", f"gl(?:pat|rt|dt|cbt|ptt|ft|soat|agent)-[A-Za-z0-9_.-]{{19,}}{_U}"),
    ("google_api_key", f"AIza{_U}{{35,}}"),
    ("google_api_key", f"AQ\\.A{_U}{{38,}}"),
    ("google_oauth", f"GOCSPX-{_U}{{28,}}"),
    ("google_oauth", "ya29\\.[A-Za-z0-9_-]{30,}"),
    ("jwt", f"eyJ{_U}{{8,}}\\.eyJ{_U}{{8,}}\\.{_U}{{8,}}"),
    ("jwt", f"eyJ{_U}{{8,}}\\.{_U}*\\.{_U}{{8,}}\\.{_U}{{8,}}\\.{_U}{{8,}}"),
    ("npm_token", f"npm_{_T}{{36,}}"),
    ("pypi_token", f"pypi-AgE{_U}{{40,}}"),
    ("slack_token", f"xox[abceoprs]-{_T}{{8,}}(?:-{_T}+)+"),
    ("slack_token", f"xapp-\\d-{_T}{{8,}}(?:-{_T}+)+"),
    ("slack_webhook", "hooks\\.slack\\.com/(?:services|workflows)/[A-Z0-9]{6,}/[A-Z0-9]{6,}/[A-Za-z0-9/]{16,}"),
    ("stripe_key", f"[srp]k_(?:test|live)_{_T}{{16,}}"),
    ("stripe_key", f"whsec_{_T}{{24,}}"),
    ("anthropic_key", f"sk-ant-{_U}{{32,}}"),
    ("cerebras_key", f"csk-{_T}{{40,}}"),
    ("openai_key", "sk-(?:proj-|svcacct-|admin-|None-)?[A-Za-z0-9_-]{31,}[A-Za-z0-9]"),
    ("huggingface_token", f"hf_{_T}{{34,}}"),
    ("groq_key", f"gsk_{_T}{{48,}}"),
    ("xai_key", "xai-[A-Za-z0-9_]{60,}"),
    ("perplexity_key", f"pplx-{_T}{{40,}}"),
    ("together_key", f"tgp_v1_{_U}{{40,}}"),
    ("fireworks_key", f"fw_{_T}{{22,}}"),
    ("nvidia_key", f"nvapi-{_U}{{60,}}"),
    ("replicate_token", f"r8_{_U}{{36,}}{_T}"),
    ("langsmith_key", "lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
    ("pinecone_key", "pcsk_[A-Za-z0-9_]{40,}"),
    ("tavily_key", f"tvly-(?:dev-|prod-)?{_T}{{28,}}"),
    ("sendgrid_key", f"SG\\.{_U}{{22}}\\.{_U}{{43,}}"),
    ("twilio_key", "SK[0-9a-f]{32}"),
    ("mailgun_key", "key-[0-9a-f]{32}"),
    ("digitalocean_token", "do[opr]_v1_[0-9a-f]{64}"),
    ("shopify_token", "shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    ("square_token", f"sq0(?:atp|csp)-{_U}{{22,}}"),
    ("telegram_bot_token", f"\\b\\d{{8,10}}:AA{_U}{{33}}"),
    ("discord_token", f"\\b[MNO]{_U}{{23,27}}\\.{_U}{{6}}\\.{_U}{{27,}}"),
    ("databricks_token", "dapi[0-9a-f]{32}"),
    ("vault_token", f"hv[sbr]\\.{_U}{{24,}}"),
    ("grafana_token", f"gl(?:sa|c)_{_T}{{32,}}(?:_[0-9a-f]{{8}})?"),
    ("docker_token", f"dckr_(?:pat|oat)_{_U}{{27,}}"),
    ("atlassian_token", f"ATATT3{_U}{{40,}}"),
    ("linear_key", f"lin_api_{_T}{{32,}}"),
    ("notion_token", f"(?:ntn|secret)_{_T}{{40,}}"),
    ("newrelic_key", "NRAK-[A-Z0-9]{27,}"),
    ("postman_key", "PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    ("supabase_token", "sbp_[0-9a-f]{40}"),
    ("planetscale_token", "pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{31,}[A-Za-z0-9_=-]"),
    ("rubygems_key", "rubygems_[0-9a-f]{48}"),
    ("figma_token", f"figd_{_U}{{38,}}"),
    ("tailscale_key", f"tskey-(?:auth|api|client|scim|webhook)-{_T}{{8,}}-{_T}{{16,}}"),
    ("sentry_token", "sntry[su]_[A-Za-z0-9+/=_]{60,}"),
    ("azure_storage_key", "AccountKey=[A-Za-z0-9+/]{86}=="),
)  # fmt: skip

# Follows a scheme of up to twenty characters, which belongs to the match.
_URL = f"://[^\\s/:@?#]{{0,64}}:[^\\s/@?#]{{1,128}}@(?:{_HOST}|\\[[0-9a-f:]{{2,39}}\\])(?::\\d{{1,5}})?"

CUED: tuple[tuple[str, str, str], ...] = (
    ("aws_secret_access_key", "[A-Za-z0-9/+]{40}", "(?i)aws.?secret.?(?:access.?)?key[\"' ]{0,3}[=:][\"' ]{0,3}"),
)

TYPES = tuple(dict.fromkeys(["private_key", "url_basic_auth", *(label for label, *_ in (*PATTERNS, *CUED))]))


_REVEALS = {"url_basic_auth": nearly_revealed}  # most texts that begin like one are plain URLs


def compile_secrets(types: Iterable[str] = TYPES) -> Automaton:
    """Compile the shapes of secrets. Raises `ConfigurationError` for an unknown type."""
    wanted = set(types)
    unknown = wanted.difference(TYPES)
    if unknown:
        raise ConfigurationError(f"there is no kind of secret {min(unknown)!r}; known: {', '.join(TYPES)}")
    nfa = Nfa()
    rules = {
        label: nfa.add_rule(Rule(label, reveals=_REVEALS.get(label, mostly_revealed)))
        for label in TYPES
        if label in wanted
    }
    for label, pattern in PATTERNS:
        if label in wanted:
            nfa.add_pattern(rules[label], pattern)
    if "url_basic_auth" in wanted:
        nothing = "[^\\s\\S]"
        nfa.add_address(rules["url_basic_auth"], plain="[A-Za-z0-9+.-]", dotted=nothing, rest=_URL, limits=(20, 20))
    for label, pattern, cue in CUED:
        if label in wanted:
            nfa.add_pattern(rules[label], pattern, cue=cue)
    return Automaton(nfa, text.coded)
