"""Every setting at its limit and one above it: by a request where one can show it, else by the test that is named."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from raw_http import Client, head
from services import Here, error_message, here

from setwise.errors import InvalidInput
from setwise.service.settings import Settings, table

pytestmark = [pytest.mark.nightly, pytest.mark.promise("settings")]
TESTS = Path(__file__).parents[1]
SMALL = {
    "body_bytes": 1024, "head_bytes": 1024, "headers": 12, "k": 5, "slow_k": 3, "history": 4, "exclude": 3, "batch": 2, "outcomes": 2,
    "deadline_ms": 30_000,
}  # fmt: skip
Answer = Callable[[Here, int], tuple[int, str]]  # to a request of this size: its status and message


@pytest.fixture(scope="module")
def limited(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    with here(folder, log=tmp_path_factory.mktemp("log"), budget_ms=5, **SMALL) as service:
        yield service


def _body(field: str, of: Callable[[int], Any], path: str = "/v1/recommend", **more: Any) -> Answer:
    """A body whose field has the size."""

    def answer(service: Here, size: int) -> tuple[int, str]:
        response = service.client.post(path, json={**more, field: of(size)})
        return response.status_code, "" if response.status_code == 200 else error_message(response)

    return answer


def _long_body(service: Here, size: int) -> tuple[int, str]:
    content = json.dumps({"history": ["song-1"], "k": 2}).encode()
    response = service.client.post("/v1/recommend", content=content + b" " * (size - len(content)))
    return response.status_code, "" if response.status_code == 200 else error_message(response)


def _head(service: Here, lines: list[str]) -> tuple[int, str]:
    with Client(service) as client:
        raw = head(0, *lines, path="/healthz", method="GET")
        status, _, body = client.send(raw).response()
    return status, "" if status == 200 else json.loads(body)["error"]["message"]


def _long_head(service: Here, size: int) -> tuple[int, str]:
    counted = len("/healthz") + len("Hostlocalhost") + len("Content-Length0") + len("X") + 3 * 4
    return _head(service, ["X: " + "a" * (size - counted)])


def _many_headers(service: Here, size: int) -> tuple[int, str]:
    return _head(service, [f"X-{number}: 1" for number in range(size - 2)])


def _songs(size: int) -> list[str]:
    return [f"song-{number + 1}" for number in range(size)]


def _outcomes(size: int) -> list[dict[str, str]]:
    return [{"slate": "unknown", "item": "song-1"}] * size


BY_REQUEST: dict[str, tuple[Answer, int]] = {  # and the status one above the limit
    "body_bytes": (_long_body, 413),
    "head_bytes": (_long_head, 431),
    "headers": (_many_headers, 431),
    "k": (_body("k", int, history=[]), 422),
    "slow_k": (_body("k", int, "/v1/explain", history=[]), 422),
    "history": (_body("history", _songs, k=2), 422),
    "exclude": (_body("exclude", _songs, history=[], k=2), 422),
    "batch": (_body("requests", lambda size: [{"history": [], "k": 2}] * size, "/v1/recommend/batch"), 422),
    "outcomes": (_body("outcomes", _outcomes, "/v1/outcomes"), 422),
    "deadline_ms": (_body("budget_ms", int, history=[], k=1), 422),
}
ELSEWHERE = {  # limits of time, of processes and of all requests together
    "body_ms": "service/test_hostile.py::test_slow_bodies_do_not_delay_others",
    "bodies_bytes": "service/test_connections.py::test_all_bodies_share_a_budget",
    "head_ms": "service/test_connections.py::test_a_slow_head",
    "idle_ms": "service/test_connections.py::test_idle_connections_are_closed",
    "unread_ms": "service/test_connections.py::test_pipelined_requests_without_reading",
    "connections": "service/test_connections.py::test_the_number_of_connections",
    "connections_per_address": "service/test_connections.py::test_the_number_of_connections",
    "page_k": "service/test_page_slate.py::test_the_length_of_the_first_slate",
    "queue": "service/test_queue.py::test_a_full_queue_sheds_at_once",
    "budget_ms": "service/test_degradation.py::test_levels_of_a_queue",
    "workers": "service/test_worker_pool.py::test_workers_are_separate_processes",
    "micro_batch": "service/test_queue.py::test_tasks_of_a_group_are_computed_together_and_none_waits_for_others",
    "grace_ms": "service/test_worker_pool.py::test_a_worker_stopped_in_a_task_is_killed_after_the_deadline",
    "heartbeat_ms": "service/test_worker_pool.py::test_a_stopped_idle_worker_is_replaced",
    "start_ms": "service/test_reload.py::test_a_worker_that_takes_too_long_to_open_the_artifact",
    "explore_permille": "service/test_outcome_log.py::test_explored_slates_are_logged_with_their_propensities",
    "log_wait_h": "service/test_outcome_log.py::test_drift_counts_settled_slates_of_a_week",
    "log_weeks": "storage/test_slate_log.py::test_only_so_many_weeks_are_kept",
    "drain_ms": "service/test_worker_pool.py::test_sigterm_ends_the_service_with_a_stopped_worker",
}


@pytest.mark.parametrize("name", BY_REQUEST)
def test_a_request_at_the_limit_and_one_above(limited: Here, name: str) -> None:
    answer, refused = BY_REQUEST[name]
    assert answer(limited, SMALL[name]) == (200, "")
    status, message = answer(limited, SMALL[name] + 1)
    assert status == refused
    assert str(SMALL[name]) in message, "the message names the limit"


def test_every_setting_has_a_case() -> None:
    assert not set(BY_REQUEST) & set(ELSEWHERE)
    assert set(BY_REQUEST) | set(ELSEWHERE) == {row.name for row in table()}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_the_named_test_sets_the_setting(name: str) -> None:
    """It exists, and passes the setting by name or by option, itself or by a fixture of its file."""
    path, _, test = ELSEWHERE[name].partition("::")
    source = (TESTS / path).read_text(encoding="utf-8")
    functions = {
        one.name for one in ast.walk(ast.parse(source)) if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    assert test in functions
    spellings = (f"{name.removeprefix('log_')}=", f"--{name.replace('_', '-')}", f'"{name}"')
    assert any(spelling in source for spelling in spellings)


@pytest.mark.parametrize("row", list(table()), ids=lambda row: row.name)
def test_the_ends_of_every_setting(row: Any) -> None:
    for good in (row.least, row.most):
        assert getattr(Settings(**{row.name: good}), row.name) == good
    for bad in (row.least - 1, row.most + 1):
        with pytest.raises(InvalidInput, match=f"{row.name} must be"):
            Settings(**{row.name: bad})
