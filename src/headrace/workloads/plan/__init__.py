"""Pure decisions of `workloads`, one module for each thing an embedded home must do itself."""
