"""Reads templates, and says what is in their functions once the parameters have values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

import yaml

from tests.infra.tools import ROOT

TEMPLATE = ROOT / "template.yaml"
DEPLOY_ROLE = ROOT / "infra" / "deploy-role.yaml"
FRONT = ROOT / "infra" / "front.yaml"


class CloudFormation(yaml.SafeLoader):
    """Reads the short forms of functions as the long ones."""


def _function(loader: CloudFormation, suffix: str, node: yaml.Node) -> Mapping[str, Any]:
    name = suffix if suffix in {"Ref", "Condition"} else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        return {name: loader.construct_scalar(node)}
    if isinstance(node, yaml.SequenceNode):
        return {name: loader.construct_sequence(node, deep=True)}
    assert isinstance(node, yaml.MappingNode)
    return {name: loader.construct_mapping(node, deep=True)}


CloudFormation.add_multi_constructor("!", _function)


@cache
def read(path: Path) -> Mapping[str, Any]:
    return yaml.load(path.read_text(encoding="utf-8"), Loader=CloudFormation)


def listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def resolved(value: object, values: Mapping[str, str], conditions: Mapping[str, bool]) -> Any:
    """`value` with its functions replaced. What `values` does not have stays, as the name in brackets."""

    def named(name: str) -> str:
        return values.get(name, f"<{name}>")

    def text(template: str, own: Mapping[str, str]) -> str:
        return re.sub(r"\$\{([\w:.]+)\}", lambda match: own.get(match[1]) or named(match[1]), template)

    if isinstance(value, list):
        parts = cast("list[object]", value)
        return [found for part in parts if (found := resolved(part, values, conditions)) is not None]
    if not isinstance(value, dict):
        return value
    match list(cast("dict[str, Any]", value).items()):
        case [("Ref", "AWS::NoValue")]:
            return None
        case [("Ref", name)]:
            return named(name)
        case [("Fn::GetAtt", name)]:
            return named(name)
        case [("Fn::Sub", str(template))]:
            return text(template, {})
        case [("Fn::Sub", [template, own])]:
            return text(template, resolved(own, values, conditions))
        case [("Fn::Split", [separator, whole])]:
            return resolved(whole, values, conditions).split(separator)
        case [("Fn::Join", [separator, parts])]:
            return separator.join(resolved(parts, values, conditions))
        case [("Fn::If", [condition, then, otherwise])]:
            return resolved(then if conditions[condition] else otherwise, values, conditions)
        case items:
            return {name: resolved(inner, values, conditions) for name, inner in items}


def allowed(policy: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each action of a resolved policy with each resource it is allowed on."""
    for statement in policy["Statement"]:
        if statement["Effect"] != "Allow":
            continue
        for action in listed(statement["Action"]):
            for resource in listed(statement["Resource"]):
                yield action, resource
