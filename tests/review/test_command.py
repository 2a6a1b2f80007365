"""The command line: exit status, formats, settings, which files it looks at, and what it does not import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from typing import TYPE_CHECKING

import pytest

from airflow_provider_durable.review.airflow_command import get_airflow_cli_commands
from airflow_provider_durable.review.cli import OPTIONS, main
from airflow_provider_durable.review.engine import Selection, review
from airflow_provider_durable.review.rules import ALL_RULES
from airflow_provider_durable.review.versions import target

if TYPE_CHECKING:
    from pathlib import Path

BAD = 'from airflow.models import Variable\n\ndef f():\n    Variable.set("cursor", Variable.get("cursor"))\n'
CLEAN = "from airflow.sdk import DAG\n"
NOTE = """
from airflow.sdk import BaseOperator, ResumableJobMixin

class A(BaseOperator, ResumableJobMixin):
    pass
"""


@pytest.fixture
def dags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Dags folder that is the current folder's."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "dags"
    folder.mkdir()
    return folder


def found(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[tuple[str, str]]]:
    """The exit status, and the path and code of each finding."""
    status = main(["review", "--format", "json", "--airflow-version", "3.3.2", *arguments])
    findings = json.loads(capsys.readouterr().out)["findings"]
    return status, [(finding["path"], finding["code"]) for finding in findings]


def test_several_processes_find_what_one_does(dags: Path) -> None:
    files = []
    for number in range(7):
        path = dags / f"bad_{number}.py"
        path.write_text(BAD if number % 2 else "def (")
        files.append((path, path.name))
    one, three = (review(files, Selection(), target("3.3.2"), jobs=jobs) for jobs in (1, 3))
    assert (three.files, three.findings) == (7, one.findings)
    assert len(one.findings) == 7


def test_exit_status(dags: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (dags / "clean.py").write_text(CLEAN)
    assert found(capsys, "dags") == (0, [])
    (dags / "note.py").write_text(NOTE)
    assert found(capsys, "dags") == (0, [("dags/note.py", "DUR405")])
    (dags / "bad.py").write_text(BAD)
    assert found(capsys, "dags")[0] == 1
    assert found(capsys, "dags", "--exit-zero")[0] == 0
    assert found(capsys, "dags", "--ignore", "DUR101")[0] == 0
    assert found(capsys, "dags", "--select", "DUR2,DUR3") == (0, [])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "no PATH given"),
        (["nowhere"], "no such file or folder: nowhere"),
        (["dags", "--select", "E501"], "'E501'"),
        (["dags", "--airflow-version", "latest"], "not an Airflow version: 'latest'"),
        (["dags", "--config", "missing.toml"], "missing.toml"),
    ],
)
def test_wrong_calls_end_with_2_and_say_why(
    dags: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main(["review", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_an_unknown_option_ends_with_2(dags: Path) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["review", "dags", "--format", "xml"])
    assert stop.value.code == 2


def test_text_shows_place_message_and_rewrite(dags: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (dags / "bad.py").write_text(BAD)
    main(["review", "dags", "--airflow-version", "3.3.2"])
    out = capsys.readouterr().out
    assert "dags/bad.py:4:5 DUR101 Variable 'cursor', read in line 4," in out
    assert '    - Variable.set("cursor", Variable.get("cursor"))\n' in out
    assert '["task_state_store"].set("cursor"' in out
    assert "docs/review/DUR101.md" in out
    assert out.endswith("1 finding in 1 file (Airflow 3.3.2).\n")


def test_json_has_the_documented_keys(dags: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (dags / "bad.py").write_text(BAD)
    main(["review", "dags", "--format", "json", "--airflow-version", "3.3.2"])
    document = json.loads(capsys.readouterr().out)
    assert (document["airflow_version"], document["files"]) == ("3.3.2", 1)
    (finding,) = document["findings"]
    assert {key: finding[key] for key in ("code", "path", "line", "column", "end_line", "level")} == {
        "code": "DUR101",
        "path": "dags/bad.py",
        "line": 4,
        "column": 5,
        "end_line": 4,
        "level": "warning",
    }
    assert set(finding) >= {"message", "name", "end_column", "before", "after", "related_lines"}


def test_sarif_is_a_2_1_0_log_with_the_rules_it_speaks_of(
    dags: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (dags / "bad é.py").write_text(BAD)
    main(["review", "dags", "--format", "sarif", "--airflow-version", "3.3.2"])
    log = json.loads(capsys.readouterr().out)
    (run,) = log["runs"]
    (result,) = run["results"]
    assert log["version"] == "2.1.0"
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "DUR101"
    location = result["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == "dags/bad%20%C3%A9.py"
    assert location["region"]["startLine"] == 4


def test_github_commands_are_one_line_each_and_escaped(
    dags: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (dags / "a,b:c.py").write_text(BAD)
    main(["review", "dags", "--format", "github", "--airflow-version", "3.3.2"])
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(
        "::warning title=DUR101 variable-as-run-state,file=dags/a%2Cb%3Ac.py,line=4,col=5,"
    )
    assert "%0A" in line


def test_a_folder_s_python_files_come_once_each_and_links_do_not_go_round(
    dags: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (dags / "bad.py").write_text(BAD)
    (dags / "notes.ipynb").write_text("{}")
    for folder in (".venv", "node_modules", "__pycache__", ".ipynb_checkpoints"):
        (dags / folder).mkdir()
        (dags / folder / "bad.py").write_text(BAD)
    (dags / "loop").symlink_to(dags, target_is_directory=True)
    (dags / "again.py").symlink_to(dags / "bad.py")
    (dags / "broken.py").symlink_to(dags / "nothing.py")
    assert found(capsys, "dags", "dags/bad.py", "dags", "--ignore", "DUR001")[1] == [
        ("dags/again.py", "DUR101")
    ]
    assert found(capsys, "dags/broken.py".replace("broken", "bad"))[1] == [("dags/bad.py", "DUR101")]


def test_a_file_that_is_named_is_reviewed_whatever_it_is_called(
    dags: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (dags / "bad.txt").write_text(BAD)
    assert found(capsys, "dags")[1] == []
    assert found(capsys, "dags/bad.txt")[1] == [("dags/bad.txt", "DUR101")]
    assert found(capsys, "dags/bad.txt", "--exclude", "*.txt")[1] == []


@pytest.mark.parametrize(
    "pattern", ["old", "dags/old", "dags/old/", "old/*", "dags/old/**", "bad.py", "**/old"]
)
def test_exclude_patterns(dags: Path, capsys: pytest.CaptureFixture[str], pattern: str) -> None:
    (dags / "old").mkdir()
    (dags / "old" / "bad.py").write_text(BAD)
    assert found(capsys, "dags")[0] == 1
    assert found(capsys, "dags", "--exclude", pattern) == (0, [])


def test_settings_come_from_the_nearest_pyproject_and_the_command_line_wins(
    dags: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (dags / "bad.py").write_text(BAD)
    project = dags.parent / "pyproject.toml"
    project.write_text('[tool.airflow-durable.review]\nignore = ["DUR101"]\n')
    assert found(capsys, "dags") == (0, [])
    project.write_text('[tool.airflow-durable.review]\nselect = ["DUR2"]\n')
    assert found(capsys, "dags") == (0, [])
    assert found(capsys, "dags", "--select", "DUR1")[0] == 1
    project.write_text('[tool.airflow-durable.review]\nexclude = ["bad.py"]\n')
    assert found(capsys, "dags") == (0, [])
    project.write_text('[tool.airflow-durable.review.per-file-ignores]\n"dags/*" = ["DUR1"]\n')
    assert found(capsys, "dags") == (0, [])
    project.write_text('[tool.airflow-durable.review]\nairflow-version = "2.11.0"\n')
    assert main(["review", "dags"]) == 0
    assert "note: " in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        'colour = "red"',
        'select = "DUR1"',
        'ignore = ["E501"]',
        "airflow-version = 3.3",
        'per-file-ignores = ["DUR1"]',
        "= broken",
    ],
)
def test_a_setting_that_cannot_be_used_ends_with_2(
    dags: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (dags.parent / "pyproject.toml").write_text(f"[tool.airflow-durable.review]\n{text}\n")
    assert main(["review", "dags"]) == 2
    assert "pyproject.toml" in capsys.readouterr().err


def test_rules_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["review", "--list-rules"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(ALL_RULES)


def test_the_review_imports_neither_airflow_nor_a_cloud_library(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    script = (
        "import sys\n"
        "before = set(sys.modules)\n"  # installed packages may load parts of themselves at a start
        "from airflow_provider_durable.review.cli import main\n"
        f"status = main(['review', {str(tmp_path)!r}, '--airflow-version', '3.3.2'])\n"
        "foreign = {'airflow', 'boto3', 'google', 'databricks', 'pyspark', 'sqlalchemy', 'pydantic'}\n"
        "loaded = foreign & {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "assert not loaded, loaded\n"
        "sys.exit(status)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "")


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"bad_{number}.py").write_text(BAD)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "airflow_provider_durable.review", "review", str(tmp_path)]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


class _Recorded:
    """Stands in for Airflow's command line classes: keeps what it is given."""

    def __init__(self, *positional: object, **named: object) -> None:
        self.positional = positional
        self.__dict__.update(named)


def test_airflow_gets_the_same_command_with_the_same_options(
    dags: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = types.ModuleType("airflow.cli.cli_config")
    for name in ("ActionCommand", "Arg", "GroupCommand"):
        setattr(module, name, _Recorded)
    for name in ("airflow", "airflow.cli"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "airflow.cli.cli_config", module)
    (group,) = get_airflow_cli_commands()
    (command,) = group.subcommands
    assert (group.name, command.name) == ("durable", "review")
    assert [argument.positional[0] for argument in command.args] == [option.flags for option in OPTIONS]

    (dags / "bad.py").write_text(BAD)
    arguments = types.SimpleNamespace(
        paths=["dags"],
        select=None,
        ignore=None,
        exclude=None,
        output_format="text",
        airflow_version="3.3.2",
        config=None,
        exit_zero=False,
        list_rules=False,
    )
    with pytest.raises(SystemExit) as stop:
        command.func(arguments)
    assert stop.value.code == 1
    assert "DUR101" in capsys.readouterr().out
