"""Pure decisions of `pools`: what is seen in, actions out."""
