"""Quantities as the API server writes them: another spelling of the same one is a change for ever.

Kubernetes, apimachinery v0.34.3 `resource.ParseQuantity` and `CanonicalizeBytes`: no mantissa that
a larger suffix could carry, nothing finer than a billionth; what has that form stays as written.
"""

import math
import re
from fractions import Fraction

BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}

_FINEST = -9
_LARGEST = 18
_FORM = re.compile(
    r"(?P<whole>\d*)(?:\.(?P<part>\d*))?"
    r"(?P<suffix>[KMGTPE]i|[eE][+-]?\d+|[numkMGTPE]?)"
)


def amount(text: str) -> Fraction:
    """The number a quantity stands for; ValueError if it is none."""
    number, suffix = _parts(text)
    if suffix in BINARY:
        return number * Fraction(1024) ** (BINARY.index(suffix) + 1)
    return number * Fraction(10) ** _exponent(suffix)


def canonical(text: str) -> str:
    """30720Gi as 30Ti, 0.5 as 500m, 1000 as 1k; ValueError if it is no quantity."""
    value, (_, suffix) = amount(text), _parts(text)
    if not value:
        return "0"
    if suffix in BINARY and value >= 1024 and value.denominator == 1:
        return _binary(value.numerator)
    if suffix not in BINARY and _stays(text, suffix):
        return text
    return _decimal(value, scientific=suffix not in (*BINARY, *DECIMAL))


def _binary(value: int) -> str:
    index = 0
    while value % 1024 == 0 and index < len(BINARY):
        value, index = value // 1024, index + 1
    return f"{value}{('', *BINARY)[index]}"


def _decimal(value: Fraction, *, scientific: bool) -> str:
    mantissa, exponent = math.ceil(value * 10**-_FINEST), _FINEST
    while mantissa % 1000 == 0 and (scientific or exponent < _LARGEST):
        mantissa, exponent = mantissa // 1000, exponent + 3
    if scientific:
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    return f"{mantissa}{next(name for name, at in DECIMAL.items() if at == exponent)}"


def _stays(text: str, suffix: str) -> bool:
    """Whether the parser keeps the text: 129e6, 1.500."""
    whole, _, part = text.removesuffix(suffix).partition(".")
    digits, exponent = (whole.lstrip("0") or "0") + part, _exponent(suffix) - len(part)
    return (
        exponent >= _FINEST
        and exponent % 3 == 0
        and digits[0] != "0"
        and not digits.endswith("000")
    )


def _exponent(suffix: str) -> int:
    return DECIMAL[suffix] if suffix in DECIMAL else int(suffix[1:])


def _parts(text: str) -> tuple[Fraction, str]:
    match = _FORM.fullmatch(text)
    if not match or not (match["whole"] or match["part"]):
        msg = f"{text!r} is no quantity such as 16, 500m or 64Gi"
        raise ValueError(msg)
    return Fraction(f"{match['whole'] or 0}.{match['part'] or 0}"), match["suffix"]
