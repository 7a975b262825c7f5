"""Each rank says its number to each other one, which it finds by its name alone."""

import os
import socket
import threading
import time

JOB, RANK, SIZE = os.environ["TRELLIS_JOB"], int(os.environ["TRELLIS_RANK"]), int(os.environ["TRELLIS_WORLD_SIZE"])
NAMESPACE = os.environ["NAMESPACE"]
PORT = 29500


def call(peer):
    """As every client of a service does: again until it answers. The test has a time limit."""
    name = f"{JOB}-worker-{peer}.{JOB}.{NAMESPACE}.svc.cluster.local"
    started = time.monotonic()
    last_error = None
    while True:
        seconds = f"{time.monotonic() - started:.1f} s"
        try:
            with socket.create_connection((name, PORT), timeout=5) as connection:
                connection.sendall(bytes([RANK]))
                print(f"reached rank {peer} after {seconds}", flush=True)
                return
        except OSError as error:
            if str(error) != last_error:
                print(f"rank {peer} after {seconds}: {error}", flush=True)
            last_error = str(error)
            time.sleep(0.2)


server = socket.create_server(("", PORT))
callers = [threading.Thread(target=call, args=[peer]) for peer in range(SIZE) if peer != RANK]
for caller in callers:
    caller.start()
heard = set()
while len(heard) < SIZE - 1:
    connection, _ = server.accept()
    heard.add(connection.recv(1)[0])
for caller in callers:
    caller.join()
print(f"rank {RANK} with {os.environ['NVIDIA_VISIBLE_DEVICES']} heard {sorted(heard)}")
