"""See history_faults.sh. What was kept is what `/fee-trend` serves after a start without a node."""

import calendar
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

SERVICE, RECORDED_NODE, KILLS = sys.argv[1], sys.argv[2], int(sys.argv[3])
CHAINS = 20
PERIODS = {"1h": 60, "24h": 600, "7d": 3600}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Instance:
    """The service with its history at `path`. Without a node it serves what the file has."""

    running = []

    def __init__(self, folder, path, node="127.0.0.1:1"):
        self.port = free_port()
        config = os.path.join(folder, f"{self.port}.toml")
        self.log_path = os.path.join(folder, f"{self.port}.log")
        chains = "".join(
            f'[chains.c{number}]\nchain_id = {70_000 + number}\nblock_time = "200ms"\nstall_after = "0s"\n'
            f'rpc_urls = ["http://{node}/{70_000 + number}"]\n'
            for number in range(CHAINS)
        )
        with open(config, "w") as file:
            file.write(
                f'[server]\nlisten = "127.0.0.1:{self.port}"\nadmin_listen = "127.0.0.1:{free_port()}"\n'
                f'drain_delay = "0s"\n[log]\nformat = "json"\n[history]\nrefill = false\ndays = 400\npath = "{path}"\n{chains}'
            )
        with open(self.log_path, "w") as log:
            self.process = subprocess.Popen([SERVICE, "--config", config], stderr=log, stdout=log)
        Instance.running.append(self)

    def get(self, path):
        """Returns status and body; `None`: no connection."""
        try:
            client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            client.request("GET", path)
            response = client.getresponse()
            return response.status, json.loads(response.read())
        except OSError:
            return None

    def wait_for(self, path):
        deadline = time.monotonic() + 30
        while True:
            answer = self.get(path)
            if answer and answer[0] == 200:
                return answer[1]
            assert self.process.poll() is None, f"the service ended: {self.log()}"
            assert time.monotonic() < deadline, f"{path}: {answer}"
            time.sleep(0.01)

    def log(self):
        with open(self.log_path) as file:
            return file.read()

    def history_lines(self):
        lines = [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]
        return [
            " ".join(filter(None, (line["level"], line["message"], line.get("reason") or line.get("error"))))
            for line in lines
            if "history database" in line["message"]
        ]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=30)
        Instance.running.remove(self)
        assert code == 0, f"status {code}: {self.log()}"

    def kill(self):
        self.process.kill()
        self.process.wait()
        if self in Instance.running:
            Instance.running.remove(self)


def fill(folder, path, node):
    """Writes a database with some blocks of every chain."""
    instance = Instance(folder, path, node)
    for number in range(CHAINS):
        instance.wait_for(f"/v1/c{number}/fee-trend?period=1h")
    instance.stop()


def kept(folder, path):
    """Returns the closed buckets and the number of blocks that the file has, of all chains."""
    instance = Instance(folder, path)
    buckets, blocks = {}, 0
    for number in range(CHAINS):
        instance.wait_for(f"/v1/c{number}/fee-trend?period=7d")
        for period, width in PERIODS.items():
            trend = instance.get(f"/v1/c{number}/fee-trend?period={period}")[1]["buckets"]
            closed = [it for it in trend if time.time() - parse(it["start"]) > width + 3600]
            buckets.update({(number, width, it["start"]): it for it in closed})
            if period == "7d":
                blocks += sum(it["blocks"] for it in trend)
    lines = instance.history_lines()
    instance.kill()
    return buckets, blocks, lines


def parse(start):
    return calendar.timegm(time.strptime(start, "%Y-%m-%dT%H:%M:%SZ"))


def kill_while_writing(folder, node):
    """Kills the service at its start, or while it writes its last blocks at a shutdown."""
    path = os.path.join(folder, "kills.redb")
    fill(folder, path, node)
    buckets, blocks, _ = kept(folder, path)
    assert blocks >= CHAINS * 20, blocks
    ended = 0
    for round_ in range(KILLS):
        instance = Instance(folder, path, node)
        if round_ % 4 == 0:
            time.sleep(random.uniform(0, 0.08))
        else:
            instance.wait_for("/v1/c0/fee-trend?period=1h")
            time.sleep(0.2)
            instance.process.send_signal(signal.SIGTERM)
            time.sleep(random.uniform(0, 0.03))
        ended += instance.process.poll() is not None
        instance.kill()
        now_kept, now_blocks, lines = kept(folder, path)
        # Blocks become closed buckets, and none gets lost.
        missing = [key for key, bucket in buckets.items() if now_kept.get(key) != bucket and key[1] == 3600]
        assert not missing, f"round {round_}: {missing}"
        assert now_blocks >= blocks, f"round {round_}: {now_blocks} of {blocks} blocks"
        assert all(not line.startswith(("WARN", "ERROR")) for line in lines), lines
        buckets, blocks = now_kept, now_blocks
    print(f"{KILLS} kills, {ended} of them after the end: nothing was lost; {blocks} blocks of {CHAINS} chains are kept")


def fill_the_disk(folder, node):
    disk = os.path.join(folder, "disk")
    os.mkdir(disk)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], check=True)
    try:
        path = os.path.join(disk, "history.redb")
        fill(folder, path, node)
        _, blocks, _ = kept(folder, path)
        second = Instance(folder, path, node)
        second.wait_for("/v1/c0/fee-trend?period=1h")
        ballast = os.open(os.path.join(disk, "ballast"), os.O_CREAT | os.O_WRONLY)
        try:
            while os.write(ballast, b"x" * 4096):
                pass
        except OSError:
            os.close(ballast)
        # Two writes fail, or succeed in the space that the file has.
        time.sleep(125)
        assert second.get("/v1/c0/gas-suggestion")[0] == 200, "prices are served"
        year = second.get("/v1/c0/fee-trend?period=1y")
        assert year[0] == 200, f"what the file has is served: {year}"
        lines = second.history_lines()
        assert sum(line.startswith("WARN") for line in lines) == 1, lines
        os.remove(os.path.join(disk, "ballast"))
        time.sleep(62)
        second.stop()
        lines_after = second.history_lines()[len(lines):]
        _, now_blocks, _ = kept(folder, path)
        assert now_blocks > blocks, f"{now_blocks} of {blocks} blocks"
        print(f"full disk: {lines}; with space again: {lines_after}; {blocks} blocks before, {now_blocks} after")
    finally:
        for instance in list(Instance.running):
            instance.kill()
        subprocess.run(["umount", disk], check=True)


def start_twice(folder, node):
    path = os.path.join(folder, "twice.redb")
    first = Instance(folder, path, node)
    first.wait_for("/v1/c0/fee-trend?period=1h")
    second = Instance(folder, path, node)
    second.wait_for("/v1/c0/gas-suggestion")
    time.sleep(0.5)
    said = second.history_lines()
    first.stop()
    # It tries again at the next minute.
    deadline = time.monotonic() + 70
    while not any("opened" in line for line in second.history_lines()):
        assert time.monotonic() < deadline, second.history_lines()
        time.sleep(0.1)
    second.stop()
    print(f"two instances: the second says {said}, then {second.history_lines()[len(said):]}")


def open_bad_files(folder, node):
    good = os.path.join(folder, "good.redb")
    fill(folder, good, node)
    whole = open(good, "rb").read()
    bad = {"truncated": whole[: len(whole) // 2], "one byte short": whole[:-1], "foreign": b'{"a":1}', "empty": b""}
    for name, content in bad.items():
        path = os.path.join(folder, f"bad-{name.replace(' ', '-')}.redb")
        with open(path, "wb") as file:
            file.write(content)
        instance = Instance(folder, path, node)
        instance.wait_for("/v1/c0/gas-suggestion")
        time.sleep(0.3)
        instance.stop()
        print(f"{name} file: {instance.history_lines()}")
        if name == "foreign":
            assert open(path, "rb").read() == content
    link = os.path.join(folder, "link.redb")
    target = os.path.join(folder, "target")
    os.symlink(target, link)
    instance = Instance(folder, link, node)
    instance.wait_for("/v1/c0/gas-suggestion")
    instance.stop()
    assert not os.path.exists(target)
    print(f"planted link: {instance.history_lines()}")


recorded = subprocess.Popen([sys.executable, RECORDED_NODE, "0", "0.2"], stdout=subprocess.PIPE, text=True)
try:
    address = "127.0.0.1:" + recorded.stdout.readline().strip()
    with tempfile.TemporaryDirectory() as folder:
        open_bad_files(folder, address)
        start_twice(folder, address)
        kill_while_writing(folder, address)
        fill_the_disk(folder, address)
finally:
    recorded.kill()
