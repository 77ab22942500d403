"""The script of the staging Job and of the cache containers, run as the pods run it."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.staging import bucket as bucket_module
from components.staging.bucket import Bucket, Token
from components.staging.hub import DeniedError, Hub
from components.staging.model import stage
from components.staging.programs import fetch, publish, publish_until_done
from components.staging.web import RefusedError
from tests.support.fake_storage import HUB_TOKEN, MODEL, REVISION, World, storage

ROOT = Path(__file__).parents[2]
FOLDER = f"models/{MODEL}/{REVISION}"
WEIGHTS = bytes(range(256)) * 4096 * 3 + b"tail"
FILES = {
    "config.json": b'{"architectures": ["Tiny"]}',
    "empty.txt": b"",
    "tokenizer.json": b"{}" * 5000,
    "model-00001-of-00002.safetensors": WEIGHTS,
    "model-00002-of-00002.safetensors": WEIGHTS[::-1],
    "pytorch_model.bin": b"the same weights again",
    "original/consolidated.00.pth": b"and again",
    "README.md": b"# Tiny",
    ".gitattributes": b"*",
}
LARGE = frozenset(name for name in FILES if name.endswith((".safetensors", ".bin", ".pth")))
WANTED = ["config.json", "empty.txt", "model-00001-of-00002.safetensors",
          "model-00002-of-00002.safetensors", "tokenizer.json"]  # fmt: skip


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small pieces and short pauses; the real ones only make the tests wait."""
    monkeypatch.setattr(bucket_module, "PIECE", 256 * 1024)
    monkeypatch.setattr("components.staging.model.PIECE", 100_000)
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr("components.staging.programs.SETTLE_SECONDS", 0)


@pytest.fixture
def world() -> Iterator[World]:
    with storage(World(files=dict(FILES), large=LARGE)) as found:
        yield found


def _bucket(world: World, grant_seconds: float = 30) -> Bucket:
    return Bucket("weights", world.url, Token(world.url), grant_seconds)


def _stage(world: World, token: str | None = None) -> None:
    stage(Hub(lambda: token, world.url), _bucket(world), MODEL, REVISION)


def _staged(world: World) -> dict[str, bytes]:
    return {
        name.removeprefix(f"{FOLDER}/"): data
        for name, (data, _) in world.objects.items()
        if name.startswith(FOLDER)
    }


def test_all_that_vllm_reads_is_copied_and_nothing_else(world: World) -> None:
    _stage(world)
    assert sorted(_staged(world)) == WANTED
    assert [name for name, data in _staged(world).items() if data != FILES[name]] == []


def test_a_second_run_copies_nothing_and_asks_the_hub_nothing(world: World) -> None:
    _stage(world)
    world.asked.clear()
    _stage(world)
    assert dict(world.asked) == {"list": 1, "read": 1}


def test_a_run_that_was_killed_goes_on_with_the_files_that_are_missing(world: World) -> None:
    _stage(world)
    del world.objects[f"manifests/{MODEL}/{REVISION}.json"]
    del world.objects[f"{FOLDER}/model-00001-of-00002.safetensors"]
    world.asked.clear()
    _stage(world)
    assert world.asked["resolve"] == 1
    assert sorted(_staged(world)) == WANTED


def test_a_changed_object_is_copied_again(world: World) -> None:
    _stage(world)
    name = f"{FOLDER}/config.json"
    world.objects[name] = (b"other" + FILES["config.json"], {})
    _stage(world)
    assert _staged(world)["config.json"] == FILES["config.json"]


def test_a_broken_download_goes_on_where_it_stopped(world: World) -> None:
    world.break_hub_after = 1_000_000
    _stage(world)
    assert _staged(world)["model-00001-of-00002.safetensors"] == WEIGHTS
    assert world.asked["resolve"] > len(WANTED)


def test_an_upload_goes_on_from_what_the_bucket_has_kept(world: World) -> None:
    world.lose_upload_bytes = 256 * 1024
    _stage(world)
    assert [name for name, data in _staged(world).items() if data != FILES[name]] == []


def test_a_wrong_checksum_leaves_no_object(world: World) -> None:
    world.corrupt = "model-00002-of-00002.safetensors"
    with pytest.raises(OSError, match=r"model-00002.*the hub says"):
        _stage(world)
    assert world.corrupt not in _staged(world)
    assert f"manifests/{MODEL}/{REVISION}.json" not in world.objects


def test_a_listing_of_many_pages_is_read_to_its_end(world: World) -> None:
    world.page = 2
    _stage(world)
    assert sorted(_staged(world)) == WANTED


def test_a_bucket_that_is_busy_is_asked_again(world: World) -> None:
    world.failing = 3
    _stage(world)
    assert sorted(_staged(world)) == WANTED


def test_a_fresh_grant_is_waited_for(world: World) -> None:
    world.refused = 4
    _stage(world)
    assert sorted(_staged(world)) == WANTED


def test_a_grant_that_never_comes_is_told(world: World) -> None:
    world.refused = 10**6
    with pytest.raises(RefusedError, match="answered 403"):
        stage(Hub(lambda: None, world.url), _bucket(world, 0), MODEL, REVISION)


def test_the_token_goes_to_the_hub_and_to_nobody_else(world: World) -> None:
    world.token = HUB_TOKEN
    _stage(world, HUB_TOKEN)
    assert world.asked["resolve"] == len(WANTED) - 1  # an empty file is not asked for
    assert world.leaked == []


@pytest.mark.parametrize(
    ("token", "accepted", "revision", "message"),
    [
        (None, True, REVISION, "needs a token: set the secret tpuserve:huggingFaceToken"),
        ("hf_wrong", True, REVISION, "refuses the token"),
        (HUB_TOKEN, False, REVISION, "accept its licence at https://huggingface.co/org/tiny"),
        (HUB_TOKEN, True, "f" * 40, "no org/tiny of this revision"),
    ],
)
def test_a_no_of_the_hub_says_what_to_do(
    world: World, token: str | None, accepted: bool, revision: str, message: str
) -> None:
    world.token, world.licence_accepted = HUB_TOKEN, accepted
    with pytest.raises(DeniedError, match=message):
        stage(Hub(lambda: token, world.url), _bucket(world), MODEL, revision)


def test_the_first_replica_publishes_and_later_ones_fetch(world: World, tmp_path: Path) -> None:
    world.create_only = True
    first, later = tmp_path / "a" / "xla", tmp_path / "b" / "xla"
    assert fetch(_bucket(world), "v6e/abc", first) == 0
    (first / "nested").mkdir()
    (first / "jit_step-cache").write_bytes(WEIGHTS)
    (first / "nested" / "other-cache").write_bytes(b"small")
    assert publish(_bucket(world), "v6e/abc", first, f"{world.url}/v1/models") == 2

    assert fetch(_bucket(world), "v6e/abc", later) == 2
    assert (later / "jit_step-cache").read_bytes() == WEIGHTS
    assert (later / "nested" / "other-cache").read_bytes() == b"small"
    world.asked.clear()
    assert publish(_bucket(world), "v6e/abc", later, "http://unused.invalid") == 0
    assert world.asked["object"] == 0


def test_two_replicas_that_compile_at_once_do_not_mix(world: World, tmp_path: Path) -> None:
    world.create_only = True
    ready = f"{world.url}/v1/models"
    one, two, three = (tmp_path / each / "xla" for each in "abc")
    for folder, body in ((one, b"compiled by one"), (two, b"compiled by two")):
        assert fetch(_bucket(world), "p", folder) == 0
        (folder / "same-name").write_bytes(body)
    assert publish(_bucket(world), "p", one, ready) == 1
    assert publish(_bucket(world), "p", two, ready) == 0
    assert fetch(_bucket(world), "p", three) == 1
    assert (three / "same-name").read_bytes() == b"compiled by one"


def test_a_damaged_cache_never_keeps_a_server_from_starting(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "a" / "xla"
    fetch(_bucket(world), "p", folder)
    (folder / "entry").write_bytes(b"good")
    (folder / "second").write_bytes(b"good too")
    publish(_bucket(world), "p", folder, f"{world.url}/v1/models")
    name = f"p/{hashlib.sha256(b'good').hexdigest()}"
    world.objects[name] = (b"evil", {})
    other = tmp_path / "b" / "xla"
    assert fetch(_bucket(world), "p", other) == 0
    assert [path.name for path in other.parent.rglob("*")] == ["xla"]
    assert "this replica compiles its own: entry is not what was" in capsys.readouterr().out


@pytest.mark.parametrize(
    "manifest", [b"not json", b"[1]", b'{"files": ["entry"]}', b'{"files": 1}']
)
def test_a_manifest_of_any_kind_lets_the_server_start(
    world: World, tmp_path: Path, manifest: bytes
) -> None:
    world.objects["p/complete.json"] = (manifest, {})
    assert fetch(_bucket(world), "p", tmp_path / "xla") == 0
    assert list((tmp_path / "xla").iterdir()) == []


def test_half_a_fetch_is_neither_used_nor_taken_for_warm(world: World, tmp_path: Path) -> None:
    """An init container that was killed while it wrote, and the one that follows it."""
    first, later = tmp_path / "a" / "xla", tmp_path / "b" / "xla"
    fetch(_bucket(world), "p", first)
    (first / "entry").write_bytes(b"whole")
    publish(_bucket(world), "p", first, f"{world.url}/v1/models")
    (tmp_path / "b" / "xla.part").mkdir(parents=True)
    (tmp_path / "b" / "xla.part" / "left").write_bytes(b"ha")
    assert fetch(_bucket(world), "p", later) == 1
    assert [path.name for path in later.iterdir()] == ["entry"]
    assert sorted(path.name for path in later.parent.iterdir()) == [".warm", "xla"]


def test_what_a_pod_compiled_before_a_restart_is_kept(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "xla"
    fetch(_bucket(world), "p", folder)
    (folder / "entry").write_bytes(b"own")
    assert fetch(_bucket(world), "p", folder) == 0
    assert (folder / "entry").read_bytes() == b"own"
    assert publish(_bucket(world), "p", folder, f"{world.url}/v1/models") == 1


def test_a_failed_publish_is_tried_again_until_it_is_done(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world.create_only = True
    folder = tmp_path / "a" / "xla"
    fetch(_bucket(world), "p", folder)
    (folder / "entry").write_bytes(b"compiled")
    world.refused = 3
    publish_until_done(_bucket(world), "p", folder, f"{world.url}/v1/models")
    said = capsys.readouterr().out
    waits = re.findall(r"not published, tried again in (\d+) s: .* answered 403", said)
    assert waits == ["30", "60", "120"]
    assert "published 1 compiled programs" in said
    assert fetch(_bucket(world), "p", tmp_path / "b" / "xla") == 1


def test_no_fault_ends_the_sidecar(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def attempt(*_: object) -> int:
        tried.append(1)
        if len(tried) < 3:
            raise ZeroDivisionError
        return 1

    monkeypatch.setattr("components.staging.programs.publish", attempt)
    publish_until_done(_bucket(world), "p", tmp_path, world.url)
    assert len(tried) == 3


def test_a_program_that_changes_while_it_is_read_is_not_published(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a" / "xla"
    fetch(_bucket(world), "p", folder)
    (folder / "entry").write_bytes(b"one")
    put = Bucket.put

    def late(bucket: Bucket, name: str, size: int, *rest: Any, **more: Any) -> str | None:
        (folder / "entry").write_bytes(b"two")
        return put(bucket, name, size, *rest, **more)

    monkeypatch.setattr(Bucket, "put", late)
    with pytest.raises(OSError, match="changes while it is read"):
        publish(_bucket(world), "p", folder, f"{world.url}/v1/models")
    assert world.objects == {}


def _shipped(tmp_path: Path) -> Path:
    """The package as the ConfigMap mounts it: no repository around it."""
    target = tmp_path / "opt" / "staging"
    target.mkdir(parents=True)
    for path in (ROOT / "components" / "staging").glob("*.py"):
        shutil.copy(path, target)
    return target.parent


def _command(
    world: World, tmp_path: Path, command: str, *, memory: int | None = None, **env: str
) -> dict[str, Any]:
    """What `subprocess` needs to run a command as a pod does."""
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_DATA, ({memory}, {memory})); "
    start = (
        "import sys, runpy; sys.path.insert(0, sys.argv.pop(1)); sys.argv[0:1] = ['staging']; "
        f"from staging import programs; programs.SETTLE_SECONDS = 0; {limit if memory else ''}"
        "runpy.run_module('staging', run_name='__main__', alter_sys=True)"
    )
    return {
        "args": [sys.executable, "-I", "-c", start, str(_shipped(tmp_path)), command],
        "env": {
            "PATH": os.environ["PATH"],
            "BUCKET": "weights",
            "STORAGE_URL": world.url,
            "METADATA_URL": world.url,
            "HUB_URL": world.url,
            "GRANT_SECONDS": "0",
            "MODEL": MODEL,
            "REVISION": REVISION,
            **env,
        },
        "text": True,
    }


def _run(
    world: World, tmp_path: Path, command: str, **env: str
) -> subprocess.CompletedProcess[str]:
    asked = _command(world, tmp_path, command, memory=None, **env)
    return subprocess.run(**asked, capture_output=True, check=False, timeout=60)


def test_the_job_stages_with_python_alone_and_says_how_far_it_is(
    world: World, tmp_path: Path
) -> None:
    world.token = HUB_TOKEN
    token = tmp_path / "token"
    token.write_text(f"{HUB_TOKEN}\n")
    done = _run(world, tmp_path, "model", HUB_TOKEN_FILE=str(token))
    assert done.returncode == 0, done.stderr
    assert f"staging {MODEL} at 0123456789ab: 5 files, 6.3 MB" in done.stdout
    assert "5 of 5 files, 6.3 MB of 6.3 MB (100 %)" in done.stdout
    assert HUB_TOKEN not in done.stdout + done.stderr
    rows = json.loads(world.objects[f"manifests/{MODEL}/{REVISION}.json"][0])["files"]
    assert len(rows) == len(WANTED)


def test_the_job_ends_for_good_when_the_hub_says_no(world: World, tmp_path: Path) -> None:
    world.token = HUB_TOKEN
    done = _run(world, tmp_path, "model")
    assert done.returncode == 3
    assert "cannot stage: org/tiny needs a token" in done.stdout
    assert "Traceback" not in done.stderr


MEMORY = 400 * 2**20
"""Less than the programs below, and a fifth of what the containers have."""
PROGRAMS = 14 * 32 * 2**20


def test_a_cache_larger_than_memory_is_published_and_fetched(world: World, tmp_path: Path) -> None:
    assert PROGRAMS > MEMORY
    first, later = tmp_path / "a" / "xla", tmp_path / "b" / "xla"
    first.mkdir(parents=True)
    for index in range(14):
        (first / f"program-{index}").write_bytes(bytes([index]) * (PROGRAMS // 14))
    ready = {"READY_URL": f"{world.url}/v1/models", "PREFIX": "p"}
    asked = _command(world, tmp_path / "one", "publish", memory=MEMORY, FOLDER=str(first), **ready)
    with subprocess.Popen(**asked, stdout=subprocess.PIPE) as sidecar:
        assert sidecar.stdout
        said = sidecar.stdout.readline()
        sidecar.send_signal(signal.SIGTERM)
        assert sidecar.wait(timeout=30) == 0
    assert "published 14 compiled programs" in said

    asked = _command(world, tmp_path / "two", "fetch", memory=MEMORY, FOLDER=str(later), PREFIX="p")
    done = subprocess.run(**asked, capture_output=True, check=False, timeout=60)
    assert "fetched 14 compiled programs, 469.8 MB" in done.stdout, done.stdout + done.stderr
    assert sum(path.stat().st_size for path in later.iterdir()) == PROGRAMS


def test_the_sidecar_ends_while_it_waits_for_its_server(world: World, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    asked = _command(
        world,
        tmp_path,
        "publish",
        FOLDER=str(tmp_path / "a" / "xla"),
        PREFIX="p",
        READY_URL="http://127.0.0.1:9/health",
        PYTHONUNBUFFERED="1",
    )
    with subprocess.Popen(**asked) as sidecar:
        with pytest.raises(subprocess.TimeoutExpired):
            sidecar.wait(timeout=2)
        sidecar.send_signal(signal.SIGTERM)
        assert sidecar.wait(timeout=30) == 0
