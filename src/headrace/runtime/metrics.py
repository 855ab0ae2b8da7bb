"""Prometheus metrics of queues and reconcile loops, under the names that client-go and controller-runtime use."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0)


class ControllerMetrics:
    """One set for a process; each controller takes its own `of(name)`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def histogram(name: str, text: str, label: str) -> Histogram:
            return Histogram(name, text, (label,), registry=registry, buckets=SECONDS)

        self.depth = Gauge("workqueue_depth", "Keys waiting in the work queue", ("name",), registry=registry)
        self.adds = counter("workqueue_adds_total", "Keys added to the work queue", "name")
        self.retries = counter("workqueue_retries_total", "Keys tried again after a failure", "name")
        self.waited = histogram("workqueue_queue_duration_seconds", "How long a key waited in the queue", "name")
        self.worked = histogram("workqueue_work_duration_seconds", "How long a worker had a key", "name")
        self.reconciles = counter(
            "controller_runtime_reconcile_total", "Reconciliations by result", "controller", "result"
        )
        self.errors = counter("controller_runtime_reconcile_errors_total", "Reconciliations that failed", "controller")
        self.reconcile_seconds = histogram(
            "controller_runtime_reconcile_time_seconds", "How long one reconciliation took", "controller"
        )
        self.events_dropped = Counter("headrace_events_dropped_total", "Events not written", registry=registry)

    def of(self, name: str) -> "NamedMetrics":
        return NamedMetrics(self, name)


class NamedMetrics:
    """The metrics of one controller and its queue. Its series are looked up once: a look at a key touches seven."""

    def __init__(self, all: ControllerMetrics, name: str) -> None:
        self._all, self._name = all, name
        self._adds, self._depth = all.adds.labels(name), all.depth.labels(name)
        self._waited, self._worked = all.waited.labels(name), all.worked.labels(name)
        self._successes = all.reconciles.labels(name, "success")
        self._reconcile_seconds = all.reconcile_seconds.labels(name)

    def added(self, depth: int) -> None:
        self._adds.inc()
        self._depth.set(depth)

    def taken(self, depth: int, waited_seconds: float) -> None:
        self._depth.set(depth)
        self._waited.observe(waited_seconds)

    def done(self, worked_seconds: float) -> None:
        self._worked.observe(worked_seconds)

    def reconciled(self, result: str, seconds: float) -> None:
        """`result`: success, conflict, refused, unavailable, error."""
        self._reconcile_seconds.observe(seconds)
        if result == "success":
            self._successes.inc()
            return
        self._all.reconciles.labels(self._name, result).inc()
        self._all.retries.labels(self._name).inc()
        if result == "error":
            self._all.errors.labels(self._name).inc()
