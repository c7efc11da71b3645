"""Run by test_pyg_processes.py in several processes: each trains on its part of the nodes, as a user would."""

import json
import sys
from pathlib import Path

import torch
from pyg_cases import Net, random_data
from torch import distributed
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from fishergcn.integrations.pyg import BuresAdversary


def train(rank: int, world: int, how: str, steps: int = 20) -> dict[str, list[float]]:
    data, model = random_data(4), Net()
    mine = torch.arange(data.num_nodes)[rank::world]
    adversary = BuresAdversary(data, rank=4, radius=1.0, samples=3)
    if how == "inside":
        adversary.attach(model)
    else:  # other first values, to see that those of the first process are taken
        with torch.no_grad():
            adversary.xi += rank
    wrapped = DistributedDataParallel(model) if world > 1 else model
    if how == "around":
        adversary.attach(wrapped)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.add_param_group(adversary.parameter_group(lr=50.0))
    for _ in range(steps):
        optimizer.zero_grad()
        closure = lambda: cross_entropy(wrapped(data.x, data.edge_index)[mine], data.y[mine])  # noqa: E731
        adversary.average(closure, keep=how == "around").backward()
        optimizer.step()
    return {"xi": adversary.xi.flatten().tolist(), "weights": model.first.lin.weight.flatten().tolist()}


if __name__ == "__main__":
    distributed.init_process_group("gloo")
    number = distributed.get_rank()
    found = train(number, distributed.get_world_size(), sys.argv[2])
    Path(sys.argv[1], f"{number}.json").write_text(json.dumps(found))
    distributed.barrier()  # one that leaves early breaks the connections of the other
    distributed.destroy_process_group()
