"""Reads the HyperPyYAML form of a released configuration as plain data. Nothing named in it is imported or run.

A tagged node `!new:a.b.C {...}` becomes Tagged("new", "a.b.C", {...}); `!ref <a> * <b>` becomes a Ref, looked up and
computed only when `Document.get` meets it.
"""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from oscine_engine.errors import CheckpointError

_REFERENCE = re.compile(r"<([^<>]+)>")
_MAX_DEPTH = 32
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}


@dataclass(frozen=True, slots=True)
class Tagged:
    """A node that upstream would turn into an object: `kind` is new, name or apply, `target` the dotted name."""

    kind: str
    target: str
    value: Any


@dataclass(frozen=True, slots=True)
class Ref:
    """An unresolved reference or an expression over some."""

    expression: str


class _Loader(yaml.SafeLoader):
    """SafeLoader with the released tags, and floats such as 1e-06, which YAML 1.1 takes for text."""


def _plain(loader: yaml.SafeLoader, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return loader.construct_scalar(node)  # type: ignore[arg-type]


def _tagged(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> Any:
    kind, _, target = suffix.partition(":")
    value = _plain(loader, node)
    return Ref(str(value)) if kind in ("ref", "copy") else Tagged(kind, target, value)


_Loader.add_multi_constructor("!", _tagged)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


class Document:
    """A parsed file; `get` walks and resolves."""

    def __init__(self, root: Mapping[str, Any], origin: str) -> None:
        self._root = root
        self._origin = origin

    def get(self, *path: str, default: Any = None) -> Any:
        """The value at `path` from the root, references resolved all the way down, or `default`."""
        found = self._walk(self._root, path, 0)
        return default if found is None else self._resolve(found, 0)

    def section(self, *path: str) -> dict[str, Any]:
        """The mapping at `path`, the inside of a tagged node included. Raises CheckpointError if there is none."""
        found = self.get(*path)
        inside = found.value if isinstance(found, Tagged) else found
        if not isinstance(inside, dict):
            raise CheckpointError(f"{self._origin}: section {'.'.join(path)} is missing or is not a mapping")
        return inside

    def target(self, *path: str) -> str:
        """The dotted name that the node at `path` is tagged with, "" if it is not tagged."""
        found = self._walk(self._root, path, 0)
        return found.target if isinstance(found, Tagged) else ""

    def _walk(self, value: Any, path: tuple[str, ...], depth: int) -> Any:
        for key in path:
            value = self._shallow(value, depth)
            value = value.value if isinstance(value, Tagged) else value
            if not isinstance(value, dict):
                return None
            value = value.get(key)
        return self._shallow(value, depth)

    def _shallow(self, value: Any, depth: int) -> Any:
        return self._evaluate(value.expression, depth) if isinstance(value, Ref) else value

    def _resolve(self, value: Any, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise CheckpointError(f"{self._origin}: nested or circular beyond {_MAX_DEPTH} levels")
        if isinstance(value, Ref):
            return self._resolve(self._evaluate(value.expression, depth), depth + 1)
        if isinstance(value, Tagged):
            return Tagged(value.kind, value.target, self._resolve(value.value, depth + 1))
        if isinstance(value, dict):
            return {key: self._resolve(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self._resolve(item, depth + 1) for item in value]
        return value

    def _evaluate(self, expression: str, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise CheckpointError(f"{self._origin}: !ref {expression} refers to itself")
        values = {name: self._lookup(name, depth) for name in _REFERENCE.findall(expression)}
        whole = _REFERENCE.fullmatch(expression.strip())
        if whole:
            return values[whole[1]]
        if any(isinstance(value, str) for value in values.values()):
            return _REFERENCE.sub(lambda match: str(values[match[1]]), expression)
        return self._compute(_REFERENCE.sub(lambda match: f"({values[match[1]]!r})", expression), expression)

    def _lookup(self, name: str, depth: int) -> Any:
        path = tuple(re.findall(r"[^\[\]]+", name))
        found = self._walk(self._root, path, depth + 1)
        if found is None:
            raise CheckpointError(f"{self._origin}: !ref <{name}> points nowhere")
        return found

    def _compute(self, source: str, shown: str) -> Any:
        def value(node: ast.expr) -> Any:
            if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
                return node.value
            if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
                return -value(node.operand)
            if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
                return _OPERATORS[type(node.op)](value(node.left), value(node.right))
            raise ValueError("not arithmetic")

        try:
            return value(ast.parse(source.strip(), mode="eval").body)
        except (SyntaxError, ValueError, ZeroDivisionError) as error:
            raise CheckpointError(f"{self._origin}: cannot compute !ref {shown}: {error}") from error


def read(path: Path) -> Document:
    """Parse one file. Raises CheckpointError if it is not YAML or not a mapping."""
    try:
        root = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except (yaml.YAMLError, ValueError) as error:  # the latter: bad UTF-8, or a date that is none
        raise CheckpointError(f"{path} is not a readable YAML file: {error}") from error
    if not isinstance(root, dict):
        raise CheckpointError(f"{path} must be a mapping at its top level")
    return Document(root, path.name)
