"""`python3 -m staging model|fetch|publish`; everything else is said by the environment."""

from __future__ import annotations

import os
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
    try:
        if command == "model":
            hub = Hub(_token, os.environ.get("HUB_URL", HUB))
            stage(hub, bucket, os.environ["MODEL"], os.environ["REVISION"])
        elif command == "fetch":
            programs.fetch(bucket, os.environ["PREFIX"], Path(os.environ["FOLDER"]))
        else:
            programs.publish(
                bucket, os.environ["PREFIX"], Path(os.environ["FOLDER"]), os.environ["READY_URL"]
            )
    except DeniedError as error:
        say(f"cannot stage: {error}")
        return HOPELESS
    except (RefusedError, *BROKEN) as error:
        say(f"failed, to be tried again: {error}")
        if command == "model":
            return 1
    if command == "publish":
        programs.stay()
    return 0


def _token() -> str | None:
    path = os.environ.get("HUB_TOKEN_FILE")
    return Path(path).read_text().strip() if path else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
