"""The documents that kubectl validates and explains by."""

from typing import Any

from headrace.client.http import Client
from tests.apiserver.serving import Serving


async def documents(client: Client) -> dict[str, Any]:
    index = await client.request("GET", "/openapi/v3")
    found = {}
    for path, entry in index["paths"].items():
        assert entry["serverRelativeURL"].startswith(f"/openapi/v3/{path}?hash=")
        found[path] = await client.request("GET", entry["serverRelativeURL"])
    return found


async def test_every_kind_has_a_patch_that_validates_fields_and_a_get_that_explain_finds(server: Serving) -> None:
    async with server.http() as client:
        found = await documents(client)
    for served in server.store.registry.all():
        kind = served.kind
        group_version = f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"
        gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        paths = found[group_version]["paths"]
        patches = [
            path["patch"]
            for path in paths.values()
            if path.get("patch", {}).get("x-kubernetes-group-version-kind") == gvk
        ]
        assert any(parameter["name"] == "fieldValidation" for parameter in patches[0]["parameters"]), kind
        content = patches[0]["requestBody"]["content"]
        assert ("application/strategic-merge-patch+json" in content) is not served.custom
        collection = paths[f"/{group_version}/{kind.plural}"]
        assert collection["get"]["x-kubernetes-group-version-kind"] == gvk


async def test_every_reference_inside_a_document_is_resolved_there(server: Serving) -> None:
    async with server.http() as client:
        found = await documents(client)
    for path, document in found.items():
        schemas = document["components"]["schemas"]
        dangling = {name for name in references(document) if name not in schemas}
        assert not dangling, f"{path}: {sorted(dangling)[:5]}"


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"].removeprefix("#/components/schemas/")} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


async def test_documents_of_built_in_kinds_keep_their_hash_and_custom_ones_change_it(server: Serving) -> None:
    def definition(field: str) -> dict[str, Any]:
        schema = {"type": "object", "properties": {field: {"type": "string"}}}
        return {
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
            },
        }

    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    async with server.http() as client:
        first = await client.request("GET", "/openapi/v3")
        await client.request("POST", crds, body=definition("one"))
        second = await client.request("GET", "/openapi/v3")
        assert "one" in str(await client.request("GET", "/openapi/v3/apis/example.com/v1"))
        patch = {"spec": definition("two")["spec"]}
        await client.request(
            "PATCH", f"{crds}/widgets.example.com", body=patch, content_type="application/merge-patch+json"
        )
        third = await client.request("GET", "/openapi/v3")
        assert "two" in str(await client.request("GET", "/openapi/v3/apis/example.com/v1"))
        await client.request("DELETE", f"{crds}/widgets.example.com")
        last = await client.request("GET", "/openapi/v3")
    assert first["paths"]["api/v1"] == third["paths"]["api/v1"]
    assert second["paths"]["apis/example.com/v1"] != third["paths"]["apis/example.com/v1"]
    assert "apis/example.com/v1" not in last["paths"]
