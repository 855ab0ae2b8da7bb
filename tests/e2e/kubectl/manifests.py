"""What the scenarios apply."""

SETTINGS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: web, tier: front}}
data: {color: blue}
"""

OTHER = """
apiVersion: v1
kind: ConfigMap
metadata: {name: other, labels: {app: db}}
data: {a: "1", b: "2"}
"""

WEB = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - name: main
    image: nginx:1
    resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 200m, memory: 128Mi}}
"""

SIDE = """
apiVersion: v1
kind: Pod
metadata: {name: side, labels: {app: side}}
spec: {containers: [{name: one, image: a}, {name: two, image: b}]}
"""

SHOP = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: till, image: till:1}]}
"""

WIDGETS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    - {name: Color, type: string, jsonPath: .spec.color, priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [size]
            properties:
              size: {type: integer, minimum: 1, description: How many there are.}
              color: {type: string, default: grey}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""

WIDGET = """
apiVersion: example.com/v1
kind: Widget
metadata: {name: gear}
spec: {size: 3}
"""
