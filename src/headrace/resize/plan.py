"""Pure decisions of `resize`: what is seen in, actions out."""
