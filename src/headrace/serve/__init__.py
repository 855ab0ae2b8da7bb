"""The composition root: the one place that puts parts together into the processes that run."""
