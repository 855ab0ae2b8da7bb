"""What resizing costs: `python -m bench.resize apply|decision|threshold|sampling|ledger`.

Everything runs in turns within one run, so that ratios hold whatever else the machine does.
"""

import argparse

from bench.resize import apply, decision, ledger, sampling, threshold


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    for name, what, rounds in (
        ("apply", "a runtime's own part, beside Podman's bare REST call (root, podman, runc)", 100),
        ("decision", "RequestResourceScaling through server and agent to the cgroup (root)", 100),
        ("threshold", "a sample that crosses a threshold to the cgroup (root)", 10),
        ("sampling", "an agent with 500 containers, sampled once a second (root)", 20),
        ("ledger", "durable admissions, in process and through the gRPC service", 2000),
    ):
        part = parts.add_parser(name, help=what)
        part.add_argument("--rounds", type=int, default=rounds)
    parts.choices["decision"].add_argument("--no-podman", action="store_true", help="Processes alone.")
    arguments = parser.parse_args()
    match arguments.part:
        case "apply":
            apply.run(arguments.rounds)
        case "decision":
            decision.run(arguments.rounds, with_podman=not arguments.no_podman)
        case "threshold":
            threshold.run(arguments.rounds)
        case "sampling":
            sampling.run(arguments.rounds)
        case "ledger":
            ledger.run(arguments.rounds)


if __name__ == "__main__":
    main()
