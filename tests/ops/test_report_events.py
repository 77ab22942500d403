"""Event logs of the real CLI, whole, broken and strange."""

import json
from pathlib import Path

import pytest

from ops.preview.events import parse, read
from ops.preview.source import load
from tests.ops.previews import EVENTS, ended, log, recorded, step

BUCKET = "gcp:storage/bucket:Bucket"


def test_the_three_formats_of_the_cli_tell_the_same_plan() -> None:
    plans = [recorded(name) for name in ("resize", "streaming", "digest.json")]
    told = {
        (plan.stack, change.urn, change.operation, change.leaves)
        for plan in plans
        for change in plan.acting
    }
    assert len(told) == 1
    assert [plan.counts for plan in plans] == [{"same": 12, "update": 1}] * 3


def test_the_json_digest_is_known_to_lack_policies() -> None:
    assert not recorded("digest.json").has_policies
    assert recorded("resize").has_policies


@pytest.mark.parametrize("path", sorted(EVENTS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_every_line_of_a_recording_is_understood(path: Path) -> None:
    events = read(path)
    assert (events.unreadable, events.unknown) == (0, set())
    assert events.ended


def test_a_log_cut_off_in_the_middle_keeps_what_came_before(tmp_path: Path) -> None:
    whole = (EVENTS / "resize.jsonl").read_text()
    cut = tmp_path / "events.jsonl"
    cut.write_text(whole[: len(whole) * 2 // 3])
    events = read(cut)
    assert events.steps
    assert events.unreadable == 1
    assert not events.ended


def test_events_and_fields_of_a_later_cli_are_passed_over() -> None:
    known = step("create", BUCKET, "weights", new={"name": "w"})
    known["resourcePreEvent"]["metadata"]["invented"] = {"a": 1}
    known["resourcePreEvent"]["metadata"]["new"]["invented"] = [1]
    events = log({"inventedEvent": {"x": 1}}, known)
    assert events.unknown == {"inventedEvent"}
    assert [each.op for each in events.steps] == ["create"]


@pytest.mark.parametrize(
    "line",
    [
        "Previewing update (prod):",
        "[1, 2]",
        '{"resourcePreEvent": {"metadata": 3}}',
        '{"resourcePreEvent": null}',
        '{"resourcePreEvent": {"metadata": {"urn": "u"}}}',
        '{"policyEvent": {"message": [1]}}',
        '{"summaryEvent": {"resourceChanges": "many"}}',
    ],
)
def test_a_line_that_is_no_event_is_counted_and_does_no_harm(line: str) -> None:
    good = json.dumps(step("create", BUCKET, "weights", new={"name": "w"}))
    events = parse([line, good, *map(json.dumps, ended())])
    assert events.unreadable == 1
    assert len(events.steps) == 1
    assert events.ended


def test_null_in_place_of_maps_and_lists_reads_as_empty() -> None:
    event = step("update", BUCKET, "weights", old={"a": 1}, new={"a": 2})
    for side in ("old", "new"):
        event["resourcePreEvent"]["metadata"][side]["outputs"] = None
    (only,) = log(event).steps
    assert only.keys == []
    assert only.detailed_diff == {}
    assert only.old
    assert only.old.outputs == {}


def test_a_preview_folder_without_a_log_is_a_run_that_never_began(tmp_path: Path) -> None:
    folder = tmp_path / "prod"
    folder.mkdir()
    (folder / "output.txt").write_text("error: no stack named 'prod' found\n")
    (folder / "exit-code").write_text("255\n")
    preview = load(folder)
    assert (preview.stack, preview.exit_code) == ("prod", 255)
    assert preview.log.steps == []
    assert "no stack named" in preview.output
