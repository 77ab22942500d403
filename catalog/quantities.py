"""Quantities as the API server writes them: another spelling of the same one is a change for ever.

Kubernetes, apimachinery `resource.Quantity`: no mantissa that a larger suffix could carry.
"""

import re
from fractions import Fraction

BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
DECIMAL = ("m", "", "k", "M", "G", "T", "P", "E")

_FORM = re.compile(r"(\d+(?:\.\d+)?)([a-zA-Z]*)")


def amount(text: str) -> Fraction:
    """The number a quantity stands for; ValueError if it is none."""
    number, suffix = _parts(text)
    suffixes, base = _scale(suffix)
    return number * Fraction(base) ** (suffixes.index(suffix) - suffixes.index(""))


def canonical(text: str) -> str:
    """30720Gi as 30Ti, 0.5 as 500m, 1000 as 1k; ValueError if it is no quantity."""
    value, suffix = _parts(text)
    suffixes, base = _scale(suffix)
    index = suffixes.index(suffix)
    while value.denominator > 1 and index > 0:
        value, index = value * base, index - 1
    while value and value % base == 0 and index + 1 < len(suffixes):
        value, index = value / base, index + 1
    return f"{-(-value.numerator // value.denominator)}{suffixes[index]}" if value else "0"


def _parts(text: str) -> tuple[Fraction, str]:
    match = _FORM.fullmatch(text)
    number, suffix = match.groups() if match else ("", "?")
    if suffix not in (*BINARY, *DECIMAL):
        msg = f"{text!r} is no quantity such as 16, 500m or 64Gi"
        raise ValueError(msg)
    return Fraction(number), suffix


def _scale(suffix: str) -> tuple[tuple[str, ...], int]:
    return (BINARY, 1024) if suffix in BINARY[1:] else (DECIMAL, 1000)
