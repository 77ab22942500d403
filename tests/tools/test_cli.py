"""Which Pulumi CLI is taken: PATH if it fits, else the cache, else it is made once."""

import multiprocessing
import os
import socket
import threading
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tools import build, cli, download
from tools.progress import SetupError

GOOD = f"v{cli.VERSION}"
silence = download.silence


@pytest.fixture
def console() -> Console:
    return Console(file=StringIO(), width=200)


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with an empty PATH folder and an empty user cache, and no network."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(download, "silence", lambda: "no network in tests")
    return tmp_path


def fake(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n[ \"$1\" = version ] && echo '{says}'\n")
    path.chmod(0o755)
    return path


def said(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_a_fitting_cli_on_path_wins_over_the_cached_one(machine: Path) -> None:
    on_path = fake(machine / "bin" / "pulumi", GOOD)
    fake(cli.cache_dir() / "pulumi", GOOD)
    assert cli.find() == on_path
    assert cli.origin(on_path) == "on PATH"


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        ("v3.271.9", "version 3.271.9, older than 3.272.0"),
        ("v3.272.0-alpha.1", "older than 3.272.0"),
        ("v2.21.2", "version 2.21.2, where the Python SDK speaks to 3.x alone"),
        ("v4.0.0", "version 4.0.0, where the Python SDK speaks to 3.x alone"),
        ("", "gives no version"),
        ("<missing>", "gives no version"),
    ],
)
def test_an_unfit_cli_on_path_is_passed_over_with_its_reason(
    machine: Path, says: str, reason: str
) -> None:
    fake(machine / "bin" / "pulumi", says)
    assert cli.find() is None
    cached = fake(cli.cache_dir() / "pulumi", GOOD)
    assert cli.find() == cached
    assert reason in (cli.unfit(says) or "")


@pytest.mark.parametrize("says", ["v3.272.0", "3.272.0", "v3.300.1", "v3.274.1+dirty"])
def test_every_release_from_the_minimum_on_fits(says: str) -> None:
    assert cli.unfit(says) is None


def test_a_cli_on_path_that_cannot_run_is_passed_over(machine: Path) -> None:
    broken = machine / "bin" / "pulumi"
    broken.write_text("not a program")
    broken.chmod(0o755)
    assert cli.find() is None


def test_without_the_cache_variable_the_cache_is_in_the_home_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cli.cache_dir() == tmp_path / ".cache" / "tpuserve" / f"pulumi-{cli.VERSION}"


def test_the_download_comes_before_the_build(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "silence", lambda: None)
    monkeypatch.setattr(download, "INSTALLER", installer(GOOD))
    path = cli.ensure(console)
    assert path == cli.cache_dir() / "pulumi"
    assert cli.origin(path) == "official download"
    assert cli.version(path) == GOOD


def test_a_silent_download_is_given_up_for_the_build(
    console: Console, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(machine / "bin" / "pulumi", "v3.100.0")
    monkeypatch.setattr(build, "build", lambda home, *_rest: fake(home / "pulumi", GOOD))
    path = cli.ensure(console)
    assert cli.origin(path) == "built from tools/go.mod"
    assert "Not used:" in said(console)
    assert "version 3.100.0, older than" in said(console)
    assert "no network in tests" in said(console)


def test_a_cached_cli_that_does_not_work_is_named(console: Console) -> None:
    fake(cli.cache_dir() / "pulumi", "")
    with pytest.raises(SetupError, match=r"pulumi does not work .*: remove it"):
        cli.ensure(console)


def test_an_unwritable_cache_is_named_with_the_way_out(
    console: Console, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(machine / "file"))
    with pytest.raises(SetupError, match=r"cannot keep the Pulumi CLI in .*: set XDG_CACHE_HOME"):
        cli.ensure(console)


def _set_up(tally: Path) -> None:
    def count(home: Path, version: str, console: Console) -> Path:
        assert version == cli.VERSION
        console.print("building")
        with tally.open("a") as file:
            file.write("built\n")
        return fake(home / "pulumi", GOOD)

    build.build = count
    cli.ensure(Console(file=StringIO()))


def test_set_ups_at_the_same_time_build_once(machine: Path) -> None:
    fork = multiprocessing.get_context("fork")
    runs = [fork.Process(target=_set_up, args=(machine / "tally",)) for _ in range(4)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert [run.exitcode for run in runs] == [0, 0, 0, 0]
    assert (machine / "tally").read_text() == "built\n"


def installer(says: str, *, before: str = "") -> str:
    """A stand-in for the Automation API's installer, started in the same way."""
    return f"""
import pathlib, sys, time
{before}
target = pathlib.Path(sys.argv[1], "bin", "pulumi")
target.parent.mkdir(parents=True)
target.write_text("#!/bin/sh\\necho '{says}'\\n")
target.chmod(0o755)
"""


class TestDownload:
    """The official installer never gives up by itself; ours does, and leaves nothing half-done."""

    @pytest.fixture
    def home(self, machine: Path) -> Path:
        home = machine / "home"
        home.mkdir()
        return home

    @pytest.fixture
    def site(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
        """A listener on this machine in the place of the official site."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
            monkeypatch.setattr(download, "ADDRESS", address)
            yield listener

    def test_a_site_that_takes_the_call_and_says_nothing_is_given_up(
        self, site: socket.socket, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(download, "ANSWER_SECONDS", 0.3)
        assert silence() in {"no answer in 0 s", "timed out"}
        site.accept()[0].close()

    def test_a_site_that_refuses_is_given_up_with_its_reason(self, site: socket.socket) -> None:
        site.close()
        assert "Connection refused" in (silence() or "")

    def test_a_site_that_answers_is_used(self, site: socket.socket) -> None:
        def answer() -> None:
            caller, _ = site.accept()
            with caller:
                caller.recv(4096)
                caller.sendall(b"HTTP/1.0 200 OK\r\n\r\n#!/bin/sh\n")

        server = threading.Thread(target=answer)
        server.start()
        assert silence() is None
        server.join()

    def test_its_last_word_is_the_reason(
        self, home: Path, console: Console, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fails = "sys.exit('trying\\n\\x1b[31merror: curl is required\\x1b[0m\\n')"
        monkeypatch.setattr(download, "INSTALLER", installer(GOOD, before=fails))
        assert download.fetch(home, cli.VERSION, console) == "error: curl is required"
        assert list(home.iterdir()) == []

    def test_it_is_stopped_when_nothing_comes_any_more(
        self, home: Path, console: Console, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stuck = "pathlib.Path('archive').write_bytes(b'part'); time.sleep(600)"
        monkeypatch.setattr(download, "INSTALLER", installer(GOOD, before=stuck))
        monkeypatch.setattr(download, "STALL_SECONDS", 0.5)
        assert (download.fetch(home, cli.VERSION, console) or "").startswith("nothing came for")
        assert list(home.iterdir()) == []

    def test_an_interrupted_earlier_one_is_replaced(
        self, home: Path, console: Console, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (home / "official").mkdir()
        (home / "official" / "rest").touch()
        monkeypatch.setattr(download, "INSTALLER", installer(GOOD))
        assert download.fetch(home, cli.VERSION, console) is None
        assert os.readlink(home / "pulumi") == "official/bin/pulumi"  # noqa: PTH115 the text counts
        assert sorted(path.name for path in home.iterdir()) == ["official", "pulumi"]
