"""The function libraries that device selectors may use, one module each: declarations and implementations."""
