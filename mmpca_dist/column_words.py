"""Names of columns that number rows, or say who somebody is: identifiers, people and groups."""

from __future__ import annotations

import re

NUMBERING, PEOPLE = (
    "key|nr|no|number|index|code",
    "patient|subject|person|participant|donor|user|customer|client|household|family",
)
IDENTIFIER = re.compile(rf"(^|[\W_])(id|uid|uuid|guid|{NUMBERING})$", re.I)
JOINED_IDENTIFIER = re.compile(
    r".*[a-z](ID|Id|UUID|Code|CODE)|(?i:(user|customer|patient|subject|sample|record|respondent|passenger|employee|"
    r"client|order|product|person|participant|member|student|account|transaction|case|row|item|study|household)id)"
)
GROUP = re.compile(
    rf"{PEOPLE}|group|site|hospital|batch|plate|vineyard|farm|school|animal|mouse|session|device|speaker|author", re.I
)
PERSONAL = re.compile(
    rf"(^|[\W_])({NUMBERING}|zip|post|phone|mail|e-?mail|born|birth|dob|day|date|time|year|ssn|ip)s?($|[\W_])"
    rf"|id$|date|birth|{PEOPLE}|name|address",
    re.I,
)
"""Names of columns that say who somebody is, or when something was, also where they hold numbers."""


def is_identifier(name: str, *ends: str) -> bool:
    """Tell whether a name is one of numbers or codes of rows, such as "RespondentID", and has one of some ends."""
    is_one = IDENTIFIER.search(name.strip()) or JOINED_IDENTIFIER.fullmatch(name.strip())
    return bool(is_one) and name.strip().lower().endswith(ends or "")
