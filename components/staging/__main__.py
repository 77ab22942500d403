"""`python3 -m staging model|fetch|publish`; everything else is said by the environment."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from . import programs
from .bucket import GRANT_SECONDS, METADATA, STORAGE, Bucket, Token
from .hub import HUB, DeniedError, Hub
from .model import say, stage
from .web import BROKEN, RefusedError

HOPELESS = 3
"""Exit code that the Job takes as final: another attempt would end the same way."""


def main(command: str) -> int:
    # The model server's user is another one, without the right to override file modes.
    os.umask(0)
    bucket = Bucket(
        os.environ["BUCKET"],
        os.environ.get("STORAGE_URL", STORAGE),
        Token(os.environ.get("METADATA_URL", METADATA)),
        float(os.environ.get("GRANT_SECONDS", GRANT_SECONDS)),
    )
    if command == "model":
        return _staged(bucket)
    prefix, folder = os.environ["PREFIX"], Path(os.environ["FOLDER"])
    if command == "fetch":
        programs.fetch(bucket, prefix, folder)
        return 0
    # The first process of a container is not ended by a signal that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    programs.publish_until_done(bucket, prefix, folder, os.environ["READY_URL"])
    while True:  # a sidecar that returns would be started again
        signal.pause()


def _staged(bucket: Bucket) -> int:
    hub = Hub(_token, os.environ.get("HUB_URL", HUB))
    try:
        stage(hub, bucket, os.environ["MODEL"], os.environ["REVISION"])
    except DeniedError as error:
        say(f"cannot stage: {error}")
        return HOPELESS
    except (RefusedError, *BROKEN) as error:
        say(f"failed, to be tried again: {error}")
        return 1
    return 0


def _token() -> str | None:
    path = os.environ.get("HUB_TOKEN_FILE")
    return Path(path).read_text().strip() if path else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
