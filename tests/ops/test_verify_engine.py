"""`ops verify` against an inference engine that is not ours."""

from collections.abc import Iterator

import pytest
from rich.console import Console

from ops.verify import Endpoint, Options, verify
from ops.verify.command import Display
from ops.verify.evidence import Result, Status
from tests.support import tiny_llama

pytestmark = pytest.mark.skipif(not tiny_llama.available(), reason=tiny_llama.WHY_NOT)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with tiny_llama.serve(tmp_path_factory.mktemp("engine")) as url:
        yield url


def test_a_real_engine_is_verified(address: str) -> None:
    endpoint = Endpoint(name="tiny", url=address, model=tiny_llama.MODEL, chat=True)
    evidence = verify(
        [endpoint],
        options=Options(wait=20, max_tokens=24),
        reporter=Display(Console(quiet=True)),
    )
    found = {check.name: check for check in evidence.endpoints[0].checks}
    assert {name: check.status for name, check in found.items()} == {
        "ready": Status.PASSED,
        "model": Status.PASSED,
        "completion": Status.PASSED,
        "chat": Status.PASSED,
        "streaming": Status.PASSED,
        # It publishes no vllm: metrics, and says so.
        "metrics": Status.SKIPPED,
    }
    assert evidence.result is Result.PASSED
    assert found["streaming"].observed["usage"]["completion_tokens"] == 24


def test_random_weights_do_not_pass_for_a_model_that_was_taught(address: str) -> None:
    endpoint = Endpoint(name="tiny", url=address, model=tiny_llama.MODEL)
    evidence = verify(
        [endpoint],
        options=Options(wait=20, max_tokens=24, accuracy=True),
        reporter=Display(Console(quiet=True)),
    )
    assert evidence.endpoints[0].checks[-1].name == "accuracy"
    assert evidence.result is Result.FAILED


def test_a_real_engine_under_another_name_is_refused(address: str) -> None:
    endpoint = Endpoint(name="tiny", url=address, model="meta-llama/Llama-3.1-8B")
    evidence = verify([endpoint], options=Options(wait=20), reporter=Display(Console(quiet=True)))
    assert evidence.result is Result.FAILED
    assert tiny_llama.MODEL in evidence.endpoints[0].checks[-1].detail
