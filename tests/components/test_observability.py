"""Scraping, the dashboard, and alerts that somebody can act on."""

import json
import re
from typing import Any

import pytest

from catalog.vllm import metric_error
from tests.support.dev import dev
from tests.support.recorder import Graph
from tests.support.shipped import shipped


def _queries(graph: Graph) -> dict[str, str]:
    """PromQL by where it stands: alerts and charts."""
    found = {}
    for alert in graph.of("AlertPolicy"):
        (condition,) = alert.inputs["conditions"]
        query = condition["conditionPrometheusQueryLanguage"]["query"]
        found[alert.name.removeprefix("observability-")] = query
    for title, query in _charts(graph):
        found[title] = f"{found.get(title, '')} {query}".strip()
    return found


def _charts(graph: Graph) -> list[tuple[str, str]]:
    board = json.loads(graph.one("Dashboard").inputs["dashboardJson"])
    return [
        (tile["widget"]["title"], each["timeSeriesQuery"]["prometheusQuery"])
        for tile in board["mosaicLayout"]["tiles"]
        for each in tile["widget"]["xyChart"]["dataSets"]
    ]


def test_every_vllm_metric_that_is_asked_for_is_published() -> None:
    text = " ".join(_queries(dev()).values())
    names = set(re.findall(r"vllm:\w+", text))
    assert len(names) > 6
    assert [error for each in sorted(names) if (error := metric_error(each))] == []


def test_every_query_is_of_this_cluster_and_well_formed() -> None:
    queries = _queries(dev())
    lost = [name for name, query in queries.items() if 'tpuserve-test"' not in query]
    assert lost == []
    broken = [
        name
        for name, query in queries.items()
        if any(query.count(a) != query.count(b) for a, b in ("()", "{}", "[]"))
        or query.count('"') % 2
    ]
    assert broken == []


@pytest.mark.parametrize(
    "words", ["waiting", "KV cache", "first token", "Tokens per second", "TPU duty"]
)
def test_the_dashboard_answers_what_people_ask(words: str) -> None:
    assert [title for title, _ in _charts(dev()) if words in title]


def test_tiles_do_not_overlap() -> None:
    board = json.loads(dev().one("Dashboard").inputs["dashboardJson"])
    taken: set[tuple[int, int]] = set()
    for tile in board["mosaicLayout"]["tiles"]:
        cells = {
            (tile["xPos"] + x, tile["yPos"] + y)
            for x in range(tile["width"])
            for y in range(tile["height"])
        }
        assert not cells & taken
        taken |= cells
        assert tile["xPos"] + tile["width"] <= board["mosaicLayout"]["columns"]


def test_the_collector_finds_the_pods_and_names_the_job_that_queries_ask_for() -> None:
    graph = dev()
    (monitoring,) = graph.of("PodMonitoring")
    spec = monitoring.inputs["spec"]
    labels = graph.one("Deployment").inputs["spec"]["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    assert spec["endpoints"] == [{"port": 8000, "path": "/metrics", "interval": "15s"}]
    job = monitoring.inputs["metadata"]["name"]
    assert f'job="{job}"' in _queries(graph)["llama-no-replica"]
    assert monitoring.inputs["metadata"]["namespace"] == "serving"


def test_there_are_four_alerts_a_model_and_each_says_what_to_do() -> None:
    alerts = {each.name: each.inputs for each in dev().of("AlertPolicy")}
    assert sorted(alerts) == [
        f"observability-llama-{each}" for each in ("cache-full", "no-replica", "queue", "restarts")
    ]
    silent = [
        name
        for name, each in alerts.items()
        if len(each["documentation"]["content"]) < 80 or "`" not in each["documentation"]["content"]
    ]
    assert silent == []


def _alerts_of_groups() -> dict[str, dict[str, Any]]:
    return {
        each.name.removeprefix("observability-"): each.inputs
        for each in shipped("prod").of("AlertPolicy")
    }


def test_a_role_that_is_gone_has_an_alert_of_its_own() -> None:
    queries = _queries(shipped("prod"))
    for role in ("prefill", "decode"):
        query = queries[f"qwen-no-{role}"]
        assert f'role="{role}"' in query
        assert query.endswith("or vector(0)) < 1")
    assert "qwen-no-replica" not in queries
    monitoring = shipped("prod").one("PodMonitoring", "observability-qwen-metrics").inputs["spec"]
    (copied,) = monitoring["targetLabels"]["fromPod"]
    assert copied["to"] == "role"
    roles = {
        template["metadata"]["labels"][copied["from"]]
        for group in shipped("prod").of("LeaderWorkerSet")
        if group.name.startswith("qwen-")
        for template in [group.inputs["spec"]["leaderWorkerTemplate"]["workerTemplate"]]
        if monitoring["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    }
    assert roles == {"prefill", "decode"}


def test_no_alert_on_groups_advises_on_what_they_do_not_have() -> None:
    alerts = _alerts_of_groups()
    assert len(alerts) == 5
    wrong = [
        (name, word)
        for name, each in alerts.items()
        for word in ("deploy", "hpa", "intent", "replicas.max", "slices.max")
        if word in each["documentation"]["content"]
    ]
    assert wrong == []
    silent = [
        name
        for name, each in alerts.items()
        if "kubectl -n llm" not in each["documentation"]["content"]
    ]
    assert silent == []


def test_alerts_begin_once_the_model_has_served() -> None:
    graph = dev()
    server = graph.one("Deployment", "llama-server")
    early = [each.name for each in graph.of("AlertPolicy") if not graph.depends(each, server)]
    assert early == []
    assert not graph.depends(graph.one("PodMonitoring"), server)


def test_alerts_reach_those_the_stack_names() -> None:
    there = "projects/my-project/notificationChannels/7"
    words: dict[str, Any] = {"emails": {"team": "ml@example.com"}, "channels": [there]}
    graph = dev({"tpuserve:observability": words})
    (channel,) = graph.of("NotificationChannel")
    assert channel.inputs["labels"] == {"email_address": "ml@example.com"}
    for alert in graph.of("AlertPolicy"):
        assert alert.inputs["notificationChannels"] == [there, "observability-team-id"]
    assert dev().of("NotificationChannel") == []


def test_the_queue_that_alerts_is_said_in_the_stack_file() -> None:
    graph = dev({"tpuserve:observability": {"queueAlert": 7}})
    assert "> 7 and" in _queries(graph)["llama-queue"]


def test_a_second_model_is_on_the_same_dashboard() -> None:
    qwen = {
        "mode": "singleHost",
        "pool": "trillium",
        "model": "Qwen/Qwen3-32B",
        "revision": "0" * 40,
        "namespace": "other",
    }
    changes = {"tpuserve:tpuPools.trillium.slices.max": 3, "tpuserve:serving.qwen": qwen}
    graph = dev(changes)
    assert len(graph.of("Dashboard")) == 1
    assert len(graph.of("AlertPolicy")) == 8
    charts = dict(_charts(graph))
    assert 'job=~"llama|qwen"' in charts["Requests waiting"]
    assert 'namespace_name=~"other|serving"' in charts["TPU duty cycle"]


def test_the_output_leads_to_the_dashboard() -> None:
    assert dev().stack_outputs["dashboards"]["serving"] == (
        "https://console.cloud.google.com/monitoring/dashboards/builder/"
        "observability-dashboard-id?project=my-project"
    )
