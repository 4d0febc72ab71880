"""The schema of the JSON document, and a validator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SCHEMA = json.loads((Path(__file__).parents[2] / "app" / "reports" / "report.schema.json").read_text())


def check_schema(value: Any, schema: dict[str, Any], where: str = "report") -> None:
    """Assert that a value conforms to a JSON Schema, supporting the keywords that report.schema.json uses."""
    known = {
        "$schema", "title", "description", "$defs", "$ref", "type", "const", "enum", "required", "properties",
        "additionalProperties", "items", "minimum", "maximum", "minItems", "maxItems",
    }  # fmt: skip
    assert set(schema) <= known, f"{where}: the checker does not know {set(schema) - known}"
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        check_schema(value, SCHEMA["$defs"][name], where)
    if "const" in schema:
        assert value == schema["const"], where
    if "enum" in schema:
        assert value in schema["enum"], f"{where}: {value!r}"
    if "type" in schema:
        kinds = {
            "object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
            "null": type(None),
        }  # fmt: skip
        allowed = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        assert any(
            isinstance(value, kinds[kind]) and not (isinstance(value, bool) and kind in ("integer", "number"))
            for kind in allowed
        ), f"{where}: {value!r} is no {allowed}"
    if isinstance(value, (int, float)):
        assert value >= schema.get("minimum", value) and value <= schema.get("maximum", value), f"{where}: {value}"
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        assert set(schema.get("required", ())) <= set(value), f"{where}: lacks {set(schema['required']) - set(value)}"
        if schema.get("additionalProperties") is False:
            assert set(value) <= set(properties), f"{where}: unknown {set(value) - set(properties)}"
        for key, item in value.items():
            if key in properties:
                check_schema(item, properties[key], f"{where}.{key}")
            elif isinstance(schema.get("additionalProperties"), dict):
                check_schema(item, schema["additionalProperties"], f"{where}.{key}")
    if isinstance(value, list):
        assert schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)), f"{where}: {len(value)}"
    if isinstance(value, list) and "items" in schema:
        for position, item in enumerate(value):
            check_schema(item, schema["items"], f"{where}[{position}]")
