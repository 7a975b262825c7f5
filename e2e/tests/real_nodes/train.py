"""A linear model of synthetic data, trained by DistributedDataParallel on the CPU. Rank 0 saves
each SAVE_EVERY steps, all ranks go on from the last that is whole: docs/checkpoints.md."""

import os
import pathlib
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

JOB, ATTEMPT = os.environ["TRELLIS_JOB"], int(os.environ["TRELLIS_ATTEMPT"])
STEPS, SAVE_EVERY, FEATURES = 60, 10, 32
STEP_SECONDS = float(os.environ["STEP_SECONDS"])
ROOT = pathlib.Path("/ckpt") / JOB


def batch(step, rank):
    """The same for a step and a rank, whatever came before."""
    random = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.randn(64, FEATURES, generator=random)
    return x, x.sum(dim=1, keepdim=True) + 0.1 * torch.randn(64, 1, generator=random)


def save(model, optimizer, step):
    folder = ROOT / f"attempt-{ATTEMPT:06}"
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / "state.part"
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, part)
    part.rename(folder / "state.pt")


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(FEATURES, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    start = 0
    found = sorted(ROOT.glob("attempt-*/state.pt"))
    if found:
        state = torch.load(found[-1])
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["step"]
    print(f"attempt {ATTEMPT} rank {rank} of {dist.get_world_size()} goes on at step {start}", flush=True)
    for step in range(start + 1, STEPS + 1):
        x, y = batch(step, rank)
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(STEP_SECONDS)
        if rank == 0 and step % SAVE_EVERY == 0:
            save(model, optimizer, step)
    dist.all_reduce(loss.detach())
    print(f"done: loss {loss.item():.9f}", flush=True)
    # Gloo of PyTorch 1.13 now and then hangs for ever while it closes its connections.
    dist.barrier()
    time.sleep(0.5)
    os._exit(0)


main()
