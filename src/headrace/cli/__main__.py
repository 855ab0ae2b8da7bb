"""`python -m headrace.cli`: how a part of `headrace up` is started with the same interpreter."""

from headrace.cli.main import main

main()
