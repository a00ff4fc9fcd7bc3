"""Durable saves of 1 GiB by torch.save, torch's DCP, safetensors and the store: python throughput_peers.py THREADS RUNS [DIR]

`cargo xtask bench throughput --interop` runs it. All save the same amount of float32 data into DIR (target/tmp), taking
turns; the clock stops when the bytes are on the disk. The libraries do not all see to that themselves, so the script
calls fsync on the file and its directory for them. The store also hashes and commits by a rename. What was saved before
is removed off the clock. Needs torch 2.13.0 and safetensors 0.8.0. One line of JSON a writer: store_is_faster is the
median over the runs of its time by the store's in the same run; load is the load average at the start, and rates taken on
a busy machine mean little.

Everything is measured twice: back to back, where the page cache takes memory that the file removed just before has freed,
and PAUSE seconds apart, as a trainer saves. A virtual machine hands memory that stays free back to its host meanwhile,
and the next write through the page cache pays for getting it again.
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).resolve().parents[3]
MIB = 1024
TENSOR_MIB = 16
PAUSE = 5


def main():
    threads, runs = int(sys.argv[1]), int(sys.argv[2])
    parent = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else ROOT / "target" / "tmp"
    parent.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(threads)
    warnings.filterwarnings("ignore")
    generator = torch.Generator().manual_seed(1)
    elements = (TENSOR_MIB << 20) // 4
    state = {f"layer.{at}": torch.randn(elements, generator=generator) for at in range(MIB // TENSOR_MIB)}
    with tempfile.TemporaryDirectory(dir=parent) as directory:
        for pause in [0, PAUSE]:
            measure(state, runs, pause, pathlib.Path(directory))


def measure(state, runs, pause, directory):
    load = os.getloadavg()[0]
    store = Store(directory / f"store-{pause}")
    writers = {
        "torch.save + fsync": lambda path: torch_save(state, path),
        "torch DCP + fsync of the directory": lambda path: torch_dcp(state, path),
        "safetensors save_file + fsync": lambda path: safetensors(state, path),
    }
    seconds = {name: [] for name in [*writers, "store"]}
    for run in range(runs + 1):  # the first warms up
        for name, write in writers.items():
            time.sleep(pause)
            path = directory / "peer"
            started = time.perf_counter()
            write(path)
            seconds[name].append(time.perf_counter() - started)
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            os.sync()
        time.sleep(pause)
        seconds["store"].append(store.save())
        os.sync()
    store.close()
    gigabytes = MIB * 2**20 / 1e9
    seconds = {name: taken[1:] for name, taken in seconds.items()}
    for name, taken in seconds.items():
        ratios = [own / stores for own, stores in zip(taken, seconds["store"])]
        print(json.dumps({
            "writer": name,
            "pause_s": pause,
            "best_gb_per_s": round(gigabytes / min(taken), 2),
            "median_gb_per_s": round(gigabytes / statistics.median(taken), 2),
            "store_is_faster": round(statistics.median(ratios), 2),
            "runs": runs,
            "load": round(load, 2),
        }), flush=True)


def torch_save(state, path):
    with open(path, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    sync(path.parent)


def torch_dcp(state, path):
    # its files are synced by default (sync_files), the directory is not
    dcp.save(state, checkpoint_id=path, no_dist=True)
    sync(path)
    sync(path.parent)


def safetensors(state, path):
    save_file(state, path)
    sync(path)
    sync(path.parent)


def sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


class Store:
    """benches/throughput.rs as a process that saves when it is asked to."""

    def __init__(self, directory):
        cargo = os.environ.get("CARGO", "cargo")
        command = [cargo, "bench", "-q", "-p", "piton-checkpoint", "--bench", "throughput", "--"]
        self.process = subprocess.Popen(
            [*command, "--on-request", str(directory), str(MIB)],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )

    def save(self):
        self.process.stdin.write("save\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


if __name__ == "__main__":
    main()
