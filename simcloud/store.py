"""What exists in the simulated cloud: one SQLite file shared by providers and readers."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simcloud.values import is_secret, plain, secret

_SCHEMA = """
create table if not exists resource (
    key text primary key, package text, type text, name text, id text, scope text,
    status text, props text, serial integer, created real, ready real);
create index if not exists resource_name on resource(type, name);
create index if not exists resource_scope on resource(scope, type);
create table if not exists reference (source text, target text, primary key (source, target));
create index if not exists reference_target on reference(target);
create table if not exists address (host text primary key, key text);
create table if not exists counter (name text primary key, value integer);
create table if not exists fault (position integer primary key, spec text);
create table if not exists call (
    seq integer primary key, started real, ended real, package text, method text, urn text,
    type text, name text, minutes real, error text);
"""

SEALED = "__sealed"


@dataclass(frozen=True, kw_only=True)
class Record:
    """One live object. `status` is "creating" until its simulated creation is over."""

    key: str
    package: str
    type: str
    name: str
    id: str
    scope: str
    status: str
    props: dict[str, Any]
    serial: int
    created: float
    ready: float


@dataclass(frozen=True, kw_only=True)
class Call:
    """One request of the engine, with wall-clock seconds and the simulated minutes it took."""

    started: float
    ended: float
    package: str
    method: str
    urn: str
    type: str
    name: str
    minutes: float
    error: str
    seq: int = 0


_CALL = tuple(Call.__annotations__)


class Store:
    """The database below `folder`. Secret values are kept as digests, never in clear."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.lock = threading.RLock()
        self._db = sqlite3.connect(
            folder / "cloud.db", check_same_thread=False, timeout=30, isolation_level=None
        )
        self._db.execute("pragma journal_mode=wal")
        self._db.execute("pragma synchronous=off")
        with self.lock:
            self._db.executescript(_SCHEMA)
        self._salt = str(folder).encode()

    def close(self) -> None:
        with self.lock:
            self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self.lock:
            nested = self._db.in_transaction
            if not nested:
                self._db.execute("begin immediate")
            try:
                yield
            except BaseException:
                if not nested:
                    self._db.execute("rollback")
                raise
            if not nested:
                self._db.execute("commit")

    # Objects

    def get(self, key: str) -> Record | None:
        return next(self._records("where key = ?", (key,)), None)

    def find(self, type_: str, name: str) -> list[Record]:
        """The objects of a type with a name; an index answers, not a scan."""
        return list(self._records("where type = ? and name = ?", (type_, name)))

    def all(self, type_: str | None = None, scope: str | None = None) -> list[Record]:
        clauses = {"type": type_, "scope": scope}
        given = {key: value for key, value in clauses.items() if value is not None}
        where = " and ".join(f"{key} = ?" for key in given)
        return list(self._records(f"where {where}" if where else "", tuple(given.values())))

    def count(self, type_: str | None = None) -> int:
        query, args = "select count(*) from resource", ()
        if type_ is not None:
            return int(self._one(f"{query} where type = ?", (type_,)))
        return int(self._one(query, args))

    def put(self, record: Record, references: Iterable[str] = ()) -> None:
        """The object as it now is, and the keys of the objects it refers to."""
        row = [
            json.dumps(self.seal(value)) if field == "props" else value
            for field, value in vars(record).items()
        ]
        with self.transaction():
            self._db.execute(
                "insert or replace into resource values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row
            )
            self._db.execute("delete from reference where source = ?", (record.key,))
            self._db.executemany(
                "insert or ignore into reference values (?, ?)",
                [(record.key, target) for target in references],
            )

    def set_ready(self, key: str) -> None:
        with self.lock:
            self._db.execute("update resource set status = 'ready' where key = ?", (key,))

    def change(self, key: str, props: dict[str, Any]) -> None:
        """New properties for a live object, behind the engine's back."""
        with self.lock:
            self._db.execute(
                "update resource set props = ? where key = ?", (json.dumps(self.seal(props)), key)
            )

    def drop(self, key: str) -> None:
        with self.transaction():
            self._db.execute("delete from resource where key = ?", (key,))
            self._db.execute("delete from reference where source = ?", (key,))
            self._db.execute("delete from address where key = ?", (key,))

    def drop_scope(self, scope: str) -> None:
        """Everything that lived inside one object, such as the objects of a cluster."""
        with self.transaction():
            keys = [row[0] for row in self._all("select key from resource where scope = ?", scope)]
            for key in keys:
                self.drop(key)

    def referrers(self, key: str) -> list[Record]:
        sources = self._all("select source from reference where target = ?", key)
        return [record for row in sources if (record := self.get(row[0]))]

    # Names under which a cluster answers

    def announce(self, host: str, key: str) -> None:
        with self.lock:
            self._db.execute("insert or replace into address values (?, ?)", (host, key))

    def at(self, host: str) -> str | None:
        with self.lock:
            row = self._db.execute("select key from address where host = ?", (host,)).fetchone()
        return row[0] if row else None

    # Counters, faults and the log

    def next(self, counter: str) -> int:
        with self.transaction():
            self._db.execute(
                "insert into counter values (?, 1) "
                "on conflict(name) do update set value = value + 1",
                (counter,),
            )
            return int(self._one("select value from counter where name = ?", (counter,)))

    def faults(self) -> list[tuple[int, str]]:
        with self.lock:
            return self._db.execute("select position, spec from fault order by position").fetchall()

    def set_faults(self, specs: Iterable[str]) -> None:
        with self.transaction():
            self._db.execute("delete from fault")
            self._db.execute("delete from counter where name like 'fault|%'")
            self._db.executemany("insert into fault(spec) values (?)", [(spec,) for spec in specs])

    def log(self, call: Call) -> None:
        columns = _CALL[:-1]
        with self.lock:
            self._db.execute(
                f"insert into call ({', '.join(columns)}) "  # noqa: S608
                f"values ({', '.join('?' * len(columns))})",
                [getattr(call, column) for column in columns],
            )

    def calls(self, after: int = 0) -> list[Call]:
        with self.lock:
            rows = self._db.execute(
                f"select {', '.join(_CALL)} from call where seq > ? order by seq",  # noqa: S608
                (after,),
            )
            return [Call(**dict(zip(_CALL, row, strict=True))) for row in rows]

    # Secrets

    def seal(self, value: Any) -> Any:
        """The value with a digest in place of every secret."""
        if is_secret(value):
            return {SEALED: self._digest(value)}
        if isinstance(value, dict):
            return {key: self.seal(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.seal(item) for item in value]
        return value

    def unseal(self, live: Any, known: Any) -> Any:
        """The live value, secrets taken from `known` where the digest says they are the same."""
        if isinstance(live, dict):
            if SEALED in live:
                same = known is not None and self._digest(known) == live[SEALED]
                return secret(plain(known)) if same else secret("changed outside")
            inner = plain(known) if is_secret(known) else known
            below = inner if isinstance(inner, dict) else {}
            value: Any = {key: self.unseal(item, below.get(key)) for key, item in live.items()}
        elif isinstance(live, list):
            inner = plain(known) if is_secret(known) else known
            items = inner if isinstance(inner, list) else []
            padded = [*items, *[None] * (len(live) - len(items))]
            value = [self.unseal(item, old) for item, old in zip(live, padded, strict=False)]
        else:
            value = live
        return secret(plain(value)) if is_secret(known) else value

    def _digest(self, value: Any) -> str:
        text = json.dumps(plain(value), sort_keys=True).encode()
        return hashlib.blake2s(text, key=hashlib.sha256(self._salt).digest()).hexdigest()

    # Rows

    def _records(self, where: str, args: tuple[Any, ...]) -> Iterator[Record]:
        with self.lock:
            rows = self._db.execute(f"select * from resource {where}", args).fetchall()  # noqa: S608
        for row in rows:
            fields = dict(zip(Record.__annotations__, row, strict=True))
            fields["props"] = json.loads(fields["props"])
            yield Record(**fields)

    def _all(self, query: str, *args: Any) -> list[tuple[Any, ...]]:
        with self.lock:
            return self._db.execute(query, args).fetchall()

    def _one(self, query: str, args: tuple[Any, ...]) -> Any:
        with self.lock:
            return self._db.execute(query, args).fetchone()[0]
