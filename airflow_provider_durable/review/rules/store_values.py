"""DUR501, DUR502, DUR504, DUR507, DUR508: what must not go into the stores as a value."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from airflow_provider_durable.review import suggest
from airflow_provider_durable.review.findings import Report
from airflow_provider_durable.review.model import catalog
from airflow_provider_durable.review.rules import words
from airflow_provider_durable.review.rules.base import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_durable.review.dagfile import DagFile
    from airflow_provider_durable.review.model.stores import StoreCall

MAX_STEPS = 8
# Airflow's default for [state_store] max_value_storage_bytes.
MAX_BYTES = 64 * 1024

_DATETIMES = {
    "datetime.datetime": (
        "now",
        "utcnow",
        "today",
        "fromtimestamp",
        "utcfromtimestamp",
        "strptime",
        "fromisoformat",
        "combine",
    ),
    "datetime.date": ("today", "fromisoformat", "fromtimestamp"),
    "pendulum": ("now", "today", "datetime", "parse", "instance", "yesterday", "tomorrow", "from_timestamp"),
}
_PLAIN_CONSTRUCTORS = {
    "datetime.datetime": "a datetime",
    "datetime.date": "a date",
    "datetime.timedelta": "a timedelta",
    "decimal.Decimal": "a Decimal",
    "uuid.uuid4": "a UUID",
    "uuid.UUID": "a UUID",
    "set": "a set",
    "frozenset": "a set",
    "bytes": "bytes",
    "bytearray": "bytes",
    "object": "an object",
}
_CONTEXT_DATES = (
    "logical_date",
    "execution_date",
    "data_interval_start",
    "data_interval_end",
    "prev_data_interval_end_success",
)
_LARGE_METHODS = {
    "fetchall": "all rows of a query",
    "get_records": "all rows of a query",
    "get_pandas_df": "a DataFrame",
    "get_df": "a DataFrame",
    "read_csv": "a DataFrame",
    "read_parquet": "a DataFrame",
    "read_sql": "a DataFrame",
    "DataFrame": "a DataFrame",
    "to_dict": "a whole table",
    "to_json": "a whole table",
    "to_csv": "a whole table",
    "to_records": "a whole table",
    "to_pandas": "a DataFrame",
    "state_dict": "a model's weights",
    "get_weights": "a model's weights",
    "read_text": "a whole file",
    "read_bytes": "a whole file",
    "read": "a whole file",
    "readlines": "a whole file",
    "read_key": "a whole file",
    "b64encode": "an encoded file",
}


@rule("DUR501", "store-none", "None is stored: the stores raise ValueError for it")
def store_none(dag_file: DagFile) -> Iterator[Report]:
    """``set(key, None)``."""
    for store in _writes(dag_file):
        value = _resolved(dag_file, store.value)
        branches = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
        if not any(isinstance(branch, ast.Constant) and branch.value is None for branch in branches):
            continue
        holder = ast.unparse(store.call.func).rsplit(".", 1)[0]
        key = suggest.code(dag_file, store.key) if store.key is not None else "..."
        always = not isinstance(value, ast.IfExp)
        yield Report(
            store.call,
            f"The store raises ValueError for None{'' if always else ', which this value can be'}. A key "
            "that is not there "
            "already reads as None: delete it instead.",
            before=suggest.call_statement(dag_file, store.call),
            after=f"{holder}.delete({key})" if always else None,
        )


@rule(
    "DUR502",
    "store-not-json",
    "a value that JSON has no form for is stored: a datetime, a set, bytes, an object",
)
def store_not_json(dag_file: DagFile) -> Iterator[Report]:
    """A value that is no JSON."""
    for store in _writes(dag_file):
        found = _not_json(dag_file, store.value)
        if found is None:
            continue
        node, what = found
        text = "as text: .isoformat()" if what.startswith(("a date",)) else "in a form that JSON has"
        after = None
        if what.startswith("a date") and store.value is node and isinstance(node, ast.Call):
            key = suggest.code(dag_file, store.key) if store.key is not None else "..."
            after = f"{ast.unparse(store.call.func)}({key}, {_aware(dag_file, node)}.isoformat())"
        yield Report(
            store.call,
            f"The value is {what}, and the stores take JSON only (str, int, float, bool, list, dict). Store "
            f"it {text}.",
            before=suggest.call_statement(dag_file, store.call),
            after=after,
        )


@rule("DUR504", "naive-watermark", "a time without a timezone is stored")
def naive_watermark(dag_file: DagFile) -> Iterator[Report]:
    """``datetime.utcnow()`` or ``datetime.now()`` as a stored value."""
    for store in _writes(dag_file):
        for node in _parts(dag_file, store.value):
            if isinstance(node, ast.Call) and _is_naive(dag_file, node):
                yield Report(
                    store.call,
                    f"{suggest.code(dag_file, node)} has no timezone, and a reader in another one takes it "
                    "for another time. Store "
                    "datetime.now(tz=timezone.utc).isoformat().",
                    before=suggest.code(dag_file, node),
                    after="datetime.now(tz=timezone.utc)",
                    related=(node.lineno,),
                )
                break


@rule(
    "DUR507",
    "store-large-payload",
    "a large payload is stored: the stores are for ids, cursors and small summaries",
)
def store_large_payload(dag_file: DagFile) -> Iterator[Report]:
    """Rows, tables, files or weights as a stored value."""
    for store in _writes(dag_file):
        what = _large(dag_file, store.value)
        if what is not None:
            yield Report(
                store.call,
                f"The value is {what}. The stores are rows in Airflow's database, {MAX_BYTES // 1024} KB "
                "each by default: "
                "write the data to object storage and store its place, or configure a state store backend "
                "for it.",
                before=suggest.call_statement(dag_file, store.call),
            )


@rule("DUR508", "store-secret", "a secret is stored in plain text")
def store_secret(dag_file: DagFile) -> Iterator[Report]:
    """A password, a token or a key as a stored value."""
    for store in _writes(dag_file):
        what = _secret(dag_file, store)
        if what is not None:
            yield Report(
                store.call,
                f"{what} goes into the state store, where everyone who may see the task's or asset's state "
                "can read it. "
                "Keep secrets in a Connection or a secrets backend, and fetch them anew in each try.",
                before=suggest.call_statement(dag_file, store.call),
            )


def _writes(dag_file: DagFile) -> Iterator[StoreCall]:
    return (store for store in dag_file.stores.calls if store.method == "set" and store.value is not None)


def _resolved(dag_file: DagFile, node: ast.expr | None) -> ast.expr | None:
    """What a name was assigned, through names."""
    for _ in range(MAX_STEPS):
        if not isinstance(node, ast.Name):
            return node
        binding = dag_file.tree.names.binding(node)
        if binding is None or binding.kind != "assign" or binding.value is None:
            return node
        node = binding.value
    return node


def _parts(dag_file: DagFile, node: ast.expr | None, steps: int = 0) -> Iterator[ast.AST]:
    """The nodes of an expression, and of what the names in it were assigned in the same function."""
    if node is None or steps > 3:
        return
    for part in ast.walk(node):
        yield part
        if isinstance(part, ast.Name):
            target = _resolved(dag_file, part)
            if target is not part and target is not None:
                yield from _parts(dag_file, target, steps + 1)


def _not_json(dag_file: DagFile, node: ast.expr | None, steps: int = 0) -> tuple[ast.expr, str] | None:
    if node is None or steps > MAX_STEPS:
        return None
    value = _resolved(dag_file, node)
    if value is None:
        return None
    inner: list[ast.expr | None] = []
    if isinstance(value, ast.Dict):
        inner = list(value.values)
    elif isinstance(value, (ast.List, ast.Tuple)):
        inner = list(value.elts)
    elif isinstance(value, ast.IfExp):
        inner = [value.body, value.orelse]
    for item in inner:
        found = _not_json(dag_file, item, steps + 1)
        if found is not None:
            return found[0], found[1]
    what = _kind(dag_file, value)
    return (value, what) if what else None


def _kind(dag_file: DagFile, value: ast.expr) -> str | None:
    if isinstance(value, (ast.Set, ast.SetComp)):
        return "a set"
    if isinstance(value, ast.GeneratorExp):
        return "a generator"
    if isinstance(value, ast.Lambda):
        return "a function"
    if isinstance(value, ast.Constant) and isinstance(value.value, (bytes, complex)):
        return "bytes" if isinstance(value.value, bytes) else "a complex number"
    if dag_file.stores.context_entry(value) in _CONTEXT_DATES:
        return "a datetime"
    if isinstance(value, ast.Name) and value.id in _CONTEXT_DATES:
        binding = dag_file.tree.names.binding(value)
        return "a datetime" if binding is not None and binding.kind == "param" else None
    if not isinstance(value, ast.Call):
        return None
    name = dag_file.qualified(value.func)
    module, _, method = name.rpartition(".")
    if method in _DATETIMES.get(module, ()):
        return "a date" if module == "datetime.date" else "a datetime"
    if name.startswith("airflow.") and ".timezone." in name and method in ("utcnow", "parse", "datetime"):
        return "a datetime"
    return _PLAIN_CONSTRUCTORS.get(name)


def _is_naive(dag_file: DagFile, call: ast.Call) -> bool:
    name = dag_file.qualified(call.func)
    if name == "datetime.datetime.utcnow":
        return not _made_aware(dag_file, call)
    return (
        name == "datetime.datetime.now"
        and not call.args
        and not call.keywords
        and not _made_aware(dag_file, call)
    )


def _made_aware(dag_file: DagFile, call: ast.Call) -> bool:
    parent = dag_file.tree.parents.get(call)
    return isinstance(parent, ast.Attribute) and parent.attr in ("replace", "astimezone", "timestamp")


def _aware(dag_file: DagFile, call: ast.Call) -> str:
    return "datetime.now(tz=timezone.utc)" if _is_naive(dag_file, call) else suggest.code(dag_file, call)


def _large(dag_file: DagFile, node: ast.expr | None) -> str | None:
    value = _resolved(dag_file, node)
    if isinstance(value, ast.Constant) and isinstance(value.value, str) and len(value.value) > MAX_BYTES:
        return f"a text of {len(value.value):,} characters"
    if not isinstance(value, ast.Call):
        return None
    name = (
        value.func.attr
        if isinstance(value.func, ast.Attribute)
        else catalog.leaf(dag_file.qualified(value.func))
    )
    if dag_file.qualified(value.func) in ("pickle.dumps", "dill.dumps", "cloudpickle.dumps", "joblib.dump"):
        return "a pickled object"
    if name in _LARGE_METHODS and (isinstance(value.func, ast.Attribute) or name == "DataFrame"):
        return _LARGE_METHODS[name]
    wrappers = ("json.dumps", "json.loads", "list", "str")
    if dag_file.qualified(value.func) in wrappers and value.args:
        return _large(dag_file, value.args[0])
    # .decode() and the like change the form, not the size.
    if name in ("decode", "encode", "hex", "tolist") and isinstance(value.func, ast.Attribute):
        return _large(dag_file, value.func.value)
    return None


def _secret(dag_file: DagFile, store: StoreCall) -> str | None:
    key = dag_file.values.text(store.key)
    if key is not None and words.is_secret(key):
        return f"'{key}'"
    for node in _carried(dag_file, store.value):
        name: object = None
        if isinstance(node, ast.Name):
            name = node.id
        elif isinstance(node, ast.Attribute):
            name = node.attr
        elif isinstance(node, ast.Subscript):
            name = dag_file.values.constant(node.slice)
        elif isinstance(node, ast.Call) and node.args:
            name = dag_file.values.constant(node.args[0])
        if isinstance(name, str) and words.is_secret(name):
            return suggest.code(dag_file, node)
    return None


def _carried(dag_file: DagFile, node: ast.expr | None, steps: int = 0) -> Iterator[ast.expr]:
    """The expressions whose values are in a value: what is only handed to a call is not."""
    if node is None or steps > MAX_STEPS:
        return
    inner: list[ast.expr | None] = []
    if isinstance(node, ast.Dict):
        inner = list(node.values)
    elif isinstance(node, (ast.List, ast.Tuple)):
        inner = list(node.elts)
    elif isinstance(node, ast.JoinedStr):
        inner = [piece.value for piece in node.values if isinstance(piece, ast.FormattedValue)]
    elif isinstance(node, ast.Call) and not _looks_up(dag_file, node):
        # str(x), json.dumps(x): another form of the same.
        inner = list(node.args) if dag_file.qualified(node.func) in ("str", "json.dumps") else []
    else:
        yield node
        target = _resolved(dag_file, node)
        inner = [target] if target is not node else []
    for item in inner:
        yield from _carried(dag_file, item, steps + 1)


def _looks_up(dag_file: DagFile, call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else dag_file.qualified(call.func)
    return catalog.leaf(name).startswith("get")
