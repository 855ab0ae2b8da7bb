"""What a Pod asks of the Pods beside it, and they of it: required affinity and anti-affinity, and spread (pure).

Source: kube-scheduler 1.37's InterPodAffinity and PodTopologySpread filters. Preferences only score there; here they
do nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from headrace.api.objects import Fields, metadata, name_of, namespace_of, uid_of
from headrace.api.selectors import NOTHING, Operator, Requirement, Selector, from_label_selector
from headrace.api.taints import untolerated
from headrace.scheduling.filters import matches_placement

NOT_SPREAD = "node(s) didn't match pod topology spread constraints"
NO_TOPOLOGY = f"{NOT_SPREAD} (missing required label)"
NOT_BESIDE = "node(s) didn't match pod affinity rules"
KEEPS_AWAY = "node(s) didn't match pod anti-affinity rules"
KEPT_AWAY = "node(s) didn't satisfy existing pods anti-affinity rules"
NO_DOMAIN = 2**31  # what counts as the smallest number of Pods where no node is counted

Labels = Mapping[str, str]
LabelsOf = Callable[[str], Labels]
"""Of a namespace, by its name."""
Placed = tuple[Fields, str]
"""A Pod and the name of its node."""
Others = Sequence[tuple[Fields, Fields]]
"""Pods, and the node of each."""


def asks_of_neighbours(pod: Fields) -> bool:
    return bool(_terms(pod, "podAffinity") or keeps_others_away(pod) or _constraints(pod))


def keeps_others_away(pod: Fields) -> bool:
    """Raises what a rule raises that cannot be read: such a Pod must not be asked for others."""
    for term in (terms := _terms(pod, "podAntiAffinity")):
        _matches(pod, term, pod, lambda name: {})
        str(term["topologyKey"])
    return bool(terms)


def refusals(
    pod: Fields,
    nodes: Mapping[str, Fields],
    placed: Iterable[Placed],
    keeping_away: Iterable[Placed],
    namespaces: LabelsOf,
) -> dict[str, str]:
    """Why which node cannot take the Pod.

    `placed`: the Pods on these nodes that have not ended, with their nodes' names, if it asks anything of them;
    `keeping_away`: those of them that keep others away.
    """
    others, keeping = _others(pod, nodes, placed), _others(pod, nodes, keeping_away)
    checks = [_spread(pod, nodes, others), _beside(pod, others, namespaces), _apart(pod, others, keeping, namespaces)]
    found: dict[str, str] = {}
    for name, node in nodes.items():
        labels = _labels(node)
        if why := next((told for check in checks if (told := check(labels))), ""):
            found[name] = why
    return found


def _others(pod: Fields, nodes: Mapping[str, Fields], placed: Iterable[Placed]) -> Others:
    return [(each, nodes[name]) for each, name in placed if name in nodes and uid_of(each) != uid_of(pod)]


Check = Callable[[Labels], str]
"""Why not on a node with these labels; empty: it may."""


def _spread(pod: Fields, nodes: Mapping[str, Fields], others: Others) -> Check:
    constraints = _constraints(pod)
    keys = {str(each["topologyKey"]) for each in constraints}
    counted = [node for node in nodes.values() if keys <= _labels(node).keys()]
    rules = [(each, _selector(pod, each), _domains(pod, each, counted, others)) for each in constraints]

    def check(labels: Labels) -> str:
        for constraint, selector, domains in rules:
            domain = labels.get(constraint["topologyKey"])
            if domain is None:
                return NO_TOPOLOGY
            least = min(domains.values(), default=NO_DOMAIN)
            if len(domains) < (constraint.get("minDomains") or 0):
                least = 0
            own = selector.matches(_labels(pod))
            if domains.get(domain, 0) + own - least > constraint["maxSkew"]:
                return NOT_SPREAD
        return ""

    return check


def _domains(pod: Fields, constraint: Fields, counted: Iterable[Fields], others: Others) -> Mapping[str, int]:
    """How many Pods that the constraint selects are in each domain, of the nodes that it takes into account."""
    key, selector = str(constraint["topologyKey"]), _selector(pod, constraint)
    domain_of = {name_of(node): _labels(node)[key] for node in counted if _is_included(pod, constraint, node)}
    found = dict.fromkeys(domain_of.values(), 0)
    for other, node in others if selector.requirements else ():
        domain = domain_of.get(name_of(node))
        if domain is None or metadata(other).get("deletionTimestamp") or namespace_of(other) != namespace_of(pod):
            continue
        found[domain] += selector.matches(_labels(other))
    return found


def _is_included(pod: Fields, constraint: Fields, node: Fields) -> bool:
    spec: Fields = pod.get("spec") or {}
    if (constraint.get("nodeAffinityPolicy") or "Honor") == "Honor" and not matches_placement(spec, node):
        return False
    taints = (node.get("spec") or {}).get("taints") or ()
    honours_taints = constraint.get("nodeTaintsPolicy") == "Honor"
    return not (honours_taints and untolerated(taints, spec.get("tolerations") or ()))


def _beside(pod: Fields, others: Others, namespaces: LabelsOf) -> Check:
    terms = _terms(pod, "podAffinity")
    there: set[tuple[str, str]] = set()
    for other, node in others if terms else ():
        if all(_matches(pod, term, other, namespaces) for term in terms):
            labels = _labels(node)
            there.update((key, labels[key]) for key in (str(each["topologyKey"]) for each in terms) if key in labels)
    # The first of Pods that want to be together goes anywhere.
    is_first = not there and all(_matches(pod, term, pod, namespaces) for term in terms)

    def check(labels: Labels) -> str:
        pairs = [(str(each["topologyKey"]), labels.get(each["topologyKey"])) for each in terms]
        if any(value is None for _, value in pairs):
            return NOT_BESIDE
        return "" if is_first or all(each in there for each in pairs) else NOT_BESIDE

    return check


def _apart(pod: Fields, others: Others, keeping: Others, namespaces: LabelsOf) -> Check:
    keeps = _domains_of_matches([(pod, each, node) for each, node in others], namespaces)
    kept = _domains_of_matches([(each, pod, node) for each, node in keeping], namespaces)

    def check(labels: Labels) -> str:
        if not keeps.isdisjoint(labels.items()):
            return KEEPS_AWAY
        return "" if kept.isdisjoint(labels.items()) else KEPT_AWAY

    return check


def _domains_of_matches(asked: Iterable[tuple[Fields, Fields, Fields]], namespaces: LabelsOf) -> set[tuple[str, str]]:
    """Of (owner, Pod, node): where one of the owner's anti-affinity terms is about the Pod, the node's domain."""
    found: set[tuple[str, str]] = set()
    for owner, pod, node in asked:
        for term in _terms(owner, "podAntiAffinity"):
            domain = _labels(node).get(term["topologyKey"])
            if domain is not None and _matches(owner, term, pod, namespaces):
                found.add((str(term["topologyKey"]), domain))
    return found


def _matches(owner: Fields, term: Fields, pod: Fields, namespaces: LabelsOf) -> bool:
    """Whether the term of its owner's is about this Pod."""
    named, selector = term.get("namespaces") or (), term.get("namespaceSelector")
    namespace = namespace_of(pod)
    if not named and selector is None:
        is_in = namespace == namespace_of(owner)
    else:
        is_in = namespace in named or from_label_selector(selector).matches(namespaces(namespace))
    return is_in and _selector(owner, term).matches(_labels(pod))


def _selector(owner: Fields, rule: Fields) -> Selector:
    """With the values that its owner has for matchLabelKeys and mismatchLabelKeys."""
    found, labels = from_label_selector(rule.get("labelSelector")), _labels(owner)
    if found is NOTHING:
        return found
    fields: tuple[tuple[str, Operator], ...] = (("matchLabelKeys", "in"), ("mismatchLabelKeys", "notin"))
    more = [
        Requirement(key, operator, (labels[key],))
        for field, operator in fields
        for key in rule.get(field) or ()
        if key in labels
    ]
    return Selector((*found.requirements, *more))


def _terms(pod: Fields, sort: str) -> Sequence[Fields]:
    affinity: Fields = ((pod.get("spec") or {}).get("affinity") or {}).get(sort) or {}
    found: Sequence[Fields] = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    return found


def _constraints(pod: Fields) -> Sequence[Fields]:
    found: Iterable[Fields] = (pod.get("spec") or {}).get("topologySpreadConstraints") or ()
    return [each for each in found if (each.get("whenUnsatisfiable") or "DoNotSchedule") == "DoNotSchedule"]


def _labels(obj: Fields) -> Labels:
    """What can be read of them: one damaged object must not keep all Pods from being placed."""
    found = metadata(obj).get("labels")
    return {key: value for key, value in found.items() if isinstance(value, str)} if isinstance(found, Mapping) else {}
