"""Where the API server takes and tells metrics."""

METRICS_PATH = "/headrace/v1alpha1/metrics"
"""POST: an application's own."""

USAGE_PATH = "/headrace/v1alpha1/usage"
"""GET: what each workload uses now."""
