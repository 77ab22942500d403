"""How long a webhook is waited for, and what is said when it never answers."""

import asyncio
from typing import Any

import pulumi
import pytest

from components import hooks

REFUSED = (
    "resource queues/tpu was not successfully created by the Kubernetes API server: Internal error "
    'occurred: failed calling webhook "vclusterqueue.kb.io": failed to call webhook: Post '
    '"https://kueue-webhook-service.kueue-system.svc:443/validate-kueue-x-k8s-io-v1beta2-'
    'clusterqueue?timeout=10s": context deadline exceeded'
)
DENIED = 'admission webhook "vclusterqueue.kb.io" denied the request: spec.resourceGroups: too many'


def _args(errors: list[str], operation: str = "create") -> pulumi.ErrorHookArgs:
    return pulumi.ErrorHookArgs(
        urn="", id="", name="gate", type="t", failed_operation=operation, errors=errors
    )


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What reaches the user; no time passes."""
    lines: list[str] = []
    for level in ("info", "error"):
        monkeypatch.setattr(pulumi.log, level, lambda text, *_, **__: lines.append(text))
    monkeypatch.setattr(asyncio, "sleep", _no_time)
    monkeypatch.setattr(pulumi, "ErrorHook", lambda _, func: func)
    return lines


async def _no_time(_: float) -> None:
    return


def _ask(binding: pulumi.ResourceHookBinding, args: pulumi.ErrorHookArgs) -> Any:
    assert binding.on_error
    answer = binding.on_error[0](args)
    return asyncio.run(answer) if asyncio.iscoroutine(answer) else answer


def _gate() -> pulumi.ResourceHookBinding:
    return hooks.until_answered("x", "the webhook for queues", "kubectl get pods")


def test_a_webhook_that_does_not_answer_is_asked_again(said: list[str]) -> None:
    assert _ask(_gate(), _args([REFUSED])) is True
    assert said == ["waiting for the webhook for queues to answer (attempt 1)"]


def test_a_webhook_that_says_no_is_believed(said: list[str]) -> None:
    assert _ask(_gate(), _args([DENIED, REFUSED])) is False
    assert said == []


def test_patience_ends_after_five_minutes_with_the_place_to_look(said: list[str]) -> None:
    attempts = 0
    while _ask(_gate(), _args([REFUSED] * (attempts + 1))):
        attempts += 1
    waited = sum(filter(None, (hooks.pause(each) for each in range(1, attempts + 1))))
    assert 300 <= waited <= 306
    # The engine gives up by itself at the hundredth.
    assert attempts < 100
    assert "did not answer for 300 s. Look with: kubectl get pods" in said[-1]
    assert "port 9443" in said[-1]


def test_the_first_attempts_follow_quickly() -> None:
    assert [hooks.pause(each) for each in (1, 2, 3, 4, 5, 6, 7)] == pytest.approx(
        [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    )


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        ("create", "AdmissionCheck slices: is not Active. Look with: kubectl describe"),
        ("delete", "does not go: something still holds a finalizer"),
        ("update", "AdmissionCheck slices: is not Active. Look with: kubectl describe"),
    ],
)
def test_a_wait_in_vain_is_explained_and_not_repeated(
    said: list[str], operation: str, words: str
) -> None:
    binding = hooks.explained("x", "AdmissionCheck slices", "kubectl describe", "is not Active")
    late = "AdmissionCheck timed out waiting for condition=Active"
    assert _ask(binding, _args([late], operation)) is False
    assert words in said[0]


def test_a_webhook_without_an_answer_is_not_taken_for_a_wait(said: list[str]) -> None:
    binding = hooks.explained("x", "ClusterQueue tpu", "kubectl describe", "is not Active")
    assert _ask(binding, _args([REFUSED])) is False
    assert ["a webhook did not answer" in each for each in said] == [True]
    assert "is not Active" not in said[0]


def test_another_error_is_left_to_speak_for_itself(said: list[str]) -> None:
    binding = hooks.explained("x", "AdmissionCheck slices", "kubectl describe", "is not Active")
    assert _ask(binding, _args([DENIED])) is False
    assert said == []
