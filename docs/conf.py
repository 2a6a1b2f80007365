"""The documentation as a site: ``make docs``. Reads the pages here and the package's docstrings, as text.

The pages are written for GitHub, too. So what only a site needs is here: the order of the pages, and the
directives that put docstrings where ``api.md`` names a class.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docutils.nodes import Element
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

project = html_title = "airflow-provider-durable"
root_doc = "README"
exclude_patterns = ["_site"]
extensions = ["myst_parser", "autoapi.extension", "sphinx_copybutton"]

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_site"]
html_show_sphinx = html_show_copyright = html_copy_source = False
copybutton_prompt_text = "$ "

# Anchors as GitHub makes them, so that a link to a heading is right in both places.
myst_heading_anchors = 3
# A missing reference is an error, but for the names of Python and Airflow: nothing is fetched to link them.
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(?!airflow_provider_durable).*"),
    ("py:.*", r"airflow_provider_durable\.resumable\.compat\..*"),
]
suppress_warnings = ["autoapi.python_import_resolution"]  # what compat takes from Airflow

autoapi_dirs = ["../airflow_provider_durable"]
autoapi_ignore = ["*/review/*"]
autoapi_generate_api_docs = False  # one page, api.md
autoapi_keep_files = False

#: What stands beside the pages, in this order.
CONTENTS = {
    "Start": ["getting-started", "choosing", "examples"],
    "Operators": [
        "operators/batch",
        "operators/bigquery",
        "operators/databricks",
        "operators/spark",
        "parameters",
    ],
    "Go on": ["writing-an-operator", "how-it-works", "crash-matrix", "moving-over", "differences"],
    "Live with it": ["operating", "troubleshooting", "older-airflow", "review/index"],
    "Reference": ["api"],
}
#: ``- [`package.module.Class`](../package/module.py)`` in api.md.
API_ENTRY = re.compile(r"^- \[`(?P<path>[\w.]+\.(?P<name>\w+))`\]\(\S+\)(, )?(?P<words>.*)$", re.MULTILINE)
#: Classes whose methods are for others to call or to define.
WITH_MEMBERS = ("ResumableJobMixin", "JobTrigger", "JobService")

TOCTREE = """
```{{toctree}}
:hidden:
:caption: {caption}
{pages}
```
"""
DOCSTRING = """
## {name}

{words}

```{{eval-rst}}
.. autoapiclass:: {path}
{members}
```
"""


def add_what_a_site_needs(app: Sphinx, page: str, source: list[str]) -> None:
    """Add the contents to the index, the rules to theirs, and docstrings to the API page."""
    if page == root_doc:
        for caption, pages in CONTENTS.items():
            there = [each for each in pages if each in app.env.found_docs]
            source[0] += TOCTREE.format(caption=caption, pages="\n".join(there))
    elif page == "review/index":
        rules = sorted(each for each in app.env.found_docs if each.startswith("review/DUR"))
        source[0] += TOCTREE.format(caption="Rules", pages="\n".join(f"/{rule}" for rule in rules))
    elif page == "api":
        source[0] = API_ENTRY.sub(_docstring, source[0])


def _docstring(entry: re.Match[str]) -> str:
    wanted = entry["name"] in WITH_MEMBERS
    members = "   :members:\n   :inherited-members:" if wanted else ""
    return DOCSTRING.format(**entry.groupdict(), members=members)


def resolve_public_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: Element
) -> Element | None:
    """Link a name as it is imported, from ``airflow_provider_durable``, to where it is defined."""
    domain, name = env.domains.python_domain, node["reftarget"].rpartition(".")[2]
    found = [path for path in domain.objects if path.rpartition(".")[2] == name]
    if not node["reftarget"].startswith("airflow_provider_durable.") or len(found) != 1:
        return None
    return domain.resolve_xref(env, node["refdoc"], app.builder, node["reftype"], found[0], node, content)


def setup(app: Sphinx) -> None:
    """Register the above."""
    app.connect("source-read", add_what_a_site_needs)
    app.connect("missing-reference", resolve_public_name)
