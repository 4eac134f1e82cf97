"""Parses every example response of an OpenAPI document with the client that openapi-python-client generated from it.

Arguments: the document and the folder of the client. Prints the number of examples.
"""

import importlib
import json
import sys
from datetime import datetime

import httpx
from openapi_python_client.strings import PythonIdentifier

with open(sys.argv[1]) as file:
    document = json.load(file)
sys.path.insert(0, sys.argv[2])
client = importlib.import_module("gas_suggestion_client").Client(
    base_url="http://localhost", raise_on_unexpected_status=True
)


def resolve(node):
    while "$ref" in node:
        target = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node


def to_json(parsed):
    if isinstance(parsed, list):
        return [to_json(item) for item in parsed]
    return parsed.to_dict() if hasattr(parsed, "to_dict") else parsed


def examples(response):
    """Yields the JSON examples. A generated client cannot read event streams."""
    for content_type, content in response.get("content", {}).items():
        if content_type.endswith("json"):
            if "example" in content:
                yield content["example"]


count = 0
for item in document["paths"].values():
    for operation in item.values():
        names = [PythonIdentifier(name, prefix="") for name in (operation["tags"][0], operation["operationId"])]
        module = importlib.import_module(".".join(["gas_suggestion_client.api", *names]))
        for status, response in operation["responses"].items():
            for example in examples(resolve(response)):
                for part in example if isinstance(example, list) else [example]:
                    if not isinstance(part, dict):
                        continue
                    # The client writes times in another form.
                    for name in ("observed_at", "newest_block_at"):
                        if part.get(name):
                            part[name] = datetime.fromisoformat(part[name]).isoformat()
                    for bucket in part.get("buckets", []):
                        bucket["start"] = datetime.fromisoformat(bucket["start"]).isoformat()
                answer = httpx.Response(int(status), json=example)
                parsed = to_json(module._parse_response(client=client, response=answer))
                assert parsed == example, (operation["operationId"], status, parsed, example)
                count += 1
print(count)
