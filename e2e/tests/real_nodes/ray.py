import os
import sys

import ray

ray.init()
nodes = [node for node in ray.nodes() if node["Alive"]]
print(f"{len(nodes)} nodes, {ray.cluster_resources()['GPU']:.0f} GPUs", flush=True)


@ray.remote(num_cpus=0, num_gpus=1)
class Rank:
    def host(self):
        return os.uname().nodename

    def fail(self):
        os._exit(1)


ranks = [Rank.remote() for _ in range(4)]
hosts = sorted(ray.get([rank.host.remote() for rank in ranks]))
print(f"actors on {' '.join(hosts)}", flush=True)
# The first attempt fails: the gang restarts, and the next attempt has a new cluster.
sys.exit(3 if os.environ["TRELLIS_ATTEMPT"] == "1" else 0)
