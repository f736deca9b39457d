"""Personal data and credentials: what is found, what passes, and that cutting the text changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.plugins import ConfigurationError
from sluicegate.safety import MatchPolicy, MatchRail, compile_pii, compile_secrets, find_all
from tests.safety.driving import by_character, cuts, cuttings, run, window

PII, SECRETS = compile_pii(), compile_secrets()

# Published examples and test numbers; nobody's.
PERSONAL = [
    ("email", "jane.o'roe+tag@mail.example.co.uk"),
    ("email", "JANE@EXAMPLE.ORG"),
    ("email", "jörg@bücher.example"),
    ("email", "x" * 90 + "@example.com"),
    ("email", "jane%40example.com"),
    ("email", "jane&#64;example.com"),
    ("phone", "+1 415-555-0143"),
    ("phone", "+46 (0)8 928 571 38"),
    ("phone", "0044 20 7946 0730"),
    ("phone", "(202) 555-0154"),
    ("phone", "1-800-555-0126"),
    ("phone", "0490 75 40 81"),
    ("credit_card", "4111 1111 1111 1111"),
    ("credit_card", "3782-822463-10005"),
    ("credit_card", "30569309025904"),
    ("credit_card", "4111\n1111\n1111\n1111"),
    ("iban", "GB82 WEST 1234 5698 7654 32"),
    ("iban", "de89370400440532013000"),
    ("us_ssn", "123-45-6789"),
    ("us_itin", "912-70-1234"),
    ("ip_address", "203.0.113.7"),
    ("ip_address", "2001:db8::8a2e:370:7334"),
    ("mac_address", "00:1A:2b:3c:4D:5e"),
    ("mac_address", "001a.2b3c.4d5e"),
    ("coordinates", "52.520008, 13.404954"),
    ("coordinates", "55\u00b040\u203234\u2033N 12\u00b034\u203206\u2033E"),
    ("coordinates", "40\u00b026'46.5\"N, 79\u00b0 58' 56\"W"),
    ("coordinates", "60.2754583\u00b0N 30.5460167\u00b0E"),
    ("crypto_address", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"),
    ("crypto_address", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"),
    ("crypto_address", "0x52908400098527886E0F7030069857D2E4169EE7"),
    ("gb_nino", "AB 12 34 56 C"),
    ("es_dni", "12345678Z"),
    ("es_dni", "X1234567L"),
    ("fr_nir", "2 55 08 14 168 025 38"),
    ("it_fiscal_code", "RSSMRA85T10A562S"),
    ("be_national_number", "85.07.30-033.28"),
    ("ch_ahv", "756.9217.0769.85"),
    ("se_personal_number", "811218-9876"),
    ("fi_personal_code", "131052-308T"),
    ("pl_pesel", "44051401359"),
    ("tr_identity_number", "10000000146"),
    ("br_cpf", "529.982.247-25"),
    ("in_pan", "ABCPE1234F"),
    ("cn_resident_id", "11010519491231002X"),
    ("sg_nric", "S1234567D"),
]

CUED = [
    ("phone", "call me at ", "467 3395"),
    ("phone", "Phone: ", "(99) 645-791"),
    ("credit_card", "my card number is ", "503802053770"),
    ("us_ssn", "SSN ", "123456789"),
    ("date_of_birth", "born on ", "March 3, 1980"),
    ("date_of_birth", "DOB: ", "1980-03-03"),
    ("date_of_birth", "n\u00e9e le ", "3 mai 1984"),
    ("date_of_birth", "geboren am ", "3. M\u00e4rz 1984"),
    ("date_of_birth", "nacido el ", "3 de mayo de 1984"),
    ("date_of_birth", "f\u00f8dselsdato: ", "03-05-1984"),
    ("coordinates", '"lat": ', "55.676098"),
    ("coordinates", "longitude=", "-12.56833"),
    ("mac_address", "MAC ", "dead.beef.cafe"),
    ("gb_nhs", "NHS number ", "9434765919"),
    ("de_tax_id", "Steuer-ID ", "86095742719"),
    ("nl_bsn", "BSN ", "111222333"),
    ("in_aadhaar", "Aadhaar: ", "2341 2341 2346"),
    ("ca_sin", "SIN ", "130 692 544"),
]

KEYS = [
    ("aws_access_key_id", "AKIAIOSFODNN7EXAMPLE"),
    ("github_token", "ghp_" + "a1B2" * 9),
    ("github_token", "github_pat_" + "a1B2_" * 16),
    ("gitlab_pat", "glpat-" + "a-1_B" * 4),
    ("google_api_key", "AIza" + "b-3_D" * 7),
    ("jwt", "eyJhbGciOiJub25lIn0.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"),
    ("npm_token", "npm_" + "a1B2" * 9),
    ("slack_token", "xoxb-123456789012-1234567890123-abcDEF123"),
    ("stripe_key", "sk_test_" + "a1B2" * 6),
    ("openai_key", "sk-proj-" + "a1B2" * 12),
    ("anthropic_key", "sk-ant-api03-" + "a1B2" * 12),
    ("huggingface_token", "hf_" + "aB" * 17),
    ("google_api_key", "AQ.Ab8" + "b-3_D" * 8),
    ("groq_key", "gsk_" + "a1B2" * 13),
    ("xai_key", "xai-" + "a1B2" * 20),
    ("perplexity_key", "pplx-" + "a1B2" * 12),
    ("together_key", "tgp_v1_" + "a-1_B" * 8 + "abc"),
    ("fireworks_key", "fw_" + "a1B2" * 6),
    ("cerebras_key", "csk-" + "a1b2" * 12),
    ("nvidia_key", "nvapi-" + "a-1_" * 16),
    ("replicate_token", "r8_" + "a1B2" * 9 + "x"),
    ("langsmith_key", "lsv2_pt_" + "a1b2" * 8 + "_" + "a1b2c" * 2),
    ("pinecone_key", "pcsk_" + "a1B2_" * 12),
    ("tavily_key", "tvly-dev-" + "a1B2" * 8),
    ("supabase_token", "sbp_" + "a1b2" * 10),
    ("planetscale_token", "pscale_tkn_" + "a1B_" * 10),
    ("rubygems_key", "rubygems_" + "a1b2" * 12),
    ("figma_token", "figd_" + "a-1_" * 10),
    ("tailscale_key", "tskey-auth-" + "a1B2" * 3 + "-" + "a1B2" * 8),
    ("sentry_token", "sntrys_" + "a1B2" * 20),
    ("url_basic_auth", "postgres://user:p4ss%20word@db.example.com:5432"),
    ("url_basic_auth", "https://user:secret@[2001:db8::1]"),
    (
        "private_key",
        "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEowIBAAKCAQEA0Z3VS5JJ\n" * 3 + "ab==\n-----END RSA PRIVATE KEY-----",
    ),
    (
        "private_key",
        "-----BEGIN OPENSSH PRIVATE KEY-----\\n" + "b3BlbnNzaC1rZXktdjEAAAAA\\n" * 2 + "b3BlbnNzaC1rZXktdjEA",
    ),
]

NEAR_MISSES = [
    "4111 1111 1111 1112", "GB83 WEST 1234 5698 7654 32", "666-12-3456", "000-60-4355", "123-45-678", "123-00-4567",
    "v5.4.40", "638.673.124.722", "1.2.3.4.5", "c6c72df8-030c-4194-bc35-2bc52ed5b37d", "2012-05-04T08:48:04Z",
    "3.14159265358979323846", "5.865949084069", "$81,088.89", "1,234,567,890", "pages 236-790", "@app.route", "A @ B.T",
    "dana @ brandt", "lodash@4.17.21", "user@localhost", "std::vector<a::b>", "12:30:45", "127.0.0.1", "0.0.0.0",
    "QQ 12 34 56 C", "12345678A", "AKIAQKMPISIP", "ASIA-PACIFIC region", "ghp_xxx", "eyJglaid.bxcbj", "risk_test_suite",
    "sk_test_mode", "https://db.example.com:5432/@home", "da3ef396420b537725112e6cd2b5c625c558575b",
    "-----BEGIN PUBLIC KEY-----\nMFwwDQYJKoZIhvcNAQEBBQADSwAwSAJB\n-----END PUBLIC KEY-----",
    "the header -----BEGIN PRIVATE KEY----- opens the file", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb", "call 1 2 3",
    "xai-grok-2-latest", "gsk_test", "nvapi-key", "r8_requirements", "pplx-api", "fw_update", "lsv2_pt_abc",
    "1234.5678.9012", "dead.beef.cafe", "90\u00b0 5' N", "lat: 5.1", "1920x1080",
    "+5.8659490840", "10-12-2023 0845", "01-02-2003", "529.982.247-26", "11010519491231002Y",
]  # fmt: skip


@pytest.mark.parametrize(("label", "value"), PERSONAL)
def test_personal_data_is_found_whole(label: str, value: str) -> None:
    for text in (f"It is {value}, they said.", f'"{value}"', f"x={value};", value):
        start = text.index(value)
        assert [(m.label, m.start, m.end) for m in find_all(PII, text)] == [(label, start, start + len(value))]


@pytest.mark.parametrize(("label", "cue", "value"), CUED)
def test_weak_shapes_are_found_beside_a_word_that_tells(label: str, cue: str, value: str) -> None:
    text = f"So {cue}{value}."
    assert [(m.label, text[m.start : m.end]) for m in find_all(PII, text)] == [(label, value)]
    assert find_all(PII, f"So we said {value}.") == []


@pytest.mark.parametrize("number", ["+1-202-555-0147", "(202)555-0147", "0044 20 7946 0730"])
def test_a_phone_number_ends_where_its_extension_begins(number: str) -> None:
    text = f"Ring {number}x123 now."
    assert [(m.label, text[m.start : m.end]) for m in find_all(PII, text)] == [("phone", number)]


@pytest.mark.parametrize(("label", "value"), KEYS)
def test_credentials_are_found_whole(label: str, value: str) -> None:
    for text in (f"It is {value} they said.", f'"{value}"', f"KEY={value}\n"):
        assert [(m.label, text[m.start : m.end]) for m in find_all(SECRETS, text)] == [(label, value)]


@pytest.mark.parametrize("value", NEAR_MISSES)
def test_what_only_looks_like_it_passes(value: str) -> None:
    for text in (f"It is {value} there.", value, f'("{value}")'):
        assert find_all(PII, text) == []
        assert find_all(SECRETS, text) == []


@pytest.mark.parametrize(
    "written",
    [
        "１２３-４５-６７８９",
        "123\u200b-45-67\u206089",
        "123–45–6789",
        "𝟏𝟐𝟑-𝟒𝟓-𝟔𝟕𝟖𝟗",
        "١٢٣-٤٥-٦٧٨٩",
        "1\u03362\u03363\u0336-45-6789\u0336",
        "\u202e123-45-6789",
    ],
)
def test_disguised_digits_are_digits(written: str) -> None:
    text = f"ssn {written} ok"
    (match,) = find_all(PII, text)
    assert text[match.start : match.end] == written.lstrip("\u202e")


def test_a_full_width_address_is_an_address() -> None:
    assert [m.label for m in find_all(PII, "ｊａｎｅ＠ｅｘａｍｐｌｅ．ｃｏｍ")] == ["email"]


def test_only_the_types_asked_for_are_found() -> None:
    assert find_all(compile_pii(["email"]), "123-45-6789") == []
    with pytest.raises(ConfigurationError, match="'mail'; known: email, iban"):
        compile_pii(["mail"])
    with pytest.raises(ConfigurationError, match="'jot'; known: private_key"):
        compile_secrets(["jot"])


def test_a_long_head_after_a_short_address_stays_whole() -> None:
    """Two heads are alive at the sign, and the one that was opened last reaches back furthest."""
    text = "jane@mail.example.co.uk" + "x" * 90 + "@example.com"
    rail = MatchRail("pii", PII, MatchPolicy())
    assert run([text], rail) == run(by_character(text), rail)
    assert run([text], rail)[0] == "[REDACTED].[REDACTED]"


@pytest.mark.parametrize(
    ("text", "held"), [("a" * 64 + ".x", 64), ("a" * 200, 128), ("it is 2 or", 2), ("see a@b.", 4)]
)
def test_a_run_too_long_for_an_address_is_let_go_from_its_start(text: str, held: int) -> None:
    at_work = window(MatchRail("pii", PII, MatchPolicy()))
    at_work.feed(text)
    assert at_work.held == held


def test_a_cue_alone_holds_nothing() -> None:
    at_work = window(MatchRail("pii", compile_pii(["phone", "credit_card", "us_ssn"]), MatchPolicy()))
    assert at_work.feed("my card number is ").text == "my card number is "
    assert at_work.feed("5038").text == ""


def test_a_date_after_two_cues_is_found_from_its_first_digit() -> None:
    text = "born, date of birth 03-04-1980"
    assert [text[m.start : m.end] for m in find_all(PII, text)] == ["03-04-1980"]


PARTS = [value for _, value in PERSONAL + KEYS] + [cue + value for _, cue, value in CUED] + NEAR_MISSES
texts = st.lists(st.sampled_from(PARTS) | st.sampled_from([" ", ", ", "\n", "a", "7", "\u200b", "@", "-"]), max_size=6)


@settings(max_examples=150, deadline=None)
@given(texts.map("".join), cuts, st.sampled_from(["redact", "block"]), st.sampled_from(["redact", "block"]))
def test_the_outcome_does_not_depend_on_the_cut(text: str, places: list[int], one: str, other: str) -> None:
    rails = (MatchRail("pii", PII, MatchPolicy(one)), MatchRail("secrets", SECRETS, MatchPolicy(other)))
    outcomes = [run(pieces, *rails) for pieces in cuttings(text, places)]
    assert outcomes[0] == outcomes[1] == outcomes[2]


@pytest.mark.parametrize(("label", "value"), PERSONAL + KEYS)
def test_no_character_leaves_fed_one_by_one(label: str, value: str) -> None:
    rail = MatchRail("both", SECRETS if (label, value) in KEYS else PII, MatchPolicy("redact", replacement="<{label}>"))
    assert run(by_character(f"see {value} there"), rail)[:2] == (f"see <{label}> there", None)
