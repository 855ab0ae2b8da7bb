"""`leading_controllers.py KUBECONFIG`: what `headrace controllers` runs, on a server of ours too, which it refuses."""

import sys
from pathlib import Path

from headrace.cli.running import until_stopped, while_running
from headrace.client.kubeconfig import load
from headrace.serve.cluster import ControllersSettings, run_controllers
from headrace.serve.cluster_jobs import cluster_jobs
from headrace.serve.logging import log_to


def main(kubeconfig):
    settings = ControllersSettings(load(Path(kubeconfig)))

    def ready(port):
        print(f"health: http://127.0.0.1:{port}/livez", flush=True)

    async def work(stop):
        await while_running(run_controllers(settings, log_to(), ready, cluster_jobs), stop)

    until_stopped(work)


if __name__ == "__main__":
    main(sys.argv[1])
