"""``airflow durable review`` on Airflow versions that let providers add commands (3.2 and newer).

Airflow imports this module, and calls the function that the provider's ``cli`` entry names, each time
its own command line starts: so nothing heavy may be imported before the command really runs.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from airflow.cli.cli_config import CLICommand


def get_airflow_cli_commands() -> list[CLICommand]:
    """Return the commands that this package adds to ``airflow``.

    The provider info's ``cli`` entry names this function.
    """
    from airflow.cli.cli_config import ActionCommand, Arg, GroupCommand

    from airflow_provider_durable.review.cli import DESCRIPTION, EPILOG, OPTIONS

    return [
        GroupCommand(
            name="durable",
            help="Tools for durable Dags",
            subcommands=[
                ActionCommand(
                    name="review",
                    help=DESCRIPTION,
                    func=_review,
                    args=[Arg(option.flags, **option.settings) for option in OPTIONS],
                    epilog=EPILOG,
                )
            ],
        )
    ]


def _review(arguments: argparse.Namespace) -> None:
    from airflow_provider_durable.review.cli import run

    # Airflow's own main ignores what a command returns.
    sys.exit(run(arguments))
