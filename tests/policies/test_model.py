"""Plain data: what the engine's wrappers, floats and unknowns become."""

from __future__ import annotations

import pytest
from pulumi_policy import proxy

from rules.model import SENTINELS, UNKNOWN, Node, Resource, Stack, UndecidedError, gcp, kube, plain


def test_the_sentinels_are_those_of_pulumi_policy() -> None:
    theirs = {value for name, value in vars(proxy).items() if name.startswith("UNKNOWN_")}
    assert theirs == SENTINELS


def test_proxies_floats_and_unknowns_become_plain() -> None:
    seen = proxy.unknown_checking_proxy(
        {
            "count": 4.0,
            "share": 0.5,
            "on": True,
            "items": [1.0, proxy.UNKNOWN_STRING_VALUE, {"x": proxy.UNKNOWN_OBJECT_VALUE}],
            "later": proxy.UNKNOWN_ARRAY_VALUE,
            "nothing": None,
        }
    )
    assert plain(seen) == {
        "count": 4,
        "share": 0.5,
        "on": True,
        "items": [1, UNKNOWN, {"x": UNKNOWN}],
        "later": UNKNOWN,
        "nothing": None,
    }
    assert type(plain(seen)["count"]) is int
    assert type(plain(seen)["on"]) is bool


class TestNode:
    node = Node(
        {
            "a": {"b": "text", "n": "8", "flag": "TRUE", "dotted.key/x": "y"},
            "list": [{"name": "one"}, UNKNOWN, {"name": UNKNOWN}],
            "later": UNKNOWN,
        }
    )

    def test_a_path_is_dotted_or_a_tuple(self) -> None:
        assert self.node.text("a.b") == "text"
        assert self.node.text(("a", "dotted.key/x")) == "y"
        assert self.node.text("a.missing.deeper") is None

    def test_numbers_and_flags_may_be_written_as_text(self) -> None:
        assert self.node.number("a.n") == 8
        assert self.node.flag("a.flag") is True

    @pytest.mark.parametrize("value", [None, 1, [], {}, True])
    def test_a_value_of_another_type_is_none(self, value: object) -> None:
        assert Node({"x": value}).text("x") is None

    def test_a_boolean_is_no_number(self) -> None:
        assert Node({"x": True}).number("x") is None

    @pytest.mark.parametrize("path", ["later", "later.deeper", "list"])
    def test_reading_what_is_unknown_is_undecided(self, path: str) -> None:
        with pytest.raises(UndecidedError, match=r"later|list\[1\]"):
            self.node.raw(path)

    def test_elements_are_read_one_by_one(self) -> None:
        first, second, third = self.node.each("list")
        assert first.text("name") == "one"
        with pytest.raises(UndecidedError, match=r"list\[1\]"):
            second.text("name")
        with pytest.raises(UndecidedError, match=r"list\[2\].name"):
            third.text("name")

    def test_something_unknown_is_set(self) -> None:
        assert self.node.has("later")
        assert not self.node.has("a.c")

    def test_places_are_written_as_people_write_them(self) -> None:
        place = self.node.each("list")[0].at(("labels", "a.b/c"))
        assert place == "list[0].labels['a.b/c']"


class TestSelectors:
    def test_a_kubernetes_kind_is_found_in_every_version_and_never_as_a_patch(self) -> None:
        kinds = kube("kueue.x-k8s.io", "ClusterQueue")
        assert kinds.matches("kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue")
        assert kinds.matches("kubernetes:kueue.x-k8s.io/v1beta1:ClusterQueue")
        assert not kinds.matches("kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueuePatch")
        assert not kinds.matches("kubernetes:other.x-k8s.io/v1beta2:ClusterQueue")

    def test_a_condition_on_an_unknown_value_leaves_a_doubt(self) -> None:
        pools = gcp("container/nodePool:NodePool")
        big = pools.where("big pools", lambda p: (p.number("nodeCount") or 0) > 4)
        known = Resource({"nodeCount": 5}, type="gcp:container/nodePool:NodePool")
        later = Resource({"nodeCount": UNKNOWN}, type="gcp:container/nodePool:NodePool")
        assert list(big.pick(known)) == [known]
        assert [str(doubt) for doubt in big.pick(later)] == ["nodeCount"]
        with pytest.raises(UndecidedError, match="nodeCount"):
            Stack((known, later)).of(big)
