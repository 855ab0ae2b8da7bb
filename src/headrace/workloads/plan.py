"""Pure decisions of `workloads`: what is seen in, actions out."""
