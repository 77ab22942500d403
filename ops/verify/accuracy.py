"""Scored questions: whether a model still knows what it knows when its caches are moved.

A cache that arrives damaged raises no error; the text is merely wrong. The questions are easy for
any model worth a slice, so a low score means the machinery, not the model.
"""

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

from ops.verify.api import Api

LOWEST = 0.7
"""Share that must be right; the least of the served models reaches 0.9 on such questions."""
LARGEST_LOSS = 0.08
"""What the way through two servers may cost against one alone: numerics differ a little."""
AT_ONCE = 8
LONGEST_ANSWER = 24

_WORD = re.compile(r"[^\w.]+")


@dataclass(frozen=True)
class Question:
    """What is asked, and the answers that count, the shortest form of each."""

    text: str
    answers: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Score:
    """How many were right, and what was said where one was not."""

    right: int
    asked: int
    wrong: tuple[tuple[str, str], ...]

    @property
    def share(self) -> float:
        return self.right / self.asked

    def as_row(self) -> dict[str, Any]:
        wrong = [{"question": asked, "said": said} for asked, said in self.wrong]
        return {"right": self.right, "share": round(self.share, 4), "wrong": wrong}


@cache
def questions() -> tuple[str, tuple[Question, ...]]:
    """The text before every question, and the questions."""
    file = resources.files("ops.verify").joinpath("questions.yaml")
    table = yaml.safe_load(file.read_text("utf-8"))
    rows = [Question(text, tuple(map(str, answers))) for text, *answers in table["questions"]]
    return str(table["before"]), tuple(rows)


def score(api: Api, model: str) -> Score:
    """Ask everything once, greedily. Raises what the server's failures raise."""
    before, rows = questions()

    def ask(row: Question) -> str:
        body = {
            "model": model,
            "prompt": f"{before}\nQ: {row.text}\nA:",
            "max_tokens": LONGEST_ANSWER,
            "temperature": 0,
            "stop": ["\n"],
        }
        choices = api.post("/completions", body).get("choices") or [{}]
        return str(choices[0].get("text") or "")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        said = list(pool.map(ask, rows))
    wrong = [(row.text, text) for row, text in zip(rows, said, strict=True) if not right(row, text)]
    return Score(right=len(rows) - len(wrong), asked=len(rows), wrong=tuple(wrong))


def right(row: Question, said: str) -> bool:
    """Whether the first line holds one of the answers as whole words."""
    line = said.strip().split("\n", 1)[0]
    words = _words(line)
    return any(_within(_words(answer), words) for answer in row.answers)


def _words(text: str) -> list[str]:
    return [
        each.strip(".") for each in _WORD.split(text.lower().replace(",", "")) if each.strip(".")
    ]


def _within(part: Sequence[str], whole: Sequence[str]) -> bool:
    size = len(part)
    return any(list(whole[at : at + size]) == list(part) for at in range(len(whole) - size + 1))


def compare(routed: Score, direct: Score | None) -> str | None:
    """Why the answers are not to be trusted, or None."""
    if direct is not None and direct.share - routed.share > LARGEST_LOSS:
        return (
            f"{direct.share - routed.share:.0%} are lost on the way through two servers: caches or "
            "recurrent state arrive damaged"
        )
    if routed.share < LOWEST:
        return f"below {LOWEST:.0%}: wrong weights, tokenizer or numerics"
    return None
