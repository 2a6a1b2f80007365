"""What the matrix says of its verdicts."""

from __future__ import annotations

from matrix import picture, real, table
from matrix.groups import BEFORE_ID, WAITING
from matrix.rows import KINDS, ROWS
from matrix.verdict import Verdict

OURS = ("batch", "poke", "ours")
UPSTREAM = ("batch", "poke", "upstream")


def matrix(*ours: Verdict) -> table.Matrix:
    """A matrix of one row, in which Apache's side starts a second job and leaves the first one alone."""
    made = table.Matrix()
    for verdict in (Verdict(WAITING, "killed"), *ours):
        made.add(OURS, verdict)
    made.add(UPSTREAM, Verdict(BEFORE_ID, "killed", duplicates=1, orphans=1, story="twice"))
    return made


def test_result_has_both_sides_and_zero_for_a_kept_promise() -> None:
    assert matrix().result() == {
        "points": 1,
        "duplicates": 0,
        "lost_results": 0,
        "orphans": 0,
        "wrong_cancels": 0,
        "upstream": {"points": 1, "duplicates": 1, "lost_results": 0, "orphans": 1, "wrong_cancels": 0},
    }
    assert list(matrix().broken()) == []


def test_a_broken_promise_is_counted_and_told() -> None:
    broken = matrix(Verdict(WAITING, "stopped", wrong_cancels=1, story="the job was cancelled"))
    assert broken.result()["wrong_cancels"] == 1
    (story,) = broken.broken()
    assert "batch, poke: stopped: wrong cancel 1" in story
    assert "the job was cancelled" in story
    assert "**1 of 2**: wrong cancel 1" in table.page(broken, "3.3.2", [])


def test_a_known_limit_is_shown_and_is_no_broken_promise() -> None:
    limit = matrix(Verdict(WAITING, "lost", orphans=1, known_limitation="nobody is told"))
    assert limit.result()["orphans"] == 0
    assert limit.result()["known_limits"] == 1
    assert list(limit.broken()) == []
    assert "| AWS Batch | poke | 1 ✓, 1 known limit |" in table.page(limit, "3.3.2", [])
    drawn = picture.draw(limit)
    assert picture.LIMIT in drawn
    assert "0 of 2 cells break the promise with this package (1 at a documented limit)" in drawn


def test_the_page_and_the_picture_show_both_sides() -> None:
    page = table.page(matrix(), "3.3.2", [])
    assert "| AWS Batch | poke | 1 ✓ | **1 of 1**: second job 1, orphan 1 |" in page
    assert "![Crash matrix: 0 of 1 cells break the promise with this package, 1 of 1 with Apache's" in page
    drawn = picture.draw(matrix())
    assert "0 of 1 cells break the promise with this package, 1 of 1 with Apache&apos;s" in drawn.replace(
        "'", "&apos;"
    )
    assert picture.BROKEN in drawn


def test_real_tests_are_lines_of_the_page() -> None:
    shown = [
        real.RealTest("batch", "poke", "test_a_kill_in_mid_poll_reconnects", passed=True, seconds=1.0),
        real.RealTest("bigquery", "defer", "test_it_outlives_its_triggerer[x]", passed=False, seconds=1.0),
    ]
    lines = list(real.lines(shown))
    assert "| AWS Batch | poke | a kill in mid poll reconnects |" in lines
    assert "| BigQuery | defer | **failed**: it outlives its triggerer |" in lines


def test_every_operator_has_a_row_for_each_way_of_ours() -> None:
    assert {row for row in ROWS if row[2] == "ours"} == {
        (name, way, "ours") for name in KINDS for way in ("poke", "reschedule", "defer")
    }
