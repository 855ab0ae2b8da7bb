"""The strategy of each built-in kind, one module for each group of kinds."""

from headrace.api import kinds
from headrace.objects.crd.definition import DefinitionStrategy
from headrace.objects.strategies import core, pods
from headrace.objects.strategy import Strategy

STRATEGIES: dict[str, Strategy] = {
    kinds.CUSTOM_RESOURCE_DEFINITION.resource: DefinitionStrategy(),
    kinds.EVENT.resource: Strategy(),
    kinds.NAMESPACE.resource: core.NamespaceStrategy(),
    kinds.POD.resource: pods.PodStrategy(),
}
