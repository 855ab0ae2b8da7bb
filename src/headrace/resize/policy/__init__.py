"""The PolicyManager's decisions: pure functions from a ResizePolicy and what was measured to what is to be resized."""
