"""The pull secrets of a ServiceAccount become its Pods' own, as Kubernetes' admission makes them."""

import pytest

from headrace.api.kinds import POD, SERVICE_ACCOUNT
from tests.objects.stores import opened

ACCOUNT = [{"name": "regcred"}, {"name": "other"}]


@pytest.mark.parametrize(
    ("account", "own", "expected"),
    [
        pytest.param("puller", None, ACCOUNT, id="a Pod without any has its account's"),
        pytest.param("puller", [{"name": "mine"}], [{"name": "mine"}], id="a Pod with one of its own has that alone"),
        pytest.param("absent", None, None, id="an account that is not there has none"),
        pytest.param("", None, None, id="the default account has none unless somebody says so"),
    ],
)
async def test_the_pull_secrets_of_an_account_are_its_pods_unless_they_name_their_own(account, own, expected):
    store = await opened()
    meta = {"name": "puller", "namespace": "default"}
    await store.create(
        SERVICE_ACCOUNT,
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta, "imagePullSecrets": ACCOUNT},
    )
    spec = {"containers": [{"name": "main", "image": "app:1"}]}
    spec |= {"serviceAccountName": account} if account else {}
    spec |= {"imagePullSecrets": own} if own else {}
    made = await store.create(
        POD, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec}
    )
    assert made["spec"].get("imagePullSecrets") == expected
