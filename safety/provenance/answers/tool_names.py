"""Know by the name of a tool what it answers: a list of records, people of a directory, files of a folder, hits of a
search engine.

Not covered: names that say nothing (`run`, `call_api`), and verbs of languages without a stem below.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_BORDER = re.compile(r"(?<=[a-z])(?=[A-Z])|[\W\d_]+")
_LISTS = (
    "list", "auflist", "search", "find", "query", "queri", "lookup", "browse", "such", "cherch", "recherch", "busc",
    "cerca", "elenc", "procur", "zoek", "lijst", "szuk", "wyszuk", "spis", "поиск", "найти", "список", "пошук",
    "знайти", "najd", "hled", "vyhled", "zoznam", "etsi", "hitta", "søg", "daftar", "cari", "keres", "αναζητ",
    "検索", "搜索", "查找", "검색",
)  # fmt: skip
"""Beginnings of words for listing and searching."""
_SHORT_LISTS = frozenset(["ara", "hae", "sök", "finn", "søk", "oppslag"])
_PEOPLE = (
    "contact", "contat", "kontak", "контакт", "yhteyst", "rubric", "people", "person", "employee", "colleague",
    "staff", "friend", "user", "member", "customer", "client", "team", "group", "grup", "equip", "mitarbeiter",
    "kolleg", "usuari", "utilisat", "utent", "annuaire", "adressbuch", "addressbook", "phonebook", "uzivatel",
    "użytkownik", "пользовател", "сотрудник", "rehber", "kisi", "kişi", "連絡先", "联系人", "연락처",
)  # fmt: skip
"""Beginnings of words for those who have an address."""
_PLACES = ("place", "business", "venue", "restaurant", "lugar", "lieu", "orte")
_JOURNEYS = ("navig", "route", "direction", "ride", "taxi", "uber", "cab", "itiner", "trajet", "ruta", "fahrt")
"""Beginnings of words for going somewhere."""
_TEXTS = (
    "mail", "email", "message", "nachricht", "thread", "page", "note", "file", "doc", "comment", "post", "review",
    "ticket", "event", "log", "history", "chat", "issue", "web", "site", "url", "article", "invoice", "order",
    "calendar", "story", "feed",
)  # fmt: skip
"""Beginnings of words for what anybody may write."""
_FILE_TOOLS = frozenset(["ls", "dir", "tree", "glob", "grep", "rg", "fd"])
_FILES = frozenset([
    "dir", "directory", "directories", "file", "folder", "code", "upload", "notebook", "repo", "workspace", "project",
    "path", "tree", "drive", "bestand", "bestanden", "datei", "dateien", "ordner", "fichier", "dossier", "archivo",
    "carpeta", "arquivo", "pasta", "cartella", "plik", "pliki", "plików", "файл", "файлы", "файлов", "dosya",
    "tiedosto",
])  # fmt: skip
_REST = (
    r"(?:[ \t](?:'[^'\n]*'|\"[^\"`$\n]*\"|[^;&|`$><'\"\n])*)?(?:2>/dev/null *|2>&1 *)?"
    r"(?:\| *(?:head|tail|sort|uniq)(?: +[\w-]+)* *)*"
)
"""What may follow the name of a command that is the only one, but for what leaves lines as they are."""
_LISTS_FILES = re.compile(
    r"(?:cd [\w./~-]+ && )?"
    r"(?:ls|(?:tree|fd|find|git (?:status|ls-files|diff --(?:name-only|stat)))"
    r"(?![^\n]*[ \t](?:--?exec\w*|-[xXv]+|-ok\w*)\b)"
    r"|(?:git grep|(?:rg|grep)(?=[^\n]*[ \t]-\w*[rRnl]))(?![^\n]*[ \t](?:-\w*[hI]|--no-filename|--pre|--json)\b))"
    rf"{_REST}"
)
"""A command that prints names of files, or lines behind them; not a search of one file, whose lines stand alone."""
_TESTS_FILES = re.compile(
    r"(?:cd [\w./~-]+ && )?(?:python3? -m |uv run |poetry run |npx )?"
    r"(?:pytest|ruff|mypy|pyright|flake8|eslint|tsc|jest|vitest|make"
    r"|(?:npm|yarn|pnpm)(?: run)? (?:test|lint|build)|cargo (?:test|build|check|clippy)|go (?:test|build|vet))"
    rf"{_REST}"
)
"""A command that tells in which files something fails."""
_PAYS = (
    "pay", "transfer", "refund", "wire", "remit", "zahl", "bezahl", "überweis", "ueberweis", "pag", "paie", "betaal",
    "ode", "öde", "zapłac", "zaplac", "zaplat", "оплат", "перевод", "bayar",
)  # fmt: skip
"""Beginnings of words for giving money."""
_LOSES = (
    "delete", "remove", "erase", "unlink", "trash", "purge", "send", "attach", "upload", "share", "post", "publish",
    "mail", "email", "forward",
)  # fmt: skip
"""Beginnings of words for giving a file away or deleting it."""
_SENDING = re.compile(
    r"\b(?:rm|shred|truncate|dd|curl|wget|scp|sftp|rsync|nc|ncat|ftp|aws|gsutil|az|rclone|gh|mail|sendmail|xargs)\b"
)
_SENT_ARGUMENTS = frozenset(["method", "body", "data", "payload", "headers", "form", "json", "params"])
_ENGINES = frozenset([
    "web", "google", "bing", "brave", "duckduckgo", "ddg", "tavily", "serp", "internet", "news", "arxiv", "wikipedia",
    "scholar", "pubmed", "exa", "kagi", "searxng",
])  # fmt: skip
_READS_PAGES = frozenset(
    [
        "fetch",
        "open",
        "read",
        "visit",
        "browse",
        "browser",
        "navigate",
        "view",
        "scrape",
        "crawl",
        "extract",
        "goto",
        "download",
    ]
)
_READS = frozenset(
    ["get", "url", "page", "web", "content", "to", "website", "link", "tool", "site", "markdown", "text", "pdf"]
)


@lru_cache(maxsize=512)
def words_of_tool(tool: str) -> tuple[str, ...]:
    """Return the words of a tool's name in any script, in lower case, without the `s` of several."""
    return tuple(_singular(word.lower()) for word in _BORDER.split(tool) if word)


def _singular(word: str) -> str:
    return word if len(word) < 4 or word == "news" or word.endswith(("ss", "us", "is")) else word.removesuffix("s")


def is_listing(tool: str) -> bool:
    """Return whether a tool lists or searches records: `list_orders`, `find_orders`, `get_orders`."""
    words = words_of_tool(tool)
    gets_several = words[:1] == ("get",) and tool.endswith("s") and words[-1] != tool.rpartition("_")[2].lower()
    return gets_several or any(word.startswith(_LISTS) or word in _SHORT_LISTS for word in words)


def is_directory(tool: str) -> bool:
    """Return whether a tool answers with people and their addresses, and not with what they wrote."""
    words = words_of_tool(tool)
    book = "book" in words and not {"address", "phone"}.isdisjoint(words)
    return (book or any(word.startswith(_PEOPLE) for word in words)) and not is_of_texts(tool)


def is_places(tool: str) -> bool:
    """Return whether a tool answers with places of a map."""
    words = words_of_tool(tool)
    return is_listing(tool) and any(word.startswith(_PLACES) for word in words) and not is_of_texts(tool)


def goes_somewhere(tool: str) -> bool:
    """Return whether a tool takes the user to a place."""
    return any(word.startswith(_JOURNEYS) for word in words_of_tool(tool))


def lists_files(tool: str, commands: tuple[str, ...]) -> bool:
    """Return whether a tool prints names of files. `commands`: the strings of its arguments, of which one may be a
    command that does."""
    words = words_of_tool(tool)
    if not _FILE_TOOLS.isdisjoint(words) or ("git" in words and "status" in words) or "diff" in words:
        return True
    if not _FILES.isdisjoint(words) and is_listing(tool):
        return True
    return any(_LISTS_FILES.fullmatch(one.strip()) or _TESTS_FILES.fullmatch(one.strip()) for one in commands)


def is_search_engine(tool: str) -> bool:
    """Return whether a tool searches pages of others."""
    words = words_of_tool(tool)
    return "search" in words and (len(words) == 1 or not _ENGINES.isdisjoint(words))


def pays(tool: str) -> bool:
    """Return whether a tool gives money."""
    return any(word.startswith(_PAYS) for word in words_of_tool(tool))


def gives_away(tool: str, commands: Iterable[str]) -> bool:
    """Return whether a call sends or deletes a file: by its tool's name, or one of the `commands` in it."""
    named = any(word.startswith(_LOSES) for word in words_of_tool(tool))
    return named or any(_SENDING.search(command) for command in commands)


def reads_pages(tool: str, arguments: Iterable[str]) -> bool:
    """Return whether a tool with these `arguments` does nothing but ask for the page at an address."""
    words = set(words_of_tool(tool))
    if not _SENT_ARGUMENTS.isdisjoint(arguments):
        return False
    return not _READS_PAGES.isdisjoint(words) and words <= _READS_PAGES | _READS


def is_of_texts(tool: str) -> bool:
    """Return whether a tool answers with what anybody may have written."""
    return any(word.startswith(_TEXTS) for word in words_of_tool(tool))
