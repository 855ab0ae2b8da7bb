"""The demo's application: programs that import nothing but the standard library, run by path in containers."""
