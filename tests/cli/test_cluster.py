"""`manifests` and `controllers`: what a cluster needs is printed whole, what cannot work is refused before it runs."""

import pytest
import yaml
from click.testing import CliRunner

from headrace.cli.main import root


def run(*arguments):
    done = CliRunner().invoke(root, list(arguments))
    return done.exit_code, done.output


def printed(*arguments):
    code, text = run("manifests", *arguments)
    assert code == 0
    assert "&id" not in text, "what is said twice is written twice: not every reader knows anchors"
    return list(yaml.safe_load_all(text))


def test_all_that_a_cluster_needs_is_printed():
    found = [(each["kind"], each["metadata"]["name"]) for each in printed()]
    assert found == [
        ("CustomResourceDefinition", "resizepolicies.headrace.dev"),
        ("CustomResourceDefinition", "resourcescalingactions.headrace.dev"),
        ("ServiceAccount", "headrace-controllers"),
        ("ClusterRole", "headrace-controllers"),
        ("ClusterRoleBinding", "headrace-controllers"),
        ("Role", "headrace-controllers"),
        ("RoleBinding", "headrace-controllers"),
        ("ClusterRole", "headrace-definitions"),
        ("ClusterRoleBinding", "headrace-definitions"),
    ]


def test_the_account_and_what_is_bound_to_it_are_in_the_namespace_asked_for():
    for each in printed("-n", "capacity"):
        if each["kind"] in ("ServiceAccount", "Role", "RoleBinding"):
            assert each["metadata"]["namespace"] == "capacity"
        assert {subject["namespace"] for subject in each.get("subjects", ())} <= {"capacity"}


def test_of_pods_nothing_but_their_resize_may_be_written():
    rules = [rule for each in printed() if each["kind"] == "ClusterRole" for rule in each["rules"]]
    writes = {
        (resource, verb)
        for rule in rules
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if resource.startswith("pods") and verb not in ("get", "list", "watch")
    }
    assert writes == {("pods/resize", "patch")}
    assert not [rule for rule in rules if "*" in (*rule["verbs"], *rule["resources"], *rule["apiGroups"])]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--prometheus-token-file", "/x"), "go with --prometheus"),
        (("--prometheus", "prometheus:9090"), "must be a URL"),
        (("--prometheus", "http://me:secret@prometheus"), "by a file with a token"),
        (("--prometheus", "https://prometheus", "--prometheus-ca", "/nothing/there"), "/nothing/there: No such file"),
        (("--sample-seconds", "0"), "0.1<=x<=300"),
        (("--sample-seconds", "nan"), "0.1<=x<=300"),
        (("--health-address", "8080"), "must be HOST:PORT"),
    ],
)
def test_what_cannot_work_is_refused_at_once(tmp_path, options, words):
    kubeconfig = tmp_path / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    contexts = [{"name": "c", "context": {"cluster": "c"}}]
    kubeconfig.write_text(yaml.dump({"current-context": "c", "contexts": contexts, "clusters": [cluster]}))
    code, text = run("controllers", "--kubeconfig", str(kubeconfig), *options)
    assert code != 0
    assert words in text
