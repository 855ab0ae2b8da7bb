"""What keeps a Pod from every node because of its claims."""

import pytest

from headrace.scheduling.claims import missing_class, unmade, unusable

ENTRY = {"name": "gpu", "resourceClaimTemplateName": "t"}
DIRECT = {"name": "gpu", "resourceClaimName": "c"}


def pod(*statuses):
    meta = {"name": "p", "namespace": "default", "uid": "u"}
    return {"metadata": meta, "spec": {"resourceClaims": [ENTRY]}, "status": {"resourceClaimStatuses": list(statuses)}}


def claim(*, owner=None, users=0, request=None, **meta):
    owners = [{"kind": "Pod", "name": "p", "uid": owner, "controller": True}] if owner else []
    reserved = [{"resource": "pods", "name": f"p{at}", "uid": f"u{at}"} for at in range(users)]
    found = {"name": "c", "namespace": "default", "ownerReferences": owners, **meta}
    return {
        "metadata": found,
        "spec": {"devices": {"requests": [request] if request else []}},
        "status": {"reservedFor": reserved},
    }


def test_a_claim_is_waited_for_until_the_status_names_it_or_says_that_none_is_needed():
    assert unmade(pod()) == "gpu"
    assert unmade(pod({"name": "gpu", "resourceClaimName": "c"})) == ""
    assert unmade(pod({"name": "gpu"})) == ""


@pytest.mark.parametrize(
    ("entry", "found", "words"),
    [
        pytest.param(DIRECT, None, 'resourceclaim "c" not found', id="not there"),
        pytest.param(DIRECT, claim(deletionTimestamp="t"), 'resourceclaim "c" is being deleted', id="leaving"),
        pytest.param(
            ENTRY,
            claim(owner="another"),
            "ResourceClaim default/c was not created for Pod default/p (Pod is not owner)",
            id="another Pod's",
        ),
        pytest.param(ENTRY, claim(owner="u"), "", id="its own"),
        pytest.param(DIRECT, claim(users=256), "resourceclaim in use", id="full"),
        pytest.param(DIRECT, claim(users=255), "", id="not full yet"),
    ],
)
def test_why_a_claim_cannot_be_used(entry, found, words):
    assert unusable(pod(), entry, "c", found) == words


def test_a_class_that_does_not_exist_is_named_with_its_request():
    exactly = claim(request={"name": "gpu", "exactly": {"deviceClassName": "big"}})
    first = claim(request={"name": "gpu", "firstAvailable": [{"name": "a", "deviceClassName": "big"}]})
    assert missing_class([exactly], {"small"}) == "request gpu: device class big does not exist"
    assert missing_class([first], {"small"}) == "request gpu/a: device class big does not exist"
    assert missing_class([exactly, first], {"big"}) == ""
