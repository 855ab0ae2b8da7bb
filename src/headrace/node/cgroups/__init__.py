"""What enforces limits: cgroups of v1, hybrid and v2 behind one interface, and the approximation where there are none.

Values are read back from the kernel's files. A change that fails leaves the previous values in force, or says so.
"""
