"""Pure decisions of `scheduling`: what is seen in, actions out."""
