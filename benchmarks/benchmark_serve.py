"""Compare the throughput of `trninfer serve` with `trninfer classify` on the same pictures.

    python -m trninfer.benchmarks.benchmark_serve [--pictures 200] [--clients 10] [--model digits-cnn] [--max-batch 16]

The pictures are drawn into a temporary folder. `classify` processes them in one run with batches of --max-batch. Then
the clients, each with a separate connection, send them to a server one by one, as fast as it responds. The rate of
`classify` is measured from the first prediction, and the rate of the server from the time at which it is ready. The
clients measure latencies.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from trninfer.benchmarks.benchmark_stream import draw_pictures


def classify_rate(folder: Path, model: str, batch: int) -> float:
    """Return pictures per second of `trninfer classify` after the first batch."""
    words = ["classify", folder, "--model", model, "--format", "ndjson", "--quiet", "--batch-size", batch]
    command = [sys.executable, "-m", "trninfer", *map(str, [*words, "--backend", "sim"])]
    times = []
    with subprocess.Popen(command, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if b'"type": "prediction"' in line:
                times.append(time.perf_counter())
    return (len(times) - batch) / (times[-1] - times[batch - 1])


def start_server(model: str, batch: int) -> tuple[subprocess.Popen[str], int]:
    """Start a server, wait until it is ready, and return it and its port."""
    words = ["serve", "--model", model, "--port", 0, "--max-batch", batch, "--log-format", "json", "--backend", "sim"]
    command = [sys.executable, "-m", "trninfer", *map(str, words)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    line = json.loads(process.stderr.readline())
    threading.Thread(target=lambda: list(process.stderr or ()), daemon=True).start()
    port = int(line["address"].rpartition(":")[2].strip("/"))
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/v2/health/ready")
        if connection.getresponse().status == 200:
            return process, port
        time.sleep(0.2)


def serve_rate(port: int, pictures: list[bytes], clients: int) -> tuple[float, list[float], float]:
    """Return the pictures per second, the latency of each picture in seconds, and the mean batch size."""
    numbers = itertools.count()
    latencies: list[float] = []
    sizes: list[int] = []

    def client() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        while (number := next(numbers)) < len(pictures):
            began = time.perf_counter()
            connection.request("POST", "/classify", pictures[number])
            reply = connection.getresponse()
            report = json.loads(reply.read())
            latencies.append(time.perf_counter() - began)
            if reply.status == 200:
                sizes.append(report["predictions"][0]["batch_size"])

    threads = [threading.Thread(target=client) for _ in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(pictures) / (time.perf_counter() - began), latencies, statistics.mean(sizes)


def main() -> None:
    """Print both rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=200)
    parser.add_argument("--side", type=int, default=64)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--model", default="digits-cnn")
    parser.add_argument("--max-batch", type=int, default=16)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        draw_pictures(Path(folder), options.pictures, options.side)
        batch = classify_rate(Path(folder), options.model, options.max_batch)
        pictures = [path.read_bytes() for path in sorted(Path(folder).iterdir())]
    process, port = start_server(options.model, options.max_batch)
    try:
        rate, latencies, size = serve_rate(port, pictures, options.clients)
    finally:
        process.terminate()
        process.wait(60)
    cuts = statistics.quantiles(latencies, n=100)
    print(f"classify, batches of {options.max_batch}: {batch:.1f} pictures/s")
    print(f"serve, {options.clients} clients: {rate:.1f} pictures/s, {rate / batch:.2f} times; {size:.1f} in a batch")
    print(f"latency of a request: median {1e3 * cuts[49]:.0f} ms, 99th percentile {1e3 * cuts[98]:.0f} ms")


if __name__ == "__main__":
    main()
