"""The keeper: parent of all process containers, which holds their output and exit codes and outlives agent and `up`.

It is a process of its own (`python -m headrace.node.keeper DIR`); its modules import next to nothing, so that it stays
small. Only `client.py` and `launch.py` are for the agent's side.
"""
