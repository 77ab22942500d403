"""A comment has a size limit: whole blocks go, the least important first."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

GITHUB_LIMIT = 65_536
"""Longest comment GitHub takes, in characters."""

BUDGET = 60_000
"""Counted in UTF-8 bytes, which are never fewer than characters."""

NEVER_DROPPED = 100


@dataclass(frozen=True, kw_only=True)
class Block:
    """Text that stays or goes as a whole; `what` names it when it goes."""

    text: str
    importance: int
    what: str

    @property
    def size(self) -> int:
        return len(self.text.encode())


@dataclass(kw_only=True)
class Section:
    """Blocks under a heading that disappears with the last of them."""

    heading: str = ""
    closing: str = ""
    blocks: list[Block] = field(default_factory=list)

    @property
    def frame(self) -> int:
        return len(self.heading.encode()) + len(self.closing.encode())


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """What was kept, and how many of what were not."""

    text: str
    dropped: dict[str, int]


def fit(sections: Sequence[Section], budget: int = BUDGET) -> Fitted:
    """The sections' text within `budget` bytes."""
    kept = {id(block) for section in sections for block in section.blocks}
    open_blocks = {id(section): len(section.blocks) for section in sections}
    size = sum(
        section.frame + sum(block.size for block in section.blocks)
        for section in sections
        if section.blocks
    )
    dropped: Counter[str] = Counter()
    for block, section in _expendable(sections):
        if size <= budget:
            break
        kept.remove(id(block))
        dropped[block.what] += 1
        size -= block.size
        open_blocks[id(section)] -= 1
        if not open_blocks[id(section)]:
            size -= section.frame
    parts = []
    for section in sections:
        texts = [block.text for block in section.blocks if id(block) in kept]
        if texts:
            parts.append(section.heading + "".join(texts) + section.closing)
    return Fitted(text="".join(parts), dropped=dict(dropped))


def _expendable(sections: Sequence[Section]) -> Iterable[tuple[Block, Section]]:
    """Least important first; among equals the last, so that lists lose their tails."""
    numbered = [
        (block.importance, -position, block, section)
        for position, (block, section) in enumerate(
            (block, section) for section in sections for block in section.blocks
        )
        if block.importance < NEVER_DROPPED
    ]
    numbered.sort(key=lambda each: each[:2])
    return [(block, section) for _, _, block, section in numbered]
