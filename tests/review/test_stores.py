"""DUR5xx: keys and values in the state stores."""

from __future__ import annotations

import pytest

TASK = """
import json
import pickle
import uuid
import datetime as dt
from datetime import datetime, timedelta, timezone
from decimal import Decimal
import pendulum
from airflow.hooks.base import BaseHook
from airflow.sdk import Asset, get_current_context, task

ORDERS = Asset("orders")
NOTHING = None

@task(outlets=[ORDERS])
def load(partition, rows, logical_date=None, asset_state_store=None, task_state_store=None, **kw):
    store = kw["task_state_store"]
    orders = asset_state_store[ORDERS]
    {body}
"""


def in_task(body: str, mapped: bool = False) -> str:
    call = "load.expand(partition=[1, 2])" if mapped else "load(1)"
    return TASK.format(body=body.replace("\n", "\n    ")) + f"\n{call}\n"


@pytest.mark.parametrize(
    "store",
    [
        "store",
        "task_state_store",
        "orders",
        "asset_state_store",
        'kw["task_state_store"]',
        'kw.get("task_state_store")',
        'get_current_context()["task_state_store"]',
        'kw["asset_state_store"][ORDERS]',
    ],
)
def test_a_store_is_known_however_it_is_reached(codes, store: str) -> None:
    assert "DUR501" in codes(in_task(f'{store}.set("key", None)'))


def test_other_objects_with_a_set_method_are_no_stores(codes) -> None:
    assert (
        codes(
            in_task(
                'cache.set("a.b", None)\nredis = rows\nredis.set("a/b", None)\nkw["other"].set("x", None)'
            )
        )
        == []
    )


@pytest.mark.parametrize("value", ["None", "NOTHING", "value=None", "rows if rows else None"])
def test_none_is_found_in_its_forms(codes, value: str) -> None:
    assert codes(in_task(f'store.set("key", {value})'), only="DUR501") == ["DUR501"]


@pytest.mark.parametrize(
    "value",
    [
        "datetime.now(tz=timezone.utc)",
        "dt.datetime(2026, 1, 1, tzinfo=timezone.utc)",
        "pendulum.now()",
        "logical_date",
        'kw["data_interval_end"]',
        "timedelta(days=1)",
        "{1, 2}",
        "set(rows)",
        "b'x'",
        "Decimal(1)",
        "uuid.uuid4()",
        '{"at": [pendulum.now()]}',
        "(row for row in rows)",
        "pendulum.now() if rows else 0",
    ],
)
def test_what_json_has_no_form_for_is_found(codes, value: str) -> None:
    assert codes(in_task(f'store.set("key", {value})'), only="DUR502") == ["DUR502"]


@pytest.mark.parametrize(
    "value",
    [
        "datetime.now(tz=timezone.utc).isoformat()",
        "str(uuid.uuid4())",
        "logical_date.isoformat()",
        "len(set(rows))",
        "sorted({1, 2})",
        '{"n": 1, "ok": True, "names": ["a"]}',
        "partition",
        "17",
    ],
)
def test_json_is_left_alone(codes, value: str) -> None:
    assert codes(in_task(f'store.set("key", {value})')) == []


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ('"a.b"', 1),
        ('"a/b"', 1),
        ('f"orders/{partition}"', 1),
        ('"orders_eu"', 0),
        ('f"o_{partition}"', 0),
        ("partition", 0),
    ],
)
def test_keys_with_dots_or_slashes(codes, key: str, found: int) -> None:
    for method in ("set({}, 1)", "get({})", "delete({})"):
        assert codes(in_task(f"store.{method.format(key)}"), only="DUR503") == ["DUR503"] * found


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("datetime.utcnow().isoformat()", 1),
        ("datetime.now().isoformat()", 1),
        ("str(dt.datetime.utcnow())", 1),
        ("now", 1),
        ("datetime.now(timezone.utc).isoformat()", 0),
        ("datetime.utcnow().replace(tzinfo=timezone.utc).isoformat()", 0),
        ("datetime.now().astimezone().isoformat()", 0),
        ("pendulum.now().isoformat()", 0),
    ],
)
def test_times_without_a_timezone(codes, value: str, found: int) -> None:
    assert (
        codes(in_task(f'now = datetime.utcnow().isoformat()\norders.set("w", {value})'), only="DUR504")
        == ["DUR504"] * found
    )


@pytest.mark.parametrize(
    ("body", "mapped", "found"),
    [
        ('orders.set("offset", rows)', True, 1),
        ('asset_state_store[ORDERS].set("offset", rows)', True, 1),
        ('orders.set(f"offset_{partition}", rows)', True, 0),
        ('key = f"offset_{partition}"\norders.set(key, rows)', True, 0),
        ('asset_state_store[Asset(partition)].set("offset", rows)', True, 0),
        ('orders.set("offset", rows)', False, 0),
        ('store.set("offset", rows)', True, 0),
    ],
)
def test_mapped_tasks_that_write_one_key_of_an_asset(codes, body: str, mapped: bool, found: int) -> None:
    assert codes(in_task(body, mapped), only="DUR505") == ["DUR505"] * found


def test_a_classic_operator_that_is_mapped_counts_as_well(codes) -> None:
    code = """
    from airflow.operators.python import PythonOperator

    def load(name, asset_state_store=None):
        asset_state_store.set("offset", 1)

    PythonOperator.partial(task_id="load", python_callable=load).expand(op_args=[["a"], ["b"]])
    """
    assert codes(code) == ["DUR505"]


@pytest.mark.parametrize(
    ("body", "mapped", "found"),
    [("store.clear()", True, 1), ("orders.clear()", True, 1), ("store.clear()", False, 0)],
)
def test_clear_in_a_mapped_task(codes, body: str, mapped: bool, found: int) -> None:
    assert codes(in_task(body, mapped), only="DUR506") == ["DUR506"] * found


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("cursor.fetchall()", 1),
        ("frame.to_dict()", 1),
        ("json.dumps(frame.to_dict())", 1),
        ("pickle.dumps(model).hex()", 1),
        ("open(path).read()", 1),
        ("all_rows", 1),
        ("len(cursor.fetchall())", 0),
        ("config.get('size')", 0),
        ("cursor.fetchone()", 0),
    ],
)
def test_large_payloads(codes, value: str, found: int) -> None:
    assert (
        codes(in_task(f'all_rows = hook.get_records(sql)\nstore.set("k", {value})'), only="DUR507")
        == ["DUR507"] * found
    )


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ('"api_key"', "x", 1),
        ('"accessToken"', "x", 1),
        ('"login"', "BaseHook.get_connection('c').password", 1),
        ('"login"', '{"user": user, "pw": os.environ["DB_PASSWORD"]}', 1),
        ('"login"', "Variable.get('client_secret')", 1),
        ('"url"', "f'{user}:{password}@host'", 1),
        ('"next_page_token"', "page['next_page_token']", 0),
        ('"sync_token"', "x", 0),
        ('"rows"', "fetch(password)", 0),
        ('"token_count"', "3", 0),
    ],
)
def test_secrets(codes, key: str, value: str, found: int) -> None:
    assert codes(in_task(f"store.set({key}, {value})"), only="DUR508") == ["DUR508"] * found


def test_the_asset_store_from_the_context_of_a_task_function(codes) -> None:
    assert codes(in_task('kw["asset_state_store"][ORDERS].get("x")'), only="DUR509") == ["DUR509"]
    operator = """
    from airflow.sdk import BaseOperator

    class Load(BaseOperator):
        def execute(self, context):
            context["asset_state_store"][ORDERS].get("x")
    """
    assert codes(operator) == []


def test_the_asynchronous_methods_are_the_same_to_the_rules(codes) -> None:
    assert codes(in_task('await_(orders.aset("a.b", None))')) == ["DUR501", "DUR503"]
