"""
What ``help()`` and notebooks show of a durable operator: all its parameters.

Each class in line takes what is its own and passes on the rest, so that none names them all.
"""

from __future__ import annotations

import inspect
from typing import Any

from airflow_provider_durable.resumable.compat import BaseOperator
from airflow_provider_durable.resumable.parameters import NOT_GIVEN, default_of


class OperatorSignature:
    """The ``__signature__`` of an operator's class, made when it is asked for."""

    def __get__(self, instance: object, owner: type[Any]) -> inspect.Signature:
        """
        Return the parameters of all classes before BaseOperator, whose own are ``**kwargs``.

        :param instance: an operator, or None; it does not matter
        :param owner: the operator's class
        """
        found: dict[str, inspect.Parameter] = {}
        for cls in owner.__mro__:
            if cls is BaseOperator:
                break
            if (init := vars(cls).get("__init__")) is None:
                continue
            for name, parameter in inspect.signature(init).parameters.items():
                is_named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
                if is_named and name != "self" and (name not in found or found[name].default is NOT_GIVEN):
                    found[name] = parameter.replace(kind=parameter.KEYWORD_ONLY)
        named = [
            one.replace(default=default_of(name)) if one.default is NOT_GIVEN else one
            for name, one in found.items()
        ]
        rest = inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD, annotation="Any")
        return inspect.Signature([*named, rest], return_annotation=None)
