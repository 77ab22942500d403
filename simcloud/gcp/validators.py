"""The provider's own checks on single values, read from the Go expressions in the tables."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

Validator = Callable[[Any, str], str | None]
"""(value, field name) -> what is wrong, None if nothing is."""

_GCE_NAME = r"^(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)$"
_MEMBER = re.compile(
    r"^(allUsers|allAuthenticatedUsers|(deleted:)?(user|group|domain|serviceAccount|principal|"
    r"principalSet|projectOwner|projectEditor|projectViewer|iamMember):?.*)$"
)


def parse(expression: str) -> Validator | None:
    """The check behind a Go expression of the tables; None for one we have no reading of."""
    text = expression.removeprefix(" [elem] ").strip()
    if match := re.fullmatch(r"(?:verify\.)?OrEmpty\((.*)\)", text):
        inner = parse(match.group(1))
        return None if inner is None else lambda v, k: None if v == "" else inner(v, k)
    name, _, rest = text.partition("(")
    known = _BY_NAME.get(name.rpartition(".")[2])
    if known:
        numbers = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", rest)]
        return known(*numbers)
    if text.startswith("func(") and "lowercase letters, numbers and hyphens" in text:
        return _cluster_name
    if "31 characters" in text:
        return lambda v, k: f'"{k}" cannot be longer than 31 characters' if len(v) > 31 else None
    if match := re.fullmatch(
        r"validation\.StringMatch\(regexp\.MustCompile\(`(.*?)`\), \"(.*)\"\)", text
    ):
        found, message = re.compile(match.group(1)), match.group(2)
        return lambda v, k: None if found.match(str(v)) else f"invalid value for {k} ({message})"
    return None


def _matches(regex: str) -> Validator:
    compiled = re.compile(regex)
    return lambda v, k: (
        None if compiled.fullmatch(str(v)) else f'"{k}" ("{v}") doesn\'t match regexp "{regex}"'
    )


def _gce_name() -> Validator:
    return _matches(_GCE_NAME)


def _rfc1035(low: float, high: float) -> Validator:
    return _matches(f"^(?:[a-z](?:[-a-z0-9]{{{int(low) - 2},{int(high) - 2}}}[a-z0-9]))$")


def _cluster_name(value: Any, key: str) -> str | None:
    text = str(value)
    if len(text) > 40:
        return f'"{key}" cannot be longer than 40 characters'
    if not re.fullmatch(r"[a-z0-9-]+", text):
        return f'"{key}" can only contain lowercase letters, numbers and hyphens'
    if not text[0].isalpha():
        return f'"{key}" must start with a letter'
    return f'"{key}" must end with a number or a letter' if text.endswith("-") else None


def _cidr_range() -> Validator:
    def check(value: Any, key: str) -> str | None:
        # Go's ParseCIDR: host bits are allowed.
        try:
            ipaddress.ip_interface(str(value))
        except ValueError:
            bad = True
        else:
            bad = "/" not in str(value)
        return (
            f'"{key}" is not a valid IP CIDR range: invalid CIDR address: {value}' if bad else None
        )

    return check


def _cidr_network(low: float, high: float) -> Validator:
    def check(value: Any, key: str) -> str | None:
        try:
            network = ipaddress.ip_network(str(value))
        except ValueError:
            return f'expected "{key}" to contain a valid network Value, got: {value}'
        if low <= network.prefixlen <= high:
            return None
        return (
            f'expected "{key}" to contain a network Value with between {int(low)} and {int(high)} '
            f"significant bits, got: {network.prefixlen}"
        )

    return check


def _private_network(low: float, high: float) -> Validator:
    inner = _cidr_network(low, high)

    def check(value: Any, key: str) -> str | None:
        reason = inner(value, key)
        if reason or ipaddress.ip_network(str(value)).is_private:
            return reason
        return f'expected "{key}" to be in a private range (RFC 1918), got: {value}'

    return check


def _at_least(low: float) -> Validator:
    return lambda v, k: (
        None if float(v) >= low else f"expected {k} to be at least ({int(low)}), got {v}"
    )


def _between(low: float, high: float) -> Validator:
    return lambda v, k: (
        None
        if low <= float(v) <= high
        else f"expected {k} to be in the range ({low:g} - {high:g}), got {v}"
    )


def _length(low: float, high: float) -> Validator:
    return lambda v, k: (
        None
        if low <= len(str(v)) <= high
        else f"expected length of {k} to be in the range ({int(low)} - {int(high)}), got {v}"
    )


def _member() -> Validator:
    return lambda v, k: (
        None
        if _MEMBER.match(str(v))
        else f"invalid value for {k} (IAM members must have one of the values outlined here: "
        f"https://cloud.google.com/billing/docs/reference/rest/v1/Policy#Binding), got {v}"
    )


def _time(layout: str, example: str) -> Callable[[], Validator]:
    def make() -> Validator:
        def check(value: Any, key: str) -> str | None:
            try:
                datetime.strptime(str(value), layout)
            except ValueError:
                return f'"{key}" ("{value}") must look like {example}'
            return None

        return check

    return make


def _timestamp() -> Validator:
    def check(value: Any, key: str) -> str | None:
        try:
            datetime.fromisoformat(str(value))
        except ValueError:
            return f'"{key}" ("{value}") must be a valid RFC3339 time, like 2026-01-31T22:00:00Z'
        return None

    return check


def _private_asn() -> Validator:
    # RFC 6996, and the one number Partner Interconnect uses.
    return lambda v, k: (
        None
        if 64512 <= int(v) <= 65534 or 4200000000 <= int(v) <= 4294967294 or int(v) == 16550
        else f'expected "{k}" to be a RFC6996-compliant Local ASN, got: {v}'
    )


def _duration() -> Validator:
    form = re.compile(r"(\d+(\.\d+)?(h|m|s|ms|us|ns))+")
    return lambda v, k: (
        None if form.fullmatch(str(v)) else f'"{k}" is not a duration such as "8h": {v}'
    )


def _labels() -> Validator:
    key_form = re.compile(r"[a-z0-9_-]{1,63}")
    where = "https://cloud.google.com/storage/docs/tags-and-labels#bucket-labels"
    return lambda v, _: next(
        (
            f'"{key}" is an invalid label key. See {where}'
            for key in v
            if not key_form.fullmatch(str(key))
        ),
        None,
    )


_BY_NAME: dict[str, Callable[..., Validator]] = {
    "ValidateGCEName": _gce_name,
    "ValidateRFC1035Name": _rfc1035,
    "ValidateIpCidrRange": _cidr_range,
    "ValidateRFC1918Network": _private_network,
    "ValidateRFC3339Time": _time("%H:%M", "22:00"),
    "ValidateHourlyOnly": _time("%H:00", "22:00"),
    "ValidateRFC3339Date": _timestamp,
    "IsCIDRNetwork": _cidr_network,
    "IsCIDR": _cidr_range,
    "IntAtLeast": _at_least,
    "IntBetween": _between,
    "FloatBetween": _between,
    "StringLenBetween": _length,
    "ValidateRFC6996Asn": _private_asn,
    "labelKeyValidator": _labels,
    "validateDuration": _duration,
    "validateIAMMember": _member,
}
