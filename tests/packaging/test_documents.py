"""Every block of code in README and docs/ is run or checked, and every link leads somewhere."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import sys
from importlib.metadata import metadata
from pathlib import Path

import pytest
import yaml

from airflow_provider_durable.review import cli
from pages.embed import REPOSITORY, embedded, pages
from pages.markdown import Page
from pages.sequence import PICTURE, draw

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAGES = [Page(str(path.relative_to(REPOSITORY))) for path in pages()]
#: The rules' pages have examples of what not to write; tests/review/test_docs.py looks at those.
WITHOUT_RULES = [page for page in PAGES if "/review/DUR" not in page.place]
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.place)
each_page_with_code = pytest.mark.parametrize("page", WITHOUT_RULES, ids=lambda page: page.place)


@each_page_with_code
def test_python_runs_as_it_stands(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    # Where a user's own modules are.
    monkeypatch.syspath_prepend(REPOSITORY / "example_dags" / "modules")
    for number, block in enumerate(page.blocks("python")):
        exec(compile(block, f"{page.place}, block {number}", "exec"), {"__name__": "page"})


def test_the_smallest_dag_is_in_readme_and_on_the_first_page() -> None:
    (readme,) = Page("README.md").blocks("python")
    assert readme in Page("docs/getting-started.md").blocks("python")
    assert "BatchOperator(" in readme


@each_page
def test_files_and_figures_are_shown_as_they_are(page: Page) -> None:
    assert page.text == embedded(page.path), "run: make docs"


def test_the_sequence_picture_is_the_scripts() -> None:
    assert PICTURE.read_text() == draw(), "run: make docs"


@each_page
def test_links_lead_somewhere(page: Page) -> None:
    wrong = []
    for link in page.links:
        place, _, anchor = link.partition("#")
        target = (page.path.parent / place).resolve() if place else page.path
        found = target.exists()
        if found and anchor:
            found = anchor in Page(str(target.relative_to(REPOSITORY))).anchors
        if not found:
            wrong.append(link)
    assert wrong == []


@each_page
def test_pictures_have_words_for_those_who_cannot_see_them(page: Page) -> None:
    assert [words for words in re.findall(r"!\[([^\]]*)\]", page.text) if len(words) < 20] == []


def test_the_index_leads_to_every_page() -> None:
    folder = REPOSITORY / "docs"
    index = {(folder / link).resolve() for link in Page("docs/README.md").links}
    missing = {path for path in folder.glob("*.md") if path not in index} - {folder / "README.md"}
    assert missing | {path for path in (folder / "operators").glob("*.md") if path not in index} == set()


# -- other languages --------------------------------------------------------------------------------


@each_page
def test_no_block_is_in_a_language_that_nothing_checks(page: Page) -> None:
    assert page.languages <= {"python", "console", "ini", "toml", "yaml", "text"}


@each_page
def test_toml_and_yaml_can_be_read(page: Page) -> None:
    for block in page.blocks("toml"):
        assert tomllib.loads(block)
    for block in page.blocks("yaml"):
        assert yaml.safe_load(block)


def airflow_options() -> dict[str, dict[str, object]]:
    from airflow.configuration import retrieve_configuration_description

    return {name: section["options"] for name, section in retrieve_configuration_description().items()}


@each_page
def test_airflows_settings_are_shown_with_their_names_and_defaults(page: Page) -> None:
    known = airflow_options()
    for block in page.blocks("ini"):
        shown = configparser.ConfigParser(interpolation=None)
        shown.read_string(block)
        for section in shown.sections():
            for option, value in shown[section].items():
                assert str(known[section][option]["default"]) == value, f"[{section}] {option}"


@each_page
def test_airflows_settings_in_the_text_exist(page: Page) -> None:
    known = airflow_options()
    named = [re.fullmatch(r"\[(\w+)\] (\w+)(?: = .*)?", span) for span in page.spans]
    wrong = [each[0] for each in named if each and each[2] not in known.get(each[1], {})]
    assert wrong == []


def rest_paths() -> list[tuple[str, re.Pattern[str]]]:
    from airflow.api_fastapi.core_api import openapi

    (folder,) = openapi.__path__
    paths = yaml.load(
        (Path(folder) / "v2-rest-api-generated.yaml").read_text(),
        Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader),
    )["paths"]
    return [
        (method.upper(), re.compile(re.sub(r"\{[^}]+\}", "[^/]+", path)))
        for path, methods in paths.items()
        for method in methods
    ]


@pytest.fixture(scope="module")
def rest() -> list[tuple[str, re.Pattern[str]]]:
    return rest_paths()


@each_page
def test_requests_to_airflow_are_in_its_rest_api(page: Page, rest: list[tuple[str, re.Pattern[str]]]) -> None:
    requests = [re.search(r"\b(GET|POST|PUT|PATCH|DELETE) (/api/v2/\S+)", text) for text in page.commands()]
    requests += [re.search(r'curl -X (\w+) "\$AIRFLOW(\S+)"', text) for text in page.commands()]
    wrong = [
        each[0]
        for each in requests
        if each
        and not any(each[1] == method and path.fullmatch(each[2].split("?")[0]) for method, path in rest)
    ]
    assert wrong == []


@each_page
def test_make_targets_exist(page: Page) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    named = {match[1] for text in page.commands() if (match := re.match(r"make ([a-z-]+)\b", text))}
    assert named <= targets


@each_page
def test_extras_exist(page: Page) -> None:
    extras = set(metadata("airflow-provider-durable").get_all("Provides-Extra") or ())
    named = set(re.findall(r"airflow-provider-durable\[([\w,-]+)\]", page.text))
    assert named <= extras


@each_page
def test_commands_of_the_review_can_be_called_so(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[object] = []
    monkeypatch.setattr(cli, "run", lambda arguments: called.append(arguments) or 0)
    for text in page.commands():
        words = shlex.split(text, comments=True) if "airflow-durable review " in text else []
        if words[:2] == ["airflow-durable", "review"]:
            assert cli.main(words[1:]) == 0
            assert called.pop()


@each_page
def test_commands_of_airflow_exist(page: Page) -> None:
    from airflow.cli.cli_parser import get_parser

    parser = get_parser()
    for text in page.commands():
        words = shlex.split(text) if re.match(r"airflow [a-z-]+( [a-z-]+)*( --[a-z-]+)*$", text) else []
        if words[1:] and words[1] != "durable":
            # Says what is not known before it says how what is known is used.
            with pytest.raises(SystemExit) as ended:
                parser.parse_args([*words[1:], "--help"])
            assert ended.value.code == 0, text


def test_json_in_commands_can_be_read() -> None:
    for page in PAGES:
        for command in page.commands():
            for body in re.findall(r"--json '([^']+)'", command):
                assert json.loads(body)
