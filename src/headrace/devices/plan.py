"""Pure decisions of `devices`: what is seen in, actions out."""
