"""Pure decisions of `prescale`: what is seen in, actions out."""
