"""A model on two roles is verified end to end, and each known fault is caught and named."""

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from catalog.compatibility import longest_local_prefill
from ops.verify import Endpoint, Evidence, Options, verify
from ops.verify.accuracy import Question, Score, compare, questions, right
from ops.verify.evidence import Check, Result, Status, Subject
from ops.verify.groups import samples
from ops.verify.prompts import fresh
from ops.verify.relay import pod
from tests.support.split_servers import ENGINE, FRONT, GATEWAY, MODEL, Faults, Site, serve

KUBECTL = """#!{python}
import json, pathlib, sys
words = [each for each in sys.argv[1:] if not each.startswith("-")]
pod = pathlib.Path({table!r}).with_name("pod.json")
if "create" in words:
    pod.write_text(sys.stdin.read())
elif "wait" in words:
    pod.stat()
elif "delete" in words:
    pod.unlink(missing_ok=True)
elif "port-forward" in words:
    script = {{"__name__": "relay"}}
    exec(json.loads(pod.read_text())["spec"]["containers"][0]["command"][2], script)
    server = script["Server"](("127.0.0.1", 0), script["Relay"])
    print(f"Forwarding from 127.0.0.1:{{server.server_address[1]}} -> 8080", flush=True)
    server.serve_forever()
else:
    table = json.loads(open({table!r}).read())
    kind = next((each for each in words if each.split(".")[0] in table), None)
    if kind is None:
        sys.exit(f"error: the server doesn't have a resource type in {{words}}")
    print(json.dumps(table[kind.split(".")[0]]))
"""


class Silent:
    def waiting(self, *_: object) -> None: ...

    def checked(self, *_: object) -> None: ...


def endpoint(site: Site, **more: Any) -> Endpoint:
    groups = {
        "namespace": "llm",
        "gateway": "qwen",
        "pool": "qwen",
        "member": "llm-d.ai/pool=qwen",
        "prefill": len(site.prefill),
        "decode": len(site.decode),
        "enginePorts": {"prefill": FRONT, "decode": ENGINE},
        "maxModelLen": 32768,
        "localPrefillTokens": site.local_prefill_tokens,
        **more.pop("groups", {}),
    }
    row = {"name": "qwen", "url": site.url, "model": MODEL, "address": GATEWAY}
    return Endpoint.model_validate({**row, "groups": groups, "needsProof": True, **more})


def cluster(site: Site) -> dict[str, Any]:
    """What kubectl prints of the same servers."""

    def one(name: str, address: str, role: str, index: str = "0") -> dict[str, Any]:
        labels = {
            "llm-d.ai/role": role,
            "llm-d.ai/pool": "qwen",
            "leaderworkerset.sigs.k8s.io/worker-index": index,
        }
        ready = [{"type": "Ready", "status": "True"}]
        return {
            "metadata": {"name": name, "labels": labels},
            "status": {"podIP": address, "conditions": ready},
        }

    pods = [one(f"qwen-prefill-{i}-0", a, "prefill") for i, a in enumerate(site.prefill)]
    pods += [one(f"qwen-decode-{i}-0", a, "decode") for i, a in enumerate(site.decode)]
    if site.faults.worker_in_pool:
        pods.append(one("qwen-decode-0-0-1", "127.0.12.1", "decode", "1"))
    return {
        "gateways": {
            "status": {
                "conditions": [{"type": "Programmed", "status": "True"}],
                "addresses": [{"type": "IPAddress", "value": GATEWAY}],
            }
        },
        "inferencepools": {"spec": {"selector": {"matchLabels": {"llm-d.ai/pool": "qwen"}}}},
        "pods": {"items": pods},
    }


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubectl that prints the table beside it, and runs the script of the pod it creates."""
    table = tmp_path / "table.json"
    program = tmp_path / "kubectl"
    program.write_text(KUBECTL.format(python=sys.executable, table=str(table)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("ops.verify.groups.SETTLE_SECONDS", 0.5)
    monkeypatch.setattr("ops.verify.groups.QUIET_SECONDS", 0.01)
    return table


def run(
    site: Site,
    kubectl: Path,
    *,
    shown: dict[str, Any] | None = None,
    groups: dict[str, Any] | None = None,
    **more: Any,
) -> Evidence:
    kubectl.write_text(json.dumps(shown or cluster(site)))
    options = replace(Options(direct=True, timeout=20, wait=2, accuracy=False), **more)
    one = endpoint(site, groups=groups or {})
    return verify([one], options=options, reporter=Silent())


def found(evidence: Evidence) -> dict[str, Check]:
    return {each.name: each for each in evidence.endpoints[0].checks}


@pytest.mark.parametrize("direct", [True, False], ids=["from here", "from the cluster"])
def test_a_sound_model_passes_every_check_and_leaves_evidence(kubectl: Path, direct: bool) -> None:
    with serve(prefill=2, decode=3) as site:
        evidence = run(site, kubectl, direct=direct, accuracy=None)
    checks = found(evidence)
    assert [name for name, each in checks.items() if each.status is not Status.PASSED] == []
    assert evidence.result is Result.PASSED
    assert list(checks) == [
        "gateway", "ready", "model", "completion", "chat", "streaming", "pool", "roles",
        "long prompt", "parallel", "accuracy",
    ]  # fmt: skip
    assert checks["roles"].observed["decode transferred"] > 100
    assert checks["roles"].observed["prefill read"] == checks["roles"].observed["prompt tokens"]
    assert checks["accuracy"].observed["questions"] >= 50
    assert not kubectl.with_name("pod.json").exists()
    assert json.loads(evidence.as_json())["result"] == "passed"


@pytest.mark.parametrize(
    ("fault", "check", "words"),
    [
        ("no_prefill_header", "roles", "served by decode alone"),
        ("picks_prefill_to_answer", "roles", "no decode server wrote anything"),
        ("nothing_transferred", "roles", "the cache of 0 of"),
        ("answers_the_router_alone", "accuracy", "asked alone for comparison: /v1/completions"),
        ("hides_metrics", "roles", "answered 404: nothing can be shown"),
        ("wrong_state", "accuracy", "are lost on the way through two servers"),
        ("wrong_everywhere", "accuracy", "wrong weights, tokenizer or numerics"),
        ("mixes_callers", "parallel", "of another caller"),
        ("forgets_long_prompts", "long prompt", "was not found again"),
        ("worker_in_pool", "pool", "the pool counts workers"),
        ("half_of_requests_fail", "streaming", "503"),
        ("cuts_answers", "completion", "the backend timeout cut the answer"),
    ],
)
def test_each_fault_is_caught_by_the_check_made_for_it(
    kubectl: Path, fault: str, check: str, words: str
) -> None:
    with serve(faults=Faults(**{fault: True})) as site:
        evidence = run(site, kubectl, accuracy=check == "accuracy")
    failed = {name: each for name, each in found(evidence).items() if each.status is Status.FAILED}
    assert evidence.result is Result.FAILED
    if fault != "half_of_requests_fail":
        assert check in failed
    told = " ".join(f"{each.detail} {each.fix}" for each in failed.values())
    assert words in told


@pytest.mark.parametrize("threshold", [300, 5000])
def test_prompts_are_long_enough_to_reach_prefill(kubectl: Path, threshold: int) -> None:
    with serve(decode=2, local_prefill_tokens=threshold) as site:
        assert run(site, kubectl).result is Result.PASSED
    with serve(decode=2, local_prefill_tokens=threshold, faults=Faults(wrong_state=True)) as site:
        accuracy = found(run(site, kubectl, accuracy=True))["accuracy"]
    assert accuracy.status is Status.FAILED
    assert "are lost on the way through two servers" in accuracy.detail


@pytest.mark.parametrize("reason", ["the picker keeps prompts in decode", "nothing is moved"])
def test_nothing_is_proved_by_prompts_whose_cache_was_not_moved(kubectl: Path, reason: str) -> None:
    kept = reason.startswith("the picker")
    faults = Faults(nothing_transferred=not kept)
    with serve(local_prefill_tokens=20_000 if kept else 0, faults=faults) as site:
        checks = found(run(site, kubectl, groups={"localPrefillTokens": 0}, accuracy=True))
    asked = ("roles", "long prompt", "parallel", "accuracy")
    assert [name for name in asked if checks[name].status is not Status.FAILED] == []
    assert "the cache of 0 of" in checks["accuracy"].detail
    assert "router.localPrefillTokens" in checks["accuracy"].fix


def test_a_threshold_that_no_prompt_can_pass_is_told(kubectl: Path) -> None:
    with serve(local_prefill_tokens=20_000) as site:
        roles = found(run(site, kubectl))["roles"]
    assert "no prompt can be shown to reach prefill" in roles.detail


def test_requests_of_others_are_not_taken_for_ours(kubectl: Path) -> None:
    faults = Faults(no_prefill_header=True, others_tokens=200)
    with serve(faults=faults) as site:
        roles = found(run(site, kubectl))["roles"]
    assert roles.status is Status.FAILED
    assert "served by decode alone" in roles.detail
    background = roles.observed["background"]["servers"]
    assert {each["read"] for each in background} == {200}


@pytest.mark.parametrize("most", [512, 2048, 32768])
def test_no_prompt_is_longer_than_the_model_takes(most: int) -> None:
    nowhere = Site(faults=Faults(), prefill=[""], decode=[""])
    for threshold in {0, longest_local_prefill(most)}:
        said = {"maxModelLen": most, "localPrefillTokens": threshold}
        groups = endpoint(nowhere, groups=said).groups
        assert groups is not None
        words = len(fresh(groups, "The end", least=100_000).split())
        assert 2 * threshold <= words
        assert words * 4 / 3 < most


def test_a_server_that_loads_behind_a_lying_health_check_never_counts_as_ready(
    kubectl: Path,
) -> None:
    with serve(faults=Faults(decode_loads_for_ever=True)) as site:
        lies = httpx.get(f"http://{site.decode[0]}:{FRONT}/health", trust_env=False)
        assert lies.status_code == 200
        truth = httpx.get(f"http://{site.decode[0]}:{FRONT}/v1/models", trust_env=False)
        assert truth.status_code == 502
        evidence = run(site, kubectl)
    assert evidence.result is Result.NOT_READY
    assert "/health answers while the model does not" in found(evidence)["ready"].fix


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"conditions": [{"type": "Programmed", "status": "False", "reason": "Pending"}]},
         "is not programmed: Pending"),
        ({"addresses": []}, "has no address"),
        ({"addresses": [{"value": "10.9.9.9"}]}, "the stack reserved"),
    ],
)  # fmt: skip
def test_a_gateway_is_judged_by_its_condition_and_address(
    kubectl: Path, change: dict[str, Any], words: str
) -> None:
    with serve() as site:
        shown = cluster(site)
        shown["gateways"]["status"].update(change)
        evidence = run(site, kubectl, shown=shown)
    assert evidence.result is Result.FAILED
    assert words in found(evidence)["gateway"].detail


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"deletionTimestamp": "2026-11-30T00:00:00Z"}, None),
        ({"labels": {"leaderworkerset.sigs.k8s.io/worker-index": "0"}}, "say no role"),
    ],
    ids=["a group that was replaced", "a pod of somebody"],
)
def test_a_pool_is_counted_by_labels_without_those_that_leave(
    kubectl: Path, change: dict[str, Any], words: str | None
) -> None:
    with serve() as site:
        shown = cluster(site)
        spare = json.loads(json.dumps(shown["pods"]["items"][-1]))
        spare["metadata"] |= {"name": "qwen-decode-0-5d4c1-0", **change}
        shown["pods"]["items"].append(spare)
        pool = found(run(site, kubectl, shown=shown))["pool"]
    assert (pool.status is Status.FAILED) is bool(words)
    assert words is None or words in pool.detail


def test_a_missing_group_is_told(kubectl: Path) -> None:
    with serve(decode=2) as site:
        shown = cluster(site)
        shown["pods"]["items"].pop()
        evidence = run(site, kubectl, shown=shown)
    assert "1 decode servers in the pool, 2 in the stack" in found(evidence)["pool"].detail


def test_a_cluster_that_cannot_be_asked_fails_and_does_not_pass(kubectl: Path) -> None:
    with serve() as site:
        evidence = run(site, kubectl, shown={"nothing": {}})
    assert evidence.result is Result.FAILED
    assert found(evidence)["pool"].status is Status.FAILED


def test_accuracy_is_asked_where_nobody_has_published_answers(kubectl: Path) -> None:
    with serve() as site:
        skipped = found(run(site, kubectl))["accuracy"]
    assert skipped.status is Status.SKIPPED


def test_a_caller_cannot_send_a_prompt_to_any_address() -> None:
    with serve() as site:
        asked = httpx.post(
            f"http://{site.decode[0]}:{FRONT}/v1/completions",
            json={"model": MODEL, "prompt": "x", "max_tokens": 1},
            headers={"x-prefiller-host-port": "127.0.0.9:80"},
            trust_env=False,
        )
    assert asked.status_code == 403


class TestQuestions:
    def test_there_are_enough_and_each_is_asked_once(self) -> None:
        before, rows = questions()
        assert len(rows) >= 50
        assert len({row.text for row in rows}) == len(rows)
        assert len(before.split()) > 100

    @pytest.mark.parametrize(
        ("said", "counts"),
        [
            (" Paris.", True),
            (" The capital is Paris, of course\nQ: next", True),
            (" Parisian", False),
            (" London\nParis", False),
            ("", False),
        ],
    )
    def test_an_answer_counts_as_whole_words_of_the_first_line(
        self, said: str, counts: bool
    ) -> None:
        assert right(Question("Capital of France?", ("Paris",)), said) is counts

    def test_numbers_count_with_and_without_separators(self) -> None:
        assert right(Question("", ("1874",)), " In 1,874.")

    @pytest.mark.parametrize(
        ("routed", "direct", "words"),
        [(60, 62, None), (40, 62, "are lost"), (40, 40, "below"), (60, 10, None)],
    )
    def test_a_loss_and_a_low_score_are_two_findings(
        self, routed: int, direct: int, words: str | None
    ) -> None:
        def of(right: int) -> Score:
            return Score(right=right, asked=64, wrong=(), prompt_tokens=64)

        told = compare(of(routed), of(direct))
        assert (told is None) == (words is None)
        assert words is None or words in (told or "")


class TestRelay:
    @pytest.fixture
    def proxy(self) -> Iterator[str]:
        script = pod("x")["spec"]["containers"][0]["command"][2]
        port = 18473
        process = subprocess.Popen([sys.executable, "-c", script, str(port)])
        for _ in range(100):
            try:
                httpx.get(f"http://127.0.0.1:{port}/", trust_env=False, timeout=1)
                break
            except httpx.ConnectError:
                time.sleep(0.05)
            except httpx.HTTPError:
                break
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()

    def test_the_script_in_the_pod_passes_requests_answers_and_streams(self, proxy: str) -> None:
        with serve() as site, httpx.Client(proxy=proxy, trust_env=False) as client:
            for _ in range(3):
                rows = client.get(f"{site.url}/v1/models").json()["data"]
                assert rows[0]["id"] == MODEL
            body = {"model": MODEL, "prompt": "x " * 40_000, "max_tokens": 4, "stream": True}
            url = f"http://{site.decode[0]}:{FRONT}/v1/completions"
            with client.stream("POST", url, json=body) as response:
                assert "data: [DONE]" in list(response.iter_lines())

    def test_a_tunnel_through_it_carries_anything_tls_as_well(self, proxy: str) -> None:
        tunnel = http.client.HTTPConnection(proxy.removeprefix("http://"), timeout=10)
        with serve() as site:
            tunnel.set_tunnel(GATEWAY, FRONT)
            for _ in range(2):
                tunnel.request("GET", "/v1/models")
                answer = tunnel.getresponse()
                assert answer.status == 200
                assert json.loads(answer.read())["data"][0]["id"] == MODEL
            tunnel.close()
        assert site.url

    def test_a_place_where_nobody_listens_is_a_bad_gateway(self, proxy: str) -> None:
        with pytest.raises(httpx.ProxyError, match="502"):
            httpx.get("https://127.0.0.8:9/", proxy=proxy, trust_env=False)
        with httpx.Client(proxy=proxy, trust_env=False) as client:
            assert client.get("http://127.0.0.8:9/").status_code == 502

    def test_the_pod_has_no_rights_and_ends_by_itself(self) -> None:
        spec = pod("verify-1")["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["activeDeadlineSeconds"] > 0
        assert spec["containers"][0]["securityContext"]["runAsNonRoot"] is True


def test_counters_are_summed_over_engines_and_kept_apart_by_source() -> None:
    text = (
        'vllm:prompt_tokens_total{engine="0"} 3.0\nvllm:prompt_tokens_total{engine="1"} 4\n'
        'vllm:prompt_tokens_by_source_total{engine="0",source="external_kv_transfer"} 9.0\n'
        'vllm:prompt_tokens_by_source_total{engine="0",source="local_compute"} 1.0\n'
    )
    assert samples(text) == {
        "vllm:prompt_tokens_total": 7.0,
        'vllm:prompt_tokens_by_source_total{source="external_kv_transfer"}': 9.0,
        'vllm:prompt_tokens_by_source_total{source="local_compute"}': 1.0,
    }


def test_evidence_without_any_ready_model_is_not_a_pass() -> None:
    assert Evidence(stack=None).result is Result.NOT_READY
    lost = Subject(name="qwen", address="", model=None)
    lost.checks.append(Check(name="ready", status=Status.FAILED, detail="gone"))
    assert Evidence(stack=None, endpoints=[lost]).result is Result.NOT_READY
