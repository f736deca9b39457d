"""Grammars of the kinds that people write, and texts of them. All written for this repository."""

from __future__ import annotations

import json
from typing import NamedTuple


class Sample(NamedTuple):
    name: str
    grammar: str
    texts: tuple[str, ...]


_JSON_VALUE = {
    "id": 4711,
    "name": 'Ada "Countess" Lovelace',
    "tags": ["mathematics", "poetry", "", "Analytical Engine"],
    "address": {"street": "12 St James's Square", "zip": "SW1Y 4JH", "geo": [51.5071, -0.1352, 1.5e2]},
    "active": True,
    "score": -12.25,
    "friends": [{"id": n, "name": f"friend {n}", "mutual": n % 2 == 0, "notes": None} for n in range(12)],
}
_JSON_TEXTS = (json.dumps(_JSON_VALUE), json.dumps(_JSON_VALUE, indent=2), json.dumps([[[[]], {}], [1, [2, [3]]]]))

ARITHMETIC = r"""
start: sum
sum: product (("+" | "-") product)*
product: power (("*" | "/" | "%") power)*
power: atom ("^" power)?
atom: NUMBER | NAME "(" sum ("," sum)* ")" | NAME | "-" atom | "(" sum ")"
NUMBER: /[0-9]+(\.[0-9]+)?/
NAME: /[a-z][a-z0-9]*/
%ignore " "
"""
JSON_LARK = r"""
start: value
value: object | array | STRING | NUMBER | "true" | "false" | "null"
object: "{" (pair ("," pair)*)? "}"
pair: STRING ":" value
array: "[" (value ("," value)*)? "]"
STRING: /"([^"\\\x00-\x1f]|\\(["\\\/bfnrt]|u[0-9a-fA-F]{4}))*"/
NUMBER: /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/
%ignore /[ \t\r\n]+/
"""
JSON_GBNF = r"""
root ::= ws value ws
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws (member ("," ws member)*)? "}"
member ::= string ws ":" ws value ws
array ::= "[" ws (value ws ("," ws value ws)*)? "]"
string ::= "\"" ([^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\""
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [-+]? [0-9]+)?
ws ::= [ \t\r\n]*
"""
CSV = r"""
start: row ("\n" row)* "\n"?
row: field ("," field)*
field: PLAIN | QUOTED |
PLAIN: /[^",\n]+/
QUOTED: /"([^"]|"")*"/
"""
XML = r"""
start: element
element: "<" NAME attribute* ("/>" | ">" content* "</" NAME ">")
attribute: " " NAME "=" VALUE
content: element | TEXT | ENTITY | COMMENT
NAME: /[A-Za-z_][A-Za-z0-9_.-]*/
VALUE: /"[^"<&]*"/
TEXT: /[^<&]+/
ENTITY: /&(lt|gt|amp|quot|apos|#[0-9]+);/
COMMENT: /<!--([^-]|-[^-])*-->/
"""
SQL = r"""
start: select ";"?
select: "SELECT" "DISTINCT"? columns "FROM" source join* where? group? order? limit?
columns: "*" | column ("," column)*
column: expression ("AS" NAME)?
source: NAME ("AS" NAME)? | "(" select ")" "AS" NAME
join: ("LEFT" | "INNER")? "JOIN" source "ON" expression
where: "WHERE" expression
group: "GROUP" "BY" expression ("," expression)* ("HAVING" expression)?
order: "ORDER" "BY" ordering ("," ordering)*
ordering: expression ("ASC" | "DESC")?
limit: "LIMIT" NUMBER ("OFFSET" NUMBER)?
expression: conjunction ("OR" conjunction)*
conjunction: negation ("AND" negation)*
negation: "NOT" negation | comparison
comparison: term (("=" | "<>" | "<" | ">" | "<=" | ">=" | "LIKE") term | "IS" "NOT"? "NULL"
    | "IN" "(" (select | term ("," term)*) ")" | "BETWEEN" term "AND" term)?
term: factor (("+" | "-" | "||") factor)*
factor: atom (("*" | "/") atom)*
atom: NUMBER | STRING | "NULL" | call | reference | "(" expression ")" | case
call: NAME "(" ("*" | "DISTINCT"? expression ("," expression)*)? ")"
reference: NAME ("." (NAME | "*"))?
case: "CASE" ("WHEN" expression "THEN" expression)+ ("ELSE" expression)? "END"
NAME: /[a-z_][a-z0-9_]*/
NUMBER: /[0-9]+(\.[0-9]+)?/
STRING: /'([^']|'')*'/
%ignore /[ \n]+/
"""
PYTHON = r"""
start: test
test: disjunction ("if" disjunction "else" test)? | "lambda" (NAME ("," NAME)*)? ":" test
disjunction: conjunction ("or" conjunction)*
conjunction: inversion ("and" inversion)*
inversion: "not" inversion | comparison
comparison: sum (("<" | ">" | "==" | ">=" | "<=" | "!=" | "in" | "not" "in" | "is" | "is" "not") sum)*
sum: product (("+" | "-") product)*
product: unary (("*" | "/" | "//" | "%" | "@") unary)*
unary: ("+" | "-" | "~") unary | power
power: primary ("**" unary)?
primary: atom trailer*
trailer: "(" (argument ("," argument)* ","?)? ")" | "[" subscript ("," subscript)* "]" | "." NAME
argument: test ("for" NAME "in" disjunction ("if" disjunction)*)? | NAME "=" test | "*" test | "**" test
subscript: test | test? ":" test? (":" test?)?
atom: NAME | NUMBER | STRING+ | "True" | "False" | "None" | "..." | "(" items? ")" | "[" items? "]" | "{" pairs? "}"
items: test ("for" NAME "in" disjunction ("if" disjunction)* | ("," test)* ","?)
pairs: test ":" test ("for" NAME "in" disjunction | ("," test ":" test)* ","?)
NAME: /[A-Za-z_][A-Za-z0-9_]*/
NUMBER: /0x[0-9a-f]+|[0-9]+(\.[0-9]*)?(e[+-]?[0-9]+)?/
STRING: /[rbf]?("([^"\\\n]|\\.)*"|'([^'\\\n]|\\.)*')/
%ignore " "
"""
C = r"""
start: (function | declaration)+
function: type NAME "(" (parameter ("," parameter)*)? ")" block
parameter: type NAME ("[" "]")?
type: "const"? ("int" | "char" | "long" | "double" | "void" | "struct" NAME) "*"*
declaration: type declarator ("," declarator)* ";"
declarator: NAME ("[" NUMBER? "]")? ("=" (assignment | "{" assignment ("," assignment)* "}"))?
block: "{" statement* "}"
statement: block | declaration | expression? ";" | "return" expression? ";" | "break" ";" | "continue" ";"
    | "if" "(" expression ")" statement ("else" statement)? | "while" "(" expression ")" statement
    | "for" "(" (declaration | expression? ";") expression? ";" expression? ")" statement
expression: assignment ("," assignment)*
assignment: conditional | unary ("=" | "+=" | "-=" | "*=" | "/=" | "|=" | "&=") assignment
conditional: or ("?" expression ":" conditional)?
or: and ("||" and)*
and: bitor ("&&" bitor)*
bitor: bitand (("|" | "^") bitand)*
bitand: equality ("&" equality)*
equality: relation (("==" | "!=") relation)*
relation: shift (("<" | ">" | "<=" | ">=") shift)*
shift: sum (("<<" | ">>") sum)*
sum: product (("+" | "-") product)*
product: cast (("*" | "/" | "%") cast)*
cast: "(" type ")" cast | unary
unary: ("++" | "--" | "&" | "*" | "+" | "-" | "~" | "!") cast | "sizeof" "(" type ")" | postfix
postfix: primary ("[" expression "]" | "(" (assignment ("," assignment)*)? ")" | "." NAME | "->" NAME | "++" | "--")*
primary: NAME | NUMBER | CHARACTER | STRING | "(" expression ")"
NAME: /[A-Za-z_][A-Za-z0-9_]*/
NUMBER: /0x[0-9a-fA-F]+|[0-9]+(\.[0-9]+)?[uUlL]*/
CHARACTER: /'([^'\\\n]|\\.)'/
STRING: /"([^"\\\n]|\\.)*"/
COMMENT: /\/\*([^*]|\*[^\/])*\*\//
%ignore COMMENT
%ignore /[ \t\n]+/
"""
WORDS = r"""
start: sentence (" " sentence)*
sentence: word ((" " | ", ") word)* ("." | "?" | "!")
word: /[A-Za-z']+/
"""

_C_TEXT = """int compare(const char *a, const char *b) {
    while (*a && *a == *b) { a++; b++; }
    return *a - *b; /* the difference */
}
long table[16] = {1, 2, 0x1f, 4};
void sort(int values[], int count) {
    for (int i = 0; i < count - 1; i++) {
        int least = i;
        for (int j = i + 1; j < count; ++j)
            if (values[j] < values[least]) least = j;
        if (least != i) {
            int other = values[i];
            values[i] = values[least];
            values[least] = other;
        } else continue;
    }
    printf("%d values\\n", count), flags |= (1 << 3) & ~mask;
}
"""
_SQL_TEXT = """SELECT c.name, count(*) AS orders, sum(o.amount * (1 - o.discount)) AS total
FROM customers AS c LEFT JOIN orders AS o ON o.customer_id = c.id AND o.cancelled = 0
WHERE c.country IN ('DE', 'FR', 'it''s') AND (o.created BETWEEN '2024-01-01' AND '2024-12-31' OR o.created IS NULL)
GROUP BY c.name HAVING count(*) > 3 ORDER BY total DESC, c.name LIMIT 20 OFFSET 40;"""
_SQL_NESTED = """SELECT DISTINCT t.id, CASE WHEN t.score >= 90 THEN 'high' WHEN t.score >= 50 THEN 'middle'
ELSE 'low' END AS band FROM (SELECT id, max(score) AS score FROM results GROUP BY id) AS t
WHERE NOT t.id IN (SELECT id FROM excluded)"""
_PYTHON_TEXTS = (
    "{'total': sum(item.price * item.count for item in basket if item.count > 0), 'names': [n.strip() for n in names]}",
    "lambda rows, key: sorted(rows, key=lambda row: (row[key], -row['age']), reverse=True)[:10]",
    "x if 0 < x <= limit and not done else max(a[1:-1:2], default=None) or f(*args, **options)[..., 0] ** -2 // 3",
)
_XML_TEXT = (
    '<catalog version="1.2"><!-- all books --><book id="bk101" lang="en"><title>XML &amp; you</title>'
    '<price currency="EUR">44.95</price><empty/></book><book id="bk102"><title>Rain</title><note>A &lt; B</note></book>'
    "</catalog>"
)
_CSV_TEXT = 'id,name,comment\n1,Ada,"first, of all"\n2,Charles,"said ""no"""\n3,,\n' + "".join(
    f"{n},person {n},{n * 17 % 101}.5\n" for n in range(4, 20)
)
_ARITHMETIC_TEXTS = (
    "1 + 2 * (3 - x1) / sin(0.5 * pi, 7) ^ 2 ^ n - -4.25",
    "((((a + b) * (c + d)) - e) * ((f)))" + " + max(a, b * 2)" * 10,
)
_WORDS_TEXT = (
    "The quick brown fox jumps over the lazy dog. Isn't it late, they asked, or early? "
    "Nobody knew what the internationalisation committee had decided!"
)

SAMPLES = (
    Sample("arithmetic", ARITHMETIC, _ARITHMETIC_TEXTS),
    Sample("json, Lark", JSON_LARK, _JSON_TEXTS),
    Sample("json, GBNF", JSON_GBNF, _JSON_TEXTS),
    Sample("csv", CSV, (_CSV_TEXT,)),
    Sample("xml-like", XML, (_XML_TEXT,)),
    Sample("sql", SQL, (_SQL_TEXT, _SQL_NESTED)),
    Sample("python expressions", PYTHON, _PYTHON_TEXTS),
    Sample("c subset", C, (_C_TEXT,)),
    Sample("words", WORDS, (_WORDS_TEXT,)),
)
