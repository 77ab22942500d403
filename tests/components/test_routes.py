"""What a load balancer passes on to a model: its API, and nothing that answers without the key."""

import pytest

from tests.support.dev import INTERNAL, PUBLIC, dev
from tests.support.files import stack_config
from tests.support.recorder import Graph, record
from tests.support.variants import changed

QWEN = "tpuserve:serving.qwen"
SPLIT_PUBLIC = {
    f"{QWEN}.exposure": {"kind": "public", "host": "llm.example.com", "certificate": "mine"},
    f"{QWEN}.apiKeySecret": "key",
}


def _routed(graph: Graph) -> list[list[dict[str, object]]]:
    (route,) = graph.of("HTTPRoute")
    return [rule["matches"] for rule in route.inputs["spec"]["rules"]]


ONLY_THE_API = [[{"path": {"type": "PathPrefix", "value": "/v1"}}]]


@pytest.mark.parametrize("way", [INTERNAL, PUBLIC], ids=["internal", "public"])
def test_a_model_on_one_host_is_reached_under_v1_alone(way: dict[str, object]) -> None:
    """Elsewhere vLLM asks for no key: /invocations answers, and /pause stops the server."""
    assert _routed(dev(way)) == ONLY_THE_API


@pytest.mark.parametrize("changes", [{}, SPLIT_PUBLIC], ids=["internal", "public"])
def test_a_model_on_slices_is_reached_under_v1_alone(changes: dict[str, object]) -> None:
    assert _routed(record(changed(stack_config("prod"), changes), stack="prod")) == ONLY_THE_API
