"""Replica groups of the shape of torchft: each group is a torchrun world of its own, holds the whole
model, and publishes its state after each step. A group that comes back takes the newest state."""

import os
import pathlib
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

GROUP = int(os.environ["REPLICA_GROUP_ID"])
SHARED = pathlib.Path("/shared-state")
STEPS = 60


def newest_state():
    """The newest state of another group."""
    states = [torch.load(path) for path in SHARED.glob("group-*.pt") if path.name != f"group-{GROUP}.pt"]
    return max(states, key=lambda state: state["step"], default=None)


def publish(model, step):
    part = SHARED / f"part-{GROUP}"
    torch.save({"model": model.module.state_dict(), "step": step}, part)
    part.rename(SHARED / f"group-{GROUP}.pt")


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    start = torch.zeros(1, dtype=torch.int64)
    if rank == 0 and (state := newest_state()):
        model.load_state_dict(state["model"])
        start[0] = state["step"]
    dist.broadcast(start, src=0)
    # DistributedDataParallel sends the model of rank 0 to the other ranks of the group.
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    print(f"group {GROUP} of {size} pods starts at step {start.item()}", flush=True)
    for step in range(start.item() + 1, STEPS + 1):
        x = torch.randn(16, 8, generator=torch.Generator().manual_seed(step))
        loss = (model(x) - x.sum(dim=1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            publish(model, step)
        time.sleep(0.2)
    print(f"group {GROUP} done at step {STEPS}, loss {loss.item():.6f}", flush=True)


main()
