"""Images by their pull policy, told with Kubernetes' reasons: ErrImagePull, ErrImageNeverPull, InvalidImageName."""

import re
from collections.abc import Sequence
from typing import Any

from headrace.node.runtimes.podman_credentials import BadSecret, Credentials, credentials_for
from headrace.node.runtimes.podman_socket import Podman, PodmanGone, PodmanRefused, in_path
from headrace.node.runtimes.protocol import PullSecret, StartFailed

PULL_SECONDS = 600.0
_NAME = re.compile(r"[A-Za-z0-9][\w.:/@-]*", re.ASCII)


def policy_of(image: str, told: str) -> str:
    """Kubernetes' default: Always for `:latest` and for no tag at all, else IfNotPresent."""
    if told:
        return told
    name = image.rpartition("/")[2]
    tag = name.partition(":")[2]
    return "Always" if "@" not in name and tag in ("", "latest") else "IfNotPresent"


def reference(image: str) -> str:
    """The full name that is pulled: Docker Hub's where none is named, as in Kubernetes."""
    first, slash, _ = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return image
    return f"docker.io/{image}" if slash else f"docker.io/library/{image}"


def repository(image: str) -> str:
    """The full name without tag and digest: what credentials are looked up by."""
    name = reference(image).partition("@")[0]
    above, slash, last = name.rpartition("/")
    return above + slash + last.partition(":")[0]


async def ensure(podman: Podman, image: str, told: str, secrets: Sequence[PullSecret] = ()) -> dict[str, Any]:
    """Podman's description of the image, pulled if its policy says so. Raises StartFailed with the reason."""
    if not _NAME.fullmatch(image):
        raise StartFailed(f'Failed to apply default image tag "{image}": invalid reference', "InvalidImageName")
    policy = policy_of(image, told)
    found = None if policy == "Always" else await _inspect(podman, image)
    if found is not None:
        return found
    if policy == "Never":
        raise StartFailed(f'Container image "{image}" is not present with pull policy of Never', "ErrImageNeverPull")
    pulled = await _pull_with(podman, image, secrets)
    found = await _inspect(podman, pulled)
    if found is None:
        raise StartFailed(f'Failed to pull image "{image}": it was pulled and removed again', "ErrImagePull")
    return found


async def _inspect(podman: Podman, image: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = await podman.call("GET", f"/images/{in_path(image)}/json")
    except PodmanRefused as refused:
        if refused.status == 404:
            return None
        raise StartFailed(str(refused), "ImageInspectError") from None
    except PodmanGone as gone:
        raise StartFailed(str(gone), "ImageInspectError") from None
    return found


async def _pull_with(podman: Podman, image: str, secrets: Sequence[PullSecret]) -> str:
    """With each of the credentials that are meant for it, until one will do; without any, as Podman is logged in."""
    try:
        found = credentials_for(repository(image), secrets)
    except BadSecret as bad:
        raise StartFailed(f'Failed to pull image "{image}": {bad}', "ErrImagePull") from None
    said: list[str] = []
    for credentials in (*found,) or (None,):
        try:
            return await _pull(podman, image, credentials)
        except (PodmanRefused, PodmanGone) as error:
            said += [str(error)] if str(error) not in said else []
    raise StartFailed(f'Failed to pull image "{image}": {"; ".join(said)}', "ErrImagePull")


async def _pull(podman: Podman, image: str, credentials: Credentials | None) -> str:
    """The id of what was pulled. Podman answers 200 and tells of a failure in the body's last line."""
    name, headers = reference(image), {}
    if credentials is not None and (credentials.username or credentials.password):
        headers["X-Registry-Auth"] = credentials.header()
    query = {"reference": name, "quiet": "true"}
    told = await podman.call("POST", "/images/pull", query, headers=headers, seconds=PULL_SECONDS)
    if isinstance(told, dict) and told.get("error"):
        raise PodmanRefused(200, str(told["error"]))
    return str(told.get("id") or name) if isinstance(told, dict) else name
